"""The lockfile: the approved definitions of each server, in full, so that a change can be shown.

It is made for version control: sorted, one block for each tool. Every block and every server has a digest, so
a file that was edited by hand or merged badly is refused. The digest of a server covers its entry as written,
because it is checked whenever a bus is made.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import NoReturn, TypeVar

from toolbus.config.settings.limits import ServerLimits
from toolbus.core.files import LOCAL, UnreadableFile, read_plain, replaced
from toolbus.core.text.canonical import NotCanonical, digest
from toolbus.core.values.errors import LockError
from toolbus.core.values.records import JSON, Inventory, JSONObject
from toolbus.lock.definitions import KINDS, Kind, definition_digest, inventory_of, text_digest
from toolbus.schema.values import entries_of, is_object, items_of

T = TypeVar("T")
NAME = "toolbus.lock"
LOCAL_NAME = "toolbus.local.lock"
VERSION = 1
_RESTORE = "restore it from version control, or delete it and run 'toolbus lock'"
_MOST_BYTES = 256 << 20
_LATER: tuple[Kind, ...] = ("skills",)
"""Kinds that older files do not have, and that are left out of a file without any."""
_NAMES: Mapping[Kind, str] = {"templates": "uriTemplate", "skills": "uri"}
"""The field of a definition that names it, where it is not its name."""
_CONFLICT_MARKS = ("<<<<<<<", ">>>>>>>")

Migration = Callable[[dict[str, JSON]], dict[str, JSON]]
MIGRATIONS: Mapping[int, Migration] = {}
"""The migrations from a version to the next one."""


@dataclass(frozen=True, kw_only=True)
class LockedServer:
    """The approved launch line and definitions of one server."""

    launch: JSONObject
    package: JSONObject = field(default_factory=dict[str, JSON])
    """The package that a launcher such as `npx` resolved: its name and version."""
    instructions: str = ""
    definitions: Mapping[Kind, Mapping[str, JSONObject]] = field(
        default_factory=lambda: {kind: {} for kind in KINDS}
    )
    """The definitions by kind and by the server's own name."""

    def __post_init__(self) -> None:
        every = {kind: self.definitions.get(kind, {}) for kind in KINDS}
        object.__setattr__(self, "definitions", every)

    @cached_property
    def digests(self) -> dict[str, JSON]:
        """The digests of everything that it covers; `NotCanonical` if something has none.

        Computed when something is compared, which is after a server has started.
        """
        return {
            "launch": digest(self.launch),
            "package": digest(self.package),
            "instructions": text_digest(self.instructions),
            **{
                kind: {name: definition_digest(one) for name, one in self.definitions[kind].items()}
                for kind in KINDS
            },
        }

    def inventory(self, server: str, limits: ServerLimits) -> Inventory:
        """The inventory of the server when it was locked."""
        return inventory_of(server, self.definitions, self.instructions, limits)


@dataclass(frozen=True, slots=True, kw_only=True)
class Lockfile:
    """The approved servers by alias."""

    path: Path
    servers: Mapping[str, LockedServer]
    hooks: tuple[JSONObject, ...] = ()
    """The approved entries of `hooks`, in order."""


def lock_path(config_file: str) -> Path:
    """The path of a config's lockfile: next to it; `toolbus.local.yaml` has its own."""
    path = Path(config_file).absolute()
    return path.with_name(LOCAL_NAME if path.name == LOCAL else NAME)


def read_lock(path: Path) -> Lockfile | None:
    """The lockfile, or None if there is none; `LockError` if it cannot be used as it is."""
    try:
        content = read_plain(path, _MOST_BYTES)
    except FileNotFoundError:
        return None
    except UnreadableFile as error:
        raise LockError(path, str(error.strerror)) from None
    except OSError as error:
        raise LockError(path, f"cannot be read: {error.strerror or error}") from None
    return lock_in(content, path)


def lock_in(content: bytes, path: Path) -> Lockfile:
    """The lockfile with this content."""
    document = upgraded(_parsed(content, path), path)
    servers = document.get("servers")
    if not is_object(servers):
        raise LockError(path, f"has no servers; {_RESTORE}")
    return Lockfile(
        path=path,
        servers={alias: _server(path, alias, entry) for alias, entry in servers.items()},
        hooks=_hooks(path, document.get("hooks")),
    )


def write_lock(lock: Lockfile) -> None:
    """Write the lockfile, whole or not at all; `LockError` if that fails."""
    content = lock_text(lock).encode()
    try:
        with replaced(lock.path, f".{NAME}.") as draft:
            draft.write_bytes(content)
            # A file for the team, unlike the private ones in the state folder.
            draft.chmod(lock.path.stat().st_mode & 0o777 if lock.path.exists() else 0o644)
    except OSError as error:
        raise LockError(lock.path, f"cannot be written: {error.strerror or error}") from None


def lock_text(lock: Lockfile) -> str:
    """The content of the file: servers and blocks are sorted, definitions as the server sent them.

    The order of arguments is part of a prompt, so it stays as it is.
    """
    document = {
        "version": VERSION,
        **({"hooks": _hooks_section(lock.hooks)} if lock.hooks else {}),
        "servers": {alias: _entry(server) for alias, server in _sorted(lock.servers)},
    }
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def upgraded(
    document: dict[str, JSON], path: Path, migrations: Mapping[int, Migration] = MIGRATIONS, to: int = VERSION
) -> dict[str, JSON]:
    """The document in this version's format; `LockError` if it is newer, or has no version."""
    version = document.get("version")
    if not isinstance(version, int) or isinstance(version, bool):
        raise LockError(path, f"has no version; {_RESTORE}")
    if version > to:
        raise LockError(
            path,
            f"has version {version}, and this toolbus reads up to {to}; upgrade toolbus: nothing was changed",
        )
    while version < to:
        if version not in migrations:
            raise LockError(path, f"has the unknown version {version}; {_RESTORE}")
        document, version = migrations[version](document), version + 1
    return document


def _parsed(content: bytes, path: Path) -> dict[str, JSON]:
    try:
        text = content.decode()
    except UnicodeDecodeError:
        raise LockError(path, f"is not UTF-8; {_RESTORE}") from None
    if any(f"\n{mark}" in text or text.startswith(mark) for mark in _CONFLICT_MARKS):
        raise LockError(
            path, "has merge conflicts; take one side, and review the difference with 'toolbus lock diff'"
        )

    def unique(pairs: list[tuple[str, JSON]]) -> dict[str, JSON]:
        found = dict(pairs)
        if len(found) < len(pairs):
            raise LockError(path, f"has a key twice; {_RESTORE}")
        return found

    def refuse(name: str) -> NoReturn:
        raise LockError(path, f"contains {name}, which is not JSON; {_RESTORE}")

    try:
        document: JSON = json.loads(text, object_pairs_hook=unique, parse_constant=refuse)
    except json.JSONDecodeError as error:
        raise LockError(path, f"is not complete JSON (line {error.lineno}); {_RESTORE}") from None
    except LockError:  # which is a ValueError, too
        raise
    except (ValueError, RecursionError):
        raise LockError(path, f"is not JSON that can be read; {_RESTORE}") from None
    if not is_object(document):
        raise LockError(path, f"is not a JSON object; {_RESTORE}")
    return document


def _hooks_section(hooks: Sequence[JSONObject]) -> dict[str, JSON]:
    return {"digest": digest(list(hooks)), "stations": list(hooks)}


def _hooks(path: Path, section: JSON) -> tuple[JSONObject, ...]:
    if section is None:
        return ()
    entry = entries_of(section)
    hooks = items_of(entry.get("stations"))
    with suppress(NotCanonical):
        if all(map(is_object, hooks)) and entry.get("digest") == digest(hooks):
            return tuple(hooks)
    raise LockError(path, f"its hooks do not match their digest; was it edited by hand? {_RESTORE}")


def _server(path: Path, alias: str, entry: JSON) -> LockedServer:
    entry = entries_of(entry)
    named: dict[Kind, JSON] = {kind: entry.get(kind, {} if kind in _LATER else None) for kind in KINDS}
    if not all(is_object(part) for part in (entry.get("launch"), *named.values())):
        raise LockError(path, f"server {alias!r} is incomplete; {_RESTORE}")
    try:
        if entry.get("digest") != _entry_digest(entry):
            raise _edited(path, alias, entry)
        return LockedServer(
            launch=entry["launch"],
            package=entry.get("package", {}),
            instructions=entry.get("instructions", ""),
            definitions={
                kind: {name: block["definition"] for name, block in blocks.items()}
                for kind, blocks in named.items()
            },
        )
    except (KeyError, TypeError, AttributeError, NotCanonical):
        raise _edited(path, alias, {}) from None


def _edited(path: Path, alias: str, entry: JSONObject) -> LockError:
    """The error for an entry that does not match its digest; names the block, if only one does not."""
    what = f"server {alias!r}"
    for kind in KINDS:
        for name, block in entries_of(entry.get(kind)).items():
            definition = block["definition"]
            if block["digest"] != definition_digest(definition) or _name(kind, definition) != name:
                what = f"{kind[:-1]} {name!r} of server {alias!r}"
                break
    return LockError(path, f"{what} does not match its digest; was it edited by hand? {_RESTORE}")


def _name(kind: Kind, definition: JSONObject) -> JSON:
    return definition[_NAMES.get(kind, "name")]


def _entry(server: LockedServer) -> dict[str, JSON]:
    entry: dict[str, JSON] = {
        "launch": server.launch,
        **({"package": server.package} if server.package else {}),
        **({"instructions": server.instructions} if server.instructions else {}),
        **{
            kind: {
                name: {"digest": server.digests[kind][name], "definition": definition}
                for name, definition in _sorted(server.definitions[kind])
            }
            for kind in KINDS
            if kind not in _LATER or server.definitions[kind]
        },
    }
    return {"digest": _entry_digest(entry), **entry}


def entry_digest(server: LockedServer) -> str:
    """The digest of a server's entry, as it stands in the file."""
    return str(_entry(server)["digest"])


def _entry_digest(entry: JSONObject) -> str:
    return digest({key: value for key, value in entry.items() if key != "digest"})


def _sorted(named: Mapping[str, T]) -> list[tuple[str, T]]:
    return sorted(named.items(), key=lambda item: item[0])
