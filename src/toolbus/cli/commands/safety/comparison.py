"""The servers as they are now, next to the lockfile: for a person, as JSON and in SARIF 2.1.0.

Texts are compared word by word, arguments by what the change means. Code scanners of forges read SARIF.
"""

import json
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from toolbus.bus.inner import calls_of
from toolbus.cli.command import CommandResult, Invocation
from toolbus.cli.errors import Usage
from toolbus.cli.output.screen import (
    Screen,
    escaped_json,
    one_line,
    picked,
    quoted,
    short_path,
    styled,
    visible,
)
from toolbus.cli.session import open_bus
from toolbus.config import BusConfig
from toolbus.config.stations import station_codes
from toolbus.connect.opening.failure import CLIENTS_ONLY, awaits_client
from toolbus.core import version
from toolbus.core.text.display import counted
from toolbus.core.values.errors import ConfigError, LockError, problem_of
from toolbus.core.values.freshness import KINDS
from toolbus.core.values.records import JSON, JSONObject
from toolbus.lock.approval import Snapshot, snapshot, with_parts
from toolbus.lock.changes import EFFECTS, DefinitionChange, LockDifference, server_differences, word_changes
from toolbus.lock.deception import suspicions
from toolbus.lock.definitions import Kind
from toolbus.lock.drift import SINGULAR
from toolbus.lock.file import LockedServer, Lockfile, lock_path, read_lock
from toolbus.lock.launch import is_approved, launch_line, pin_warning
from toolbus.lock.stations import hook_differences, hook_locks, hooks_by_lock

if TYPE_CHECKING:
    from rich.text import Text

_STATUS = {"added": ("new", "green"), "removed": ("removed", "red"), "changed": ("changed", "yellow")}
_CONTEXT = 40
"""The number of unchanged characters shown on each side of a change."""
_MOST_LINES = 20
"""The number of tools, prompts and templates of new servers that get a line of their own."""
_MOST_NAMES = 5
"""The number of names of a new server shown for each kind."""
_KIND_OF: dict[str, Kind] = {singular: kind for kind, singular in SINGULAR.items()}
_RULES = {
    "added": "Something is not in the lockfile.",
    "changed": "Something differs from the lockfile.",
    "removed": "Something in the lockfile is not offered any more.",
    "failed": "A server could not be compared with the lockfile.",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """The servers as they are now, next to the lockfile."""

    config: BusConfig
    path: Path
    old: Mapping[str, LockedServer] | None
    """None if there is no lockfile."""
    locks: Mapping[Path, Mapping[str, LockedServer]]
    """The servers in each lockfile; each file of the config has its own."""
    now: Mapping[str, Snapshot]
    """The servers that could be listed."""
    failed: Mapping[str, str] = field(default_factory=dict[str, str])
    """The reasons why other servers could not be listed."""
    for_clients: tuple[str, ...] = ()
    """Servers that list their tools only for clients of the gateway."""
    gone: tuple[str, ...] = ()
    """Servers in the lockfile that are not in the config any more."""
    old_hooks: Mapping[Path, Sequence[JSONObject]] = field(default_factory=dict[Path, Sequence[JSONObject]])
    """The hooks in each lockfile."""
    hooks: Mapping[Path, Sequence[JSONObject]] = field(default_factory=dict[Path, Sequence[JSONObject]])
    """The hooks of the config now, by lockfile; empty if only some servers are compared."""

    @property
    def differences(self) -> list[LockDifference]:
        """The differences from the lockfile."""
        old = self.old or {}
        removed = [
            LockDifference(server=alias, kind="launch", name="", status="removed") for alias in self.gone
        ]
        hooks = [
            one
            for path, now in self.hooks.items()
            for one in hook_differences(self.old_hooks.get(path, ()), now)
        ]
        servers = [
            one
            for alias, now in self.now.items()
            for one in server_differences(alias, old.get(alias), now.locked)
        ]
        return [*removed, *hooks, *servers]

    @property
    def drift(self) -> list[LockDifference]:
        """The differences that somebody has to approve.

        Definitions that this user cannot see are not included; a server that left the config is.
        """
        return [
            one
            for one in self.differences
            if (one.status != "removed" or one.kind in ("launch", "hook")) and not self._is_stricter(one)
        ]

    def _is_stricter(self, difference: LockDifference) -> bool:
        """Whether a server only got a sandbox, or its sandbox is only recorded now."""
        alias, old = difference.server, self.old or {}
        is_known = difference.kind == "launch" and alias in self.now and alias in old
        return is_known and is_approved(self.now[alias].locked.launch, old[alias].launch)

    @property
    def compared(self) -> frozenset[str]:
        """The servers that were compared, or could not be."""
        return frozenset((*self.now, *self.failed, *self.for_clients))

    @property
    def updated(self) -> Lockfile:
        """The lockfile with everything that was listed; the rest is kept."""
        kept = {alias: server for alias, server in (self.old or {}).items() if alias not in self.gone}
        return Lockfile(
            path=self.path, servers={**kept, **{alias: s.locked for alias, s in self.now.items()}}
        )

    @property
    def files(self) -> list[Lockfile]:
        """The lockfiles to write: each server is in the one beside the file with its entry."""
        paths = {lock_path(self.config.file_of(alias) or "") for alias in self.now}
        if self.gone or not paths:
            paths.add(self.path)
        paths |= self.hooks.keys()
        found: list[Lockfile] = []
        for path in sorted(paths):
            gone = self.gone if path == self.path else ()
            kept = {alias: server for alias, server in self.locks.get(path, {}).items() if alias not in gone}
            now = {
                alias: one.locked
                for alias, one in self.now.items()
                if lock_path(self.config.file_of(alias) or "") == path
            }
            hooks = tuple(self.hooks.get(path, self.old_hooks.get(path, ())))
            found.append(Lockfile(path=path, servers={**kept, **now}, hooks=hooks))
        return found

    @property
    def warnings(self) -> list[str]:
        """Points for a reviewer to look at, one sentence each."""
        left_out = [
            f"{alias}/{bad.tool}: left out of the lock: {bad.reason}"
            for alias, now in self.now.items()
            for bad in now.quarantined
        ]
        pins = [
            f"{alias}: {warning}"
            for alias in self.now
            if (warning := pin_warning(self.config.servers[alias]))
        ]
        # With the servers that were not listed now: a name may look like one of theirs.
        found = suspicions(self.updated.servers)
        suspect = [
            f"{one.server}{f'/{one.tool}' if one.tool else ''}: {one.reason}"
            for one in found
            if one.server in self.now
        ]
        return [*left_out, *pins, *suspect]


async def compared(own: Invocation, servers: Sequence[str], *, must_exist: bool = False) -> Comparison:
    """Compare these servers, by default all; with `must_exist`, `LockError` without a lockfile."""
    config = own.config
    if config.file is None:
        raise ConfigError("the config is not a file, so it has no lockfile")
    selected = own.selected(servers) if servers else _to_compare(config, own.selected())
    path = lock_path(config.file)
    locks: dict[Path, Mapping[str, LockedServer]] = {}
    old_hooks: dict[Path, Sequence[JSONObject]] = {}
    for one in {path, *hook_locks(config), *(lock_path(config.file_of(alias) or "") for alias in selected)}:
        if (file := read_lock(one)) is not None:
            locks[one], old_hooks[one] = file.servers, file.hooks
    hooks = {} if servers else _hooks_now(config, {path, *old_hooks})
    old = None if not locks else {**locks.get(path, {}), **_own_entries(config, selected, locks)}
    async with open_bus(own.screen, _unlocked(config), selected) as bus:
        await calls_of(bus).refresh(*KINDS)
        states = {alias: bus.servers[alias] for alias in selected}
        now = {
            alias: snapshot(
                config.servers[alias], config.folder, bus.inventories[alias], (old or {}).get(alias)
            )
            for alias in selected
            if states[alias].state == "ready"
        }
        errors = bus.failures
    if must_exist and old is None:
        raise LockError(path, "does not exist; create it: toolbus lock")
    return Comparison(
        config=config,
        path=path,
        old=old,
        locks=locks,
        now=now,
        failed={
            alias: problem_of(errors[alias]) if alias in errors else status.state
            for alias, status in states.items()
            if alias not in now and not awaits_client(errors.get(alias))
        },
        for_clients=tuple(alias for alias in selected if awaits_client(errors.get(alias))),
        old_hooks=old_hooks,
        hooks=hooks,
        gone=tuple(
            alias
            for alias in locks.get(path, ())
            if not servers and alias not in (*config.servers, *config.disabled, *config.outside)
        ),
    )


def _hooks_now(config: BusConfig, paths: Iterable[Path]) -> dict[Path, Sequence[JSONObject]]:
    """The hooks of the config, by lockfile; hooks of another file only if it has a lockfile."""
    found = hooks_by_lock(station_codes(config))
    return {path: found.get(path, []) for path in paths if path in found or path in hook_locks(config)}


def _to_compare(config: BusConfig, aliases: Sequence[str]) -> list[str]:
    """The servers of this file, and of every other file that already has a lockfile."""
    found = [
        alias
        for alias in aliases
        if (file := config.file_of(alias)) == config.file or lock_path(file or "").is_file()
    ]
    if not found:
        raise Usage(f"every server is of another file; name those to lock: toolbus lock {aliases[0]}")
    return found


def _own_entries(
    config: BusConfig, aliases: Iterable[str], locks: Mapping[Path, Mapping[str, LockedServer]]
) -> dict[str, LockedServer]:
    """The locked entry of each server in its own lockfile."""
    own = {alias: locks.get(lock_path(config.file_of(alias) or ""), {}) for alias in aliases}
    return {alias: servers[alias] for alias, servers in own.items() if alias in servers}


def _unlocked(config: BusConfig) -> BusConfig:
    servers = {alias: server.model_copy(update={"lock": "off"}) for alias, server in config.servers.items()}
    return config.model_copy(update={"lock": "off", "for_lock": True, "servers": servers})


def only_tool(found: Comparison, alias: str, tool: str) -> Comparison:
    """The comparison as if only this tool had changed."""
    now = found.now[alias].locked
    if (bad := next((bad for bad in found.now[alias].quarantined if bad.tool == tool), None)) is not None:
        raise Usage(f"{quoted(tool)} of server {alias!r} cannot be locked: {bad.reason}")
    old = (found.old or {}).get(alias) or LockedServer(launch=now.launch, package=now.package)
    if not is_approved(now.launch, old.launch):
        raise Usage(
            f"the launch of server {alias!r} also changed; approve all of it: toolbus lock approve {alias}"
        )
    if tool not in now.definitions["tools"] and tool not in old.definitions["tools"]:
        known = ", ".join(map(quoted, now.definitions["tools"])) or "none"
        raise Usage(f"server {alias!r} offers no tool {quoted(tool)}; it offers {known}")
    return replace(found, now={alias: Snapshot(locked=with_parts(old, now, [("tool", tool)]))})


def report(screen: Screen, found: Comparison, *, written: bool, code: int = 0) -> CommandResult:
    """The result of a comparison, which may have been written to the lockfile."""

    def document() -> JSON:
        return {
            "file": str(found.path),
            "written": written,
            "differences": [_difference_json(one) for one in found.differences],
            "warnings": list[JSON](found.warnings),
            "failed": dict(found.failed),
            **({"for_clients": list(found.for_clients)} if found.for_clients else {}),
        }

    return CommandResult(document, lambda: print_comparison(screen, found), code)


def print_comparison(screen: Screen, found: Comparison) -> None:
    """Print the differences, and what a reviewer should look at."""
    differences = found.differences
    _print_differences(screen, differences, found.updated.servers, found.old or {})
    for warning in found.warnings:
        screen.line((visible(f"warning: {warning}"), "yellow"))
    for alias in found.for_clients:
        off = "" if found.config.servers[alias].lock == "off" else "; set lock: off in its entry to use it"
        screen.line((visible(f"{alias} cannot be locked: {CLIENTS_ONLY}{off}"), "yellow"))
    for alias, reason in found.failed.items():
        is_known = alias in (found.old or {})
        kept = "; its lock is kept" if is_known else f"; once it starts: toolbus lock approve {alias}"
        screen.line((visible(f"{alias} could not be compared: {reason}{kept}"), "red"))
    if not differences and found.old is not None and found.now:
        tools = sum(len(now.locked.definitions["tools"]) for now in found.now.values())
        counts = f"{counted(len(found.now), 'server')}, {counted(tools, 'tool')}"
        screen.line(f"no differences: {counts}")


def _print_differences(
    screen: Screen,
    differences: Sequence[LockDifference],
    servers: Mapping[str, LockedServer],
    known: Container[str],
) -> None:
    """Print each difference with its changes below; on a server that is not `known`, one line each.

    If that would be too many lines, such a server has one for each kind.
    """
    new = [one for one in differences if one.status == "added" and one.server not in known]
    is_long = sum(one.kind in _KIND_OF for one in new) > _MOST_LINES
    for (server, kind), group in _grouped(new).items():
        if is_long and kind in _KIND_OF:
            names = _some([one.name for one in group])
            _print_head(screen, f"{server}: {counted(len(group), kind)}", "added", names)
            continue
        for one in group:
            _print_head(screen, one.label, "added", _about(one, servers))
    for one in differences:
        if one not in new:
            is_bare = one.status == "added" and not one.changes
            _print_head(screen, one.label, one.status, _about(one, servers) if is_bare else "")
            for change in one.changes:
                screen.line("  ", _change_text(change))


def _grouped(differences: Iterable[LockDifference]) -> dict[tuple[str, str], list[LockDifference]]:
    groups: dict[tuple[str, str], list[LockDifference]] = {}
    for one in differences:
        groups.setdefault((one.server, one.kind), []).append(one)
    return groups


def _some(names: Sequence[str]) -> str:
    """The first of many names."""
    more = f", and {len(names) - _MOST_NAMES} more; --json lists them" if len(names) > _MOST_NAMES else ""
    return one_line(", ".join(names[:_MOST_NAMES])) + more


def _print_head(screen: Screen, label: str, status: str, about: str) -> None:
    screen.line((visible(label), "bold"), "  ", _STATUS[status], (f"  {about}" if about else "", "dim"))


def _difference_json(one: LockDifference) -> JSON:
    """A difference for `--json`."""
    changes = [picked(change, "at effect before after") for change in one.changes]
    return {**picked(one, "server kind name status"), "changes": changes}


def _about(one: LockDifference, servers: Mapping[str, LockedServer]) -> str:
    """The new value, in one line."""
    if one.kind == "hook":
        return one_line(", ".join(change.at for change in one.changes))
    server = servers[one.server]
    if one.kind == "launch":
        return one_line(launch_line(dict(server.launch)))
    if one.kind == "package":
        return one_line(" ".join(map(str, server.package.values())))
    if one.kind == "instructions":
        return one_line(server.instructions)
    definition = server.definitions[_KIND_OF[one.kind]].get(one.name, {})
    return one_line(str(definition.get("description") or definition.get("title") or ""))


def _change_text(change: DefinitionChange) -> "Text":
    head = f"{visible(change.at)}: "
    if change.is_text:
        return styled(head, _words(change.before, change.after))
    if change.effect == "changed":
        return styled(head, (_shown(change.before), "red"), " -> ", (_shown(change.after), "green"))
    if change.effect in ("widened", "narrowed"):
        before, after = (_shown(value, "anything") for value in (change.before, change.after))
        return styled(head, (EFFECTS[change.effect], "yellow"), f": {before} -> {after}")
    if change.effect == "added" and isinstance(change.after, str):
        return styled(head, _words("", change.after))
    value = change.before if change.effect == "removed" else change.after
    style = {"removed": "red", "required": "yellow"}.get(change.effect, "green")
    new = "new, required" if change.effect == "required" and value is not None else EFFECTS[change.effect]
    return styled(head, (new, style), "" if value is None else f": {_shown(value)}")


def _shown(value: JSON, missing: str = "nothing") -> str:
    return missing if value is None else escaped_json(value)


def _words(before: str, after: str) -> "Text":
    from rich.text import Text

    parts = word_changes(before, after)
    pieces = [
        piece
        for index, (kind, text) in enumerate(parts)
        for piece in _piece(kind, visible(text), is_first=index == 0, is_last=index == len(parts) - 1)
    ]
    first, *rest = styled(*pieces).split("\n", allow_blank=True)
    return Text("\n").join([first, *(styled("    ", piece) if piece else piece for piece in rest)])


def _piece(kind: str, text: str, *, is_first: bool, is_last: bool) -> Iterator[tuple[str, str]]:
    """A part of the text with its style; long unchanged parts are shortened, changed ones never."""
    if kind == "removed":
        yield f"[-{text}-]", "red"
    elif kind == "added":
        yield f"{{+{text}+}}", "green"
    elif len(text) <= 2 * _CONTEXT:
        yield text, ""
    else:
        yield ("" if is_first else text[:_CONTEXT]), ""
        yield "...", "dim"
        yield ("" if is_last else text[-_CONTEXT:]), ""


# SARIF


def sarif_report(path: Path, differences: Sequence[LockDifference], failed: Mapping[str, str]) -> JSON:
    """The report of one run."""
    lines = path.read_text(encoding="utf-8").splitlines() if path.is_file() else []
    rules = [{"id": f"lock/{name}", "shortDescription": {"text": text}} for name, text in _RULES.items()]
    driver = {
        "name": "toolbus",
        "version": version(),
        "rules": rules,
    }
    return {
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{"tool": {"driver": driver}, "results": list(_results(path, lines, differences, failed))}],
    }


def _results(
    path: Path, lines: Sequence[str], differences: Sequence[LockDifference], failed: Mapping[str, str]
) -> Iterator[JSON]:
    for one in differences:
        details = "; ".join(_change_text(change).plain for change in one.changes)
        text = f"{one.label} is {'new' if one.status == 'added' else one.status}"
        line = _line(lines, one.server, one.name)
        yield _result(f"lock/{one.status}", visible(f"{text}: {details}" if details else text), path, line)
    for alias, reason in failed.items():
        yield _result(
            "lock/failed", visible(f"{alias} could not be compared: {reason}"), path, _line(lines, alias, "")
        )


def _result(rule: str, text: str, path: Path, line: int) -> JSON:
    where = {"artifactLocation": {"uri": _uri(path)}, "region": {"startLine": line}}
    return {
        "ruleId": rule,
        "level": "error",
        "message": {"text": text},
        "locations": [{"physicalLocation": where}],
    }


def _uri(path: Path) -> str:
    """Relative to the current folder, which scanners take for the root of the repository."""
    relative = Path(short_path(path))
    return path.absolute().as_uri() if relative.is_absolute() else quote(relative.as_posix())


def _line(lines: Sequence[str], server: str, name: str) -> int:
    """The line of a block in the lockfile; if it is missing, the line of its server, or 1."""
    opening = [
        f"    {json.dumps(server, ensure_ascii=False)}: {{",
        f"        {json.dumps(name, ensure_ascii=False)}: {{",
    ]
    try:
        found = lines.index(opening[0])
    except ValueError:
        return 1
    for number in range(found + 1, len(lines)):
        if lines[number] == opening[1]:
            return number + 1
        if lines[number].startswith("    }"):
            break
    return found + 1
