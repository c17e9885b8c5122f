"""The plan of a change to a config file: its text before and after, and the resulting config.

A plan is computed again when it is written. Its digest covers both texts, so that nothing else is written
than was shown.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import unified_diff
from functools import cached_property
from hashlib import sha256
from pathlib import Path

from toolbus.config import BusConfig, ServerConfig
from toolbus.config.editing.edit import servers_in, with_changed_entry, with_switch, without_server
from toolbus.config.editing.edited import EditedFile
from toolbus.config.editing.yaml_json import NotEditable
from toolbus.config.find import local_beside, project_files, user_config_file, with_config_cwd
from toolbus.config.hosts.read import document_in, read_content
from toolbus.config.launch.administrator import read_administrator
from toolbus.config.layers import ConfigFile
from toolbus.config.load import config_of, with_profile
from toolbus.config.permitted import permitted_config
from toolbus.config.review import ProjectReview, fact_lines
from toolbus.config.secrets.literals import Secret, credentials_in
from toolbus.config.secrets.reference import MASK
from toolbus.core.text.display import without_passwords
from toolbus.core.values.errors import ServerNotFound, ToolbusError
from toolbus.core.values.records import JSON
from toolbus.lock.file import lock_path

Change = Callable[[EditedFile], str]
"""The text of a file after a change."""
MOST_LINES = 2_000
"""Lines of a difference that are shown; a longer one is not written from here."""


class NotPlanned(ToolbusError):
    """A change that the console cannot make to a file."""


@dataclass(frozen=True, kw_only=True)
class FilePlan:
    """One change to one file."""

    edited: EditedFile
    after: str = field(repr=False)
    alias: str
    running: BusConfig = field(repr=False)
    """The config that the bus uses."""

    @property
    def path(self) -> Path:
        return self.edited.path

    @property
    def is_change(self) -> bool:
        return self.after != self.edited.text

    @cached_property
    def digest(self) -> str:
        """The digest of the file as it is, and as it would be."""
        parts = [str(self.path), self.edited.text, self.after]
        return sha256(json.dumps(parts).encode(errors="replace")).hexdigest()

    @cached_property
    def difference(self) -> list[str]:
        """The unified diff, without credentials."""
        before, after = (self._shown(text) for text in (self.edited.text, self.after))
        name = self.path.name
        return [line.rstrip("\n") for line in unified_diff(before, after, name, name)]

    def _shown(self, text: str) -> list[str]:
        for value in self._credentials:
            for form in {value, json.dumps(value)[1:-1], json.dumps(value, ensure_ascii=False)[1:-1]}:
                text = text.replace(form, MASK)
        return without_passwords(text).splitlines(keepends=True)

    @cached_property
    def _credentials(self) -> list[str]:
        """The literal credentials of both texts, the longest first."""
        found = set[str]()
        for text in (self.edited.text, self.after):
            if text.strip():
                found |= credentials_in(document_in(text.encode(), self.path))
        return sorted(found, key=len, reverse=True)

    @cached_property
    def config(self) -> BusConfig:
        """The config as the bus would read it then; ConfigError if it is invalid."""
        base = Path(self.running.file or self.path)
        layers = [self._layer(base)]
        if (local := local_beside(base)) is not None:
            layers.append(self._layer(local))
        config = config_of(*layers)
        if self.running.reviewed is not None:  # found, not named
            config = with_config_cwd(config)
            config = config.model_copy(update={"reviewed": project_files(config)})
        return permitted_config(config, read_administrator())

    def _layer(self, path: Path) -> ConfigFile:
        content = self.after.encode() if path == self.path else read_content(path)
        return ConfigFile.read(path, content)

    @cached_property
    def server(self) -> ServerConfig | None:
        """The server as it would be; None if it would be removed."""
        if self.path not in (Path(self.running.file or ""), local_beside(Path(self.running.file or ""))):
            alone = config_of(ConfigFile.read(self.path, self.after.encode()))
            return _server(permitted_config(alone, read_administrator()), self.alias)
        return _server(self.config, self.alias)

    @property
    def problem(self) -> str | None:
        """The reason if it must not be written."""
        if not self.edited.is_blank and (problem := self.edited.problem_with(self.after)) is not None:
            return problem
        if self.server is not None and self.server.mistake is not None:
            return str(self.server.mistake)
        return None

    def facts(self) -> list[tuple[str, str]]:
        """The commands, hosts and files that the server would use, as `toolbus trust` shows them."""
        if self.server is None or self.server.mistake is not None:
            return []
        reviewed = self.config if self.config.folder is not None else self.running
        return list(fact_lines(ProjectReview(reviewed).facts(self.server)))

    def notes(self) -> Iterator[str]:
        """Notes for the person who writes it."""
        file = self.running.file
        if file is not None and self.path != Path(file):
            yield f"The entry is in {self.path}. Other configs may use that file."
        if not (self.edited.is_own or self.edited.is_named):
            yield "The file is not trusted as it is now; the change is used after: toolbus trust"
        profile = self.running.profile
        if profile is not None and self.alias in with_profile(self.config, profile).outside:
            yield f"This bus uses the profile {profile!r}, which does not have this server."
        if self.server is not None and self._is_held:
            yield "The lockfile holds the server until you approve its launch line in the Inbox."

    @property
    def _is_held(self) -> bool:
        assert self.server is not None
        before = self.running.servers.get(self.alias)
        has_lock = lock_path(str(self.path)).is_file() and (self.server.lock or self.config.lock) != "off"
        return has_lock and (before is None or _launch(before) != _launch(self.server))


def _server(config: BusConfig, alias: str) -> ServerConfig | None:
    if alias in config.off:
        config = config.switch(alias, on=True)
    return config.servers.get(alias)


def _launch(server: ServerConfig) -> Sequence[object]:
    return [list(server.texts()), server.inherit_env, server.sandbox, server.verify]


def file_of_config(config: BusConfig) -> Path:
    """The file that `toolbus add` writes to."""
    if config.file is None:
        raise NotPlanned("this bus has no config file; add servers where the program makes its config")
    return Path(config.file)


def file_with(config: BusConfig, alias: str) -> Path:
    """The file that has the entry of a server; `ServerNotFound` if none has it."""
    base = file_of_config(config)
    local = local_beside(base)
    user = user_config_file() if config.extends is not None else None
    for path in filter(None, (base, local, user)):
        text = read_content(path).decode("utf-8", errors="replace")
        if text.strip() and alias in servers_in(text, path):
            return path
    raise ServerNotFound(alias, [*config.servers, *config.disabled])


def entry_in(config: BusConfig, alias: str) -> tuple[Path, JSON]:
    """The file and the entry of a server, as written."""
    path = file_with(config, alias)
    return path, servers_in(read_content(path).decode("utf-8", errors="replace"), path)[alias]


def planned(config: BusConfig, path: Path, alias: str, change: Change) -> FilePlan:
    """The plan of a change to the file as it is now; `NotPlanned` if it has to be made by hand."""
    edited = EditedFile.read(path, is_named=config.reviewed is None)
    try:
        after = change(edited)
    except NotEditable as error:
        raise NotPlanned(f"{path} {error.problem}") from None
    plan = FilePlan(edited=edited, after=after, alias=alias, running=config)
    if len(plan.difference) > MOST_LINES:
        raise NotPlanned(f"the change to {path} has more than {MOST_LINES:,} lines; edit it by hand")
    return plan


def adding(alias: str, entry: Mapping[str, JSON]) -> Change:
    """A new server at the end."""

    def change(edited: EditedFile) -> str:
        if alias in edited.servers():
            raise NotPlanned(f"{edited.path} already has a server {alias!r}; choose another name")
        return edited.with_server(alias, entry)

    return change


def editing(alias: str, entry: JSON) -> Change:
    """Another entry for a server."""
    return lambda edited: with_changed_entry(edited.text, edited.path, alias, entry)


def switching(alias: str, *, on: bool) -> Change:
    """A server enabled or disabled, as `toolbus enable` and `toolbus disable` do it."""
    return lambda edited: with_switch(edited.text, edited.path, alias, on=on)


def removing(alias: str) -> Change:
    """A config without a server, as `toolbus remove` leaves it."""
    return lambda edited: without_server(edited.text, edited.path, alias)


def secret_lines(secrets: Sequence[Secret], place: str) -> list[tuple[str, str]]:
    """Lines of a review about secrets."""
    return [("secret", f"{one.key} goes to {place} as {one.name}") for one in secrets]
