"""`toolbus lock`, `diff` and `approve`: review what servers offer, and write it to the lockfile."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from rich.text import Text

from toolbus.cli.commands.safety.trust import confirm
from toolbus.cli.errors import FAILED, Usage
from toolbus.cli.input.ask import can_ask
from toolbus.cli.options import SharedOptions
from toolbus.cli.output.differences import difference_json, print_differences
from toolbus.cli.output.sarif import sarif_report
from toolbus.cli.output.screen import Screen, quoted, short_path, visible
from toolbus.cli.session import async_command, load_trusted_config, open_bus, selected_servers
from toolbus.config import BusConfig
from toolbus.core.text.display import counted
from toolbus.core.values.errors import ConfigError, LockError, ServerNotFound, problem_of
from toolbus.core.values.freshness import KINDS
from toolbus.core.values.records import JSON
from toolbus.lock.approval import Snapshot, snapshot, with_parts
from toolbus.lock.changes import LockDifference, server_differences
from toolbus.lock.deception import suspicions
from toolbus.lock.file import LockedServer, Lockfile, lock_path, read_lock, write_lock
from toolbus.lock.launch import is_approved, pin_warning


@dataclass(frozen=True, slots=True, kw_only=True)
class LockOptions:
    """The options of `lock`."""

    yes: bool = False
    check: bool = False
    sarif: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """The servers as they are now, next to the lockfile."""

    config: BusConfig
    path: Path
    old: Mapping[str, LockedServer] | None
    """None if there is no lockfile."""
    now: Mapping[str, Snapshot]
    """The servers that could be listed."""
    failed: Mapping[str, str] = field(default_factory=dict[str, str])
    """Why others could not be listed."""
    gone: tuple[str, ...] = ()
    """Servers in the lockfile that are not in the config any more."""

    @property
    def differences(self) -> list[LockDifference]:
        """What differs from the lockfile."""
        old = self.old or {}
        removed = [
            LockDifference(server=alias, kind="launch", name="", status="removed") for alias in self.gone
        ]
        return removed + [
            one
            for alias, now in self.now.items()
            for one in server_differences(alias, old.get(alias), now.locked)
        ]

    @property
    def drift(self) -> list[LockDifference]:
        """The differences that somebody has to approve.

        What this user cannot see is none of them; a server that left the config is.
        """
        return [
            one
            for one in self.differences
            if (one.status != "removed" or one.kind == "launch") and not self._is_stricter(one)
        ]

    def _is_stricter(self, difference: LockDifference) -> bool:
        """Whether a server only got a sandbox, or its sandbox is only recorded now."""
        alias, old = difference.server, self.old or {}
        is_known = difference.kind == "launch" and alias in self.now and alias in old
        return is_known and is_approved(self.now[alias].locked.launch, old[alias].launch)

    @property
    def updated(self) -> Lockfile:
        """The lockfile with everything that was listed; the rest is kept."""
        kept = {alias: server for alias, server in (self.old or {}).items() if alias not in self.gone}
        return Lockfile(
            path=self.path, servers={**kept, **{alias: s.locked for alias, s in self.now.items()}}
        )

    @property
    def warnings(self) -> list[str]:
        """What a reviewer should look at, one sentence each."""
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


@async_command
async def lock(settings: SharedOptions, servers: Sequence[str], options: LockOptions) -> int:
    """Write the lockfile after a review; with `check`, only compare."""
    if options.check and options.yes:
        raise Usage("--yes and --check cannot be combined; keep one")
    screen, found = Screen(settings), await _compare(settings, servers)
    differences = found.differences
    if options.check and found.old is None:
        raise LockError(found.path, "does not exist; create it: toolbus lock")
    drift = found.drift
    if options.sarif:
        screen.json(sarif_report(found.path, drift, found.failed))
        return FAILED if drift or found.failed else 0
    if options.check:
        _report(screen, found, written=False)
        return FAILED if drift or found.failed else 0
    is_needed = bool(differences) or (found.old is None and bool(found.now))
    agreed = is_needed and (options.yes or _ask(screen, found))
    if agreed:
        write_lock(found.updated)
    if screen.as_json or not is_needed or options.yes:
        _report(screen, found, written=agreed)
    if agreed:
        screen.note(_written(found.updated))
    elif is_needed:
        screen.note("nothing was written; to approve it without being asked, pass --yes")
    return FAILED if found.failed or (is_needed and not agreed) else 0


@async_command
async def diff(settings: SharedOptions, servers: Sequence[str]) -> int:
    """Print the differences; exit 1 only if a server could not be compared."""
    screen, found = Screen(settings), await _compare(settings, servers)
    if found.old is None:
        raise LockError(found.path, "does not exist; create it: toolbus lock")
    _report(screen, found, written=False)
    return FAILED if found.failed else 0


@async_command
async def approve(settings: SharedOptions, target: str) -> int:
    """Write one server, or one tool, to the lockfile as it is now."""
    alias, tool = _parsed(load_trusted_config(settings), target)
    screen, found = Screen(settings), await _compare(settings, [alias])
    if found.old is None:
        raise LockError(found.path, "does not exist; create it: toolbus lock")
    if alias in found.failed:
        _report(screen, found, written=False)
        return FAILED
    if tool is not None:
        found = _only_tool(found, alias, tool)
    write_lock(found.updated)
    _report(screen, found, written=True)
    screen.note(f"approved {visible(target)} in {short_path(found.path)}")
    return 0


async def _compare(settings: SharedOptions, servers: Sequence[str]) -> Comparison:
    config = load_trusted_config(settings)
    if config.file is None:
        raise ConfigError("the config is not a file, so it has no lockfile")
    selected = selected_servers(config, servers)
    path = lock_path(config.file)
    file = read_lock(path)
    old = None if file is None else file.servers
    async with open_bus(Screen(settings), _unlocked(config), selected) as bus:
        await bus.calls.refresh(*KINDS)
        states = {alias: bus.servers[alias] for alias in selected}
        now = {
            alias: snapshot(
                config.servers[alias], config.folder, bus.inventories[alias], (old or {}).get(alias)
            )
            for alias in selected
            if states[alias].state == "ready"
        }
        errors = bus.failures
    return Comparison(
        config=config,
        path=path,
        old=old,
        now=now,
        failed={
            alias: problem_of(errors[alias]) if alias in errors else status.state
            for alias, status in states.items()
            if alias not in now
        },
        gone=tuple(
            alias
            for alias in old or ()
            if not servers and alias not in config.servers and alias not in config.disabled
        ),
    )


def _unlocked(config: BusConfig) -> BusConfig:
    servers = {alias: server.model_copy(update={"lock": None}) for alias, server in config.servers.items()}
    return config.model_copy(update={"lock": "off", "for_lock": True, "servers": servers})


def _parsed(config: BusConfig, target: str) -> tuple[str, str | None]:
    """The server, and the tool if one is named."""
    if target in config.servers:
        return target, None
    for alias in config.servers:
        if target.startswith(f"{alias}/"):
            return alias, target.removeprefix(f"{alias}/")
    raise ServerNotFound(target.partition("/")[0], list(config.servers))


def _only_tool(found: Comparison, alias: str, tool: str) -> Comparison:
    """The comparison as if only this tool had changed."""
    now = found.now[alias].locked
    if (bad := next((bad for bad in found.now[alias].quarantined if bad.tool == tool), None)) is not None:
        raise Usage(f"{quoted(tool)} of server {alias!r} cannot be locked: {bad.reason}")
    old = (found.old or {}).get(alias) or LockedServer(launch=now.launch, package=now.package)
    if not is_approved(now.launch, old.launch):
        raise Usage(
            f"the launch of server {alias!r} changed, too; approve all of it: toolbus approve {alias}"
        )
    if tool not in now.definitions["tools"] and tool not in old.definitions["tools"]:
        known = ", ".join(map(quoted, now.definitions["tools"])) or "none"
        raise Usage(f"server {alias!r} offers no tool {quoted(tool)}; it offers {known}")
    return replace(found, now={alias: Snapshot(locked=with_parts(old, now, [("tool", tool)]))})


def _ask(screen: Screen, found: Comparison) -> bool:
    """Show the differences, and ask whether to approve them; False without a terminal."""
    if screen.as_json:
        return False
    _report(screen, found, written=False)
    if not can_ask():
        return False
    return confirm(f"Approve this, and write {short_path(found.path)}? [y/N]: ")


def _report(screen: Screen, found: Comparison, *, written: bool) -> None:
    differences, warnings = found.differences, found.warnings
    if screen.as_json:
        screen.json(
            {
                "file": str(found.path),
                "written": written,
                "differences": [difference_json(one) for one in differences],
                "warnings": list[JSON](warnings),
                "failed": dict(found.failed),
            }
        )
        return
    print_differences(screen, differences, found.updated.servers, found.old or {})
    for warning in warnings:
        screen.print(Text(visible(f"warning: {warning}"), style="yellow"))
    for alias, reason in found.failed.items():
        is_known = alias in (found.old or {})
        kept = "; its lock is kept" if is_known else f"; once it starts: toolbus approve {alias}"
        screen.print(Text(visible(f"{alias} could not be compared: {reason}{kept}"), style="red"))
    if not differences and found.old is not None and found.now:
        tools = sum(len(now.locked.definitions["tools"]) for now in found.now.values())
        counts = f"{counted(len(found.now), 'server')}, {counted(tools, 'tool')}"
        screen.print(Text(f"no differences: {counts}"))


def _written(file: Lockfile) -> str:
    tools = sum(len(server.definitions["tools"]) for server in file.servers.values())
    counts = f"{counted(len(file.servers), 'server')}, {counted(tools, 'tool')}"
    return f"wrote {short_path(file.path)}: {counts}; commit it, so that your team approves the same"
