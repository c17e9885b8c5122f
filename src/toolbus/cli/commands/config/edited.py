"""The config that a command edits: read, changed with new servers and secrets, and written.

Keeps the file's comments, order and layout. A trusted file stays trusted; an untrusted one stays untrusted.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from toolbus.cli.command import CommandResult, Invocation
from toolbus.cli.errors import Usage
from toolbus.cli.options import suggested
from toolbus.cli.output.screen import Screen, picked, short_path, visible
from toolbus.config import find_config
from toolbus.config.editing.config_file import EditedFile, edited_config
from toolbus.config.editing.edit import new_document, with_servers
from toolbus.config.editing.yaml_json import NotEditable
from toolbus.config.find import DOTENV, named_config
from toolbus.config.location import is_mapping
from toolbus.config.secrets.literals import (
    Secret,
    SecretNames,
    referenced_names,
    with_references,
)
from toolbus.core.values.errors import ConfigError
from toolbus.core.values.records import JSON

OAUTH = "oauth"


@dataclass(frozen=True, slots=True, kw_only=True)
class NewServer:
    """The arguments of `toolbus add`."""

    target: Sequence[str]
    """A URL, or a command and its arguments."""
    env: Sequence[str]
    headers: Sequence[str]
    auth: str | None
    """`oauth`, or a token."""
    transport: str | None
    cwd: str | None


def edited_file(own: Invocation) -> EditedFile:
    """The config in use, or a new file."""
    named = own.settings.config or named_config()
    path = named
    if path is None:
        try:
            path = find_config()
        except ConfigError:
            path = Path("toolbus.yaml")
    if path.exists():
        return edited_config(path, is_named=named is not None, shown=Path(short_path(path)))
    is_own = not (path.parent / DOTENV).exists()
    return EditedFile(path=Path(short_path(path)), is_named=named is not None, is_own=is_own)


def written(
    own: Invocation, edited: EditedFile, name: str, entry: Mapping[str, JSON], secrets: Sequence[Secret]
) -> CommandResult:
    """Write a new server and its secrets."""
    screen = own.screen
    trusted = save_edited(screen, edited, text_with_server(edited, name, entry), secrets)
    use = "login" if entry.get("auth") == OAUTH else "tools"
    step = f"toolbus {use} {name}" if trusted or edited.is_named else "toolbus trust"

    def lines() -> None:
        screen.line(visible(f"added {name} to {edited.path}; next: {suggested(step)}"))
        for secret in secrets:
            screen.note(f"{secret.key} is a secret; moved it to {DOTENV}, replaced by ${{{secret.name}}}")
        if secrets and (edited.path.parent / ".git").exists():
            screen.note(f"add {DOTENV} to .gitignore to keep it out of version control")

    document = {
        **edit_facts(edited, name),
        "entry": entry,
        "secrets": [picked(secret, "key name") for secret in secrets],
        "trusted": trusted,
    }
    return CommandResult(document, lines)


def edit_facts(edited: EditedFile, name: str) -> dict[str, JSON]:
    return {"file": str(edited.path), "server": name}


def referring(
    name: str, plain: Mapping[str, JSON], known: Mapping[str, JSON], env: dict[str, str]
) -> tuple[dict[str, JSON], Sequence[Secret]]:
    """The entry with references for its secrets, under names that the other entries do not use."""
    referred = (referenced_names(entry) for entry in known.values() if is_mapping(entry))
    token = plain.get("auth")
    is_token = token not in (None, OAUTH)
    entry, secrets = with_references(
        name,
        {key: value for key, value in plain.items() if key != "auth"}
        | ({"auth": {"token": token}} if is_token else {}),
        SecretNames(env),
        avoid=frozenset[str]().union(*referred),
    )
    if token is not None:
        entry["auth"] = entry["auth"]["token"] if is_token else token
    return entry, secrets


def given_pairs(given: Sequence[str], option: str, separator: str) -> dict[str, JSON]:
    pairs: dict[str, JSON] = {}
    for text in given:
        key, *value = re.split(separator, text, maxsplit=1)
        if not key or not value:
            raise Usage(f"{option} takes KEY=VALUE, not {text.partition('=')[0]!r}")
        pairs[key] = value[0]
    return pairs


def text_with_server(edited: EditedFile, name: str, entry: Mapping[str, JSON]) -> str:
    """The file's text with the server; if it cannot be edited, `Usage` shows what to paste."""
    if edited.is_blank:
        gap = "" if not edited.text or edited.text.endswith("\n") else "\n"
        return edited.text + gap + new_document(edited.path, {name: entry})
    try:
        return with_servers(edited.text, edited.path, {name: entry})
    except NotEditable as error:
        shown = new_document(edited.path, {name: entry}).splitlines()
        raise Usage(f"{edited.path} {error.problem}:", tuple(shown)) from None


def save_edited(screen: Screen, edited: EditedFile, after: str, secrets: Sequence[Secret] = ()) -> bool:
    """Write the file and the secrets; return whether the file is trusted afterwards."""
    if (problem := edited.fault(after)) is not None:
        raise Usage(f"the change would make {edited.path} invalid: {problem}")
    if (problem := edited.write(after, secrets)) is not None:
        screen.note(problem)
    return edited.is_own and problem is None
