"""The config that somebody edits: read, changed as text with new servers and secrets, and written.

Keeps the file's comments, order and layout. A trusted file stays trusted; an untrusted one stays untrusted.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from toolbus.config.editing.edit import new_document, servers_in, with_servers
from toolbus.config.editing.save import save_in_project
from toolbus.config.find import DOTENV
from toolbus.config.hosts.read import document_in, read_content
from toolbus.config.load import config_in
from toolbus.config.location import is_mapping
from toolbus.config.model import OFFICIAL_REGISTRY
from toolbus.config.secrets.literals import (
    Secret,
    SecretNames,
    add_secrets,
    referenced_names,
    with_references,
)
from toolbus.config.trust import is_trusted, trust_content
from toolbus.core.values.errors import ConfigError
from toolbus.core.values.records import JSON

OAUTH = "oauth"


@dataclass(frozen=True, slots=True, kw_only=True)
class EditedFile:
    """The file to edit, before the change."""

    path: Path
    text: str = ""
    is_named: bool
    """Whether the user named it; such a file needs no trust."""
    is_own: bool
    """Whether all of its content is trusted or the user's own; then it stays trusted after the edit."""

    @classmethod
    def read(cls, path: Path, *, is_named: bool) -> "EditedFile":
        """The file at that path, which need not exist; ConfigError if it cannot be parsed."""
        if not path.exists():
            return cls(path=path, is_named=is_named, is_own=not (path.parent / DOTENV).exists())
        content = read_content(path)
        text = content.decode("utf-8", errors="replace")
        edited = cls(path=path, text=text, is_named=is_named, is_own=is_trusted(path))
        if not edited.is_blank:
            document_in(content, path)
        return edited

    @property
    def is_blank(self) -> bool:
        """Whether it is empty, apart from comments."""
        return all(not line.strip() or line.lstrip().startswith("#") for line in self.text.splitlines())

    def servers(self) -> Mapping[str, JSON]:
        """Its server entries by alias."""
        return {} if self.is_blank else servers_in(self.text, self.path)

    def with_server(self, name: str, entry: Mapping[str, JSON]) -> str:
        """Its text with a new server; `NotEditable` if its layout cannot be kept."""
        if self.is_blank:
            gap = "" if not self.text or self.text.endswith("\n") else "\n"
            return self.text + gap + new_document(self.path, {name: entry})
        return with_servers(self.text, self.path, {name: entry})

    def problem_with(self, after: str) -> str | None:
        """The mistake that the change would make in a valid config; None if it makes none."""
        return None if config_problem(self.text, self.path) else config_problem(after, self.path)

    def save(self, after: str, secrets: Sequence[Secret] = ()) -> str | None:
        """Write the secrets and the file; why it is not trusted afterwards, None if it is.

        Empty if it was not trusted before.
        """
        add_secrets(self.path.parent, secrets)
        save_in_project(self.path, after.encode())
        return trust_content(self.path, after.encode()) if self.is_own else ""

    @property
    def registry(self) -> str:
        """The registry that it names."""
        document: Mapping[JSON, JSON] = {}
        if not self.is_blank:
            document = document_in(self.text.encode(), self.path)
        return config_in(document, self.path).registry if "registry" in document else OFFICIAL_REGISTRY


def name_problem(name: str) -> str | None:
    """The reason why a new server cannot have that name."""
    if re.fullmatch(r"\w[\w.-]*", name):
        return None
    return f"invalid server name {name!r}; use letters, digits, '_', '-' and '.'"


def referring(
    name: str, plain: Mapping[str, JSON], known: Mapping[str, JSON], names: SecretNames
) -> tuple[dict[str, JSON], Sequence[Secret]]:
    """The entry with references for its secrets, under names that the other entries do not use."""
    referred = (referenced_names(entry) for entry in known.values() if is_mapping(entry))
    token = plain.get("auth")
    is_token = token is not None and token != OAUTH and not is_mapping(token)
    entry, secrets = with_references(
        name,
        {key: value for key, value in plain.items() if key != "auth" or is_mapping(value)}
        | ({"auth": {"token": token}} if is_token else {}),
        names,
        avoid=frozenset[str]().union(*referred),
    )
    if token is not None and not is_mapping(token):
        entry["auth"] = entry["auth"]["token"] if is_token else token
    return entry, secrets


def config_problem(text: str, path: Path) -> str | None:
    """The error in the text of a config, if any."""
    try:
        config_in(document_in(text.encode(), path), path)
    except ConfigError as error:
        return ": ".join(
            filter(None, (error.server and f"server {error.server!r}", error.key, error.problem))
        )
    return None
