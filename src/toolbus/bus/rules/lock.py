"""The lock of a bus: the approved tools and launch lines of its servers, and deviations from them.

With a lockfile, the catalog exists before any server is connected. Once a server has listed its tools, they
are compared with the file. Tools that differ are held: they are not in the catalog, and calls are refused. A
server whose launch line differs, or that is not in the file, is not started.
"""

import logging
from collections import ChainMap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from weakref import ref

from toolbus.bus.rules.script_server import ScriptFiles
from toolbus.config import BusConfig, LockMode, ServerConfig
from toolbus.config.launch.administrator import ASK, Administrator, read_administrator
from toolbus.config.location import joined
from toolbus.config.permitted import early_refusal, permitted_config, without_sandbox
from toolbus.config.stations import StationCode, station_codes
from toolbus.core.operation.events import Emit, ToolHeld, warn
from toolbus.core.operation.operation import Operation
from toolbus.core.operation.tracing import add_event
from toolbus.core.text.canonical import NotCanonical
from toolbus.core.values.errors import CallDenied, ConfigError, LockError
from toolbus.core.values.records import Inventory
from toolbus.lock.drift import NOT_AS_LOCKED, HeldTool, Review, Reviewer, held_reason
from toolbus.lock.file import NAME, LockedServer, Lockfile, lock_path, read_lock
from toolbus.lock.launch import is_approved, launch_of
from toolbus.lock.stations import held_hooks
from toolbus.shape.as_tools import prompt_name

logger = logging.getLogger("toolbus")
_NOTHING = Inventory()


class LockApprovals:
    """The lockfile's approvals for the servers of a config."""

    def __init__(self, config: BusConfig) -> None:
        """Read the lockfile and the administrator's rules; ConfigError if a file is broken or forbids it."""
        self._reviews: dict[tuple[str, int], tuple[ref[Inventory], Review]] = {}
        """The review of each inventory, by server and identity. It ends with its inventory: a server may list
        ever new ones, and each user may have another one."""
        files = _lockfiles(config)
        self.stations: tuple[StationCode, ...] = ()
        """The code of the user's stations, as it was read for the comparison with the lock."""
        self.held_stations: tuple[LockMode, str] | None = None
        """The mode and the reason if they are on hold."""
        if not config.for_lock:
            self.stations = station_codes(config)
            self.held_stations = held_hooks(config, self.stations, files.values())
        self._scripts = ScriptFiles(config)
        self.administrator = administrator_of(config, has_lock=None not in files.values())
        for code in self.stations:
            refused = self.administrator.hook_refusal((code.entry.use, code.target), code.paths)
            if refused is not None:
                raise refused
        own = {alias: files.get(config.file_of(alias)) for alias in config.servers}
        servers = {
            alias: file.servers[alias] for alias, file in own.items() if file and alias in file.servers
        }
        self._modes: dict[str, LockMode] = {
            alias: "off" if own[alias] is None else _mode(config, server)
            for alias, server in config.servers.items()
        }
        watched = [alias for alias, mode in self._modes.items() if mode != "off"]
        main = files.get(config.file) or next((own[alias] for alias in watched), None)
        self.file = None if main is None or not watched else _joined(main, files.values())
        """None if nothing is compared with it; with several files, the entries of all of them."""
        self.is_complete = self.file is not None and None not in own.values()
        """Whether every server has a lockfile, so that the catalog is known before one is started."""
        self.reviewers = {
            alias: Reviewer(alias, servers[alias], config.servers[alias].limits)
            for alias in watched
            if alias in servers
            and early_refusal(config.servers[alias], self.administrator, config.folder) is None
        }
        self.launches: dict[str, HeldTool] = {}
        """The servers whose launch differs from the lock, in the modes `warn` and `block`."""
        for alias in watched:
            reason = _launch_reason(config.servers[alias], config, servers.get(alias))
            if reason is not None:
                self.launches[alias] = HeldTool(server=alias, kind="launch", name="", reason=reason)

    def mode(self, alias: str) -> LockMode:
        """The treatment of tools that differ from the lockfile."""
        return self._modes.get(alias, "off")

    @property
    def held_launches(self) -> dict[str, HeldTool]:
        """The servers that must not be started."""
        return {alias: one for alias, one in self.launches.items() if self._modes[alias] == "block"}

    def covers(self, alias: str) -> bool:
        """Whether the tools of a server are known before it is connected: approved, or held as a whole."""
        return alias in self.reviewers or alias in self.held_launches

    def servers_to_use(self, config: BusConfig) -> BusConfig:
        """The config with a mistake for each server that must not be started."""
        config = self._scripts.in_use(config)
        held, config = self.held_launches, permitted_config(config, self.administrator)
        if not held:
            return config
        servers = {
            alias: _refused(server, held[alias].reason)
            if alias in held and server.mistake is None
            else server
            for alias, server in config.servers.items()
        }
        return config.model_copy(update={"servers": servers})

    def approved(self, alias: str, listed: Inventory) -> Inventory:
        """The inventory of a server as far as the lock allows it; before a listing, the approved tools."""
        mode = self.mode(alias)
        if mode == "block" and alias in self.launches:
            return _NOTHING
        reviewer = self.reviewers.get(alias)
        if reviewer is None:
            return listed
        if listed == _NOTHING:
            return reviewer.known
        return self.review(alias, listed).approved if mode == "block" else listed

    def held(self, listed: Mapping[str, Inventory]) -> dict[str, HeldTool]:
        """The held parts of these inventories, by `server/tool`."""
        found: list[HeldTool] = []
        for alias, inventory in listed.items():
            if self.mode(alias) != "block":
                continue
            if (launch := self.launches.get(alias)) is not None:
                found.append(launch)
            elif inventory != _NOTHING and alias in self.reviewers:
                found += self.review(alias, inventory).held
        return {one.key: one for one in found}

    def review(self, alias: str, listed: Inventory) -> Review:
        """The inventory of a server, compared with its approved tools."""
        key, reviews = (alias, id(listed)), self._reviews
        known = reviews.get(key)
        if known is not None and known[0]() is listed:
            return known[1]
        fresh = self.reviewers[alias].review(listed)
        reviews[key] = ref(listed, lambda _: reviews.pop(key, None)), fresh
        return fresh

    def check(self, operation: Operation, listed: Callable[[], Inventory]) -> None:
        """Raise `CallDenied` if the tool or prompt of an operation is not approved.

        For a server that is connected: before that, its list was compared with nothing.
        """
        server, spec = operation.server, operation.spec
        if self.mode(server) != "block" or server not in self.reviewers:
            return
        match operation.route:
            case "tools/call":
                kind, name = "tool", spec.origin.tool
            case "prompts/get":
                kind, name = "prompt", prompt_name(spec)
            case "toolbus/read_skill":
                kind, name = "skill", str(operation.arguments["uri"])
            case _:
                return
        if (reason := self.review(server, listed()).why_held(kind, name)) is not None:
            add_event("toolbus.held", reason=reason)
            raise CallDenied(f"{kind} {spec.name!r}", reason)


class HeldReports:
    """Reports held parts of inventories to one tenant."""

    def __init__(self, emit: Emit, reports: Callable[[str], bool]) -> None:
        """`reports` tells whether the held tools of a server are reported here."""
        self._emit = emit
        self._reports = reports
        self._reported: dict[str, tuple[HeldTool, ...]] = {}
        """The tools held at the last review of each server."""

    def report_launches(self, approvals: LockApprovals) -> None:
        """Emit which servers are not started; for a bus that starts or has a new config."""
        for alias, one in approvals.launches.items():
            self._report(approvals, f"{alias}: launch", (one,))

    def report(self, approvals: LockApprovals, listed: Mapping[str, Inventory]) -> None:
        """Emit the parts of these inventories that are held, and were not before."""
        for alias, inventory in listed.items():
            is_started = approvals.mode(alias) != "block" or alias not in approvals.launches
            if is_started and alias in approvals.reviewers and inventory != _NOTHING:
                self._report(approvals, alias, approvals.review(alias, inventory).held)

    def _report(self, approvals: LockApprovals, key: str, held: tuple[HeldTool, ...]) -> None:
        """Emit newly held parts; in mode `warn`, only warn of them."""
        before, self._reported[key] = self._reported.get(key, ()), held
        for one in held:
            if one in before or not self._reports(one.server):
                continue
            if approvals.mode(one.server) == "warn":
                tool = one.name if one.kind == "tool" else None
                what = "" if tool or one.kind == "launch" else f"{one.kind} {one.name}".strip() + ": "
                warn(self._emit, one.server, f"{what}{NOT_AS_LOCKED}: {one.reason}", tool)
            else:
                logger.warning("on hold: %s", one)
                self._emit(ToolHeld(server=one.server, kind=one.kind, tool=one.name, reason=one.reason))


def _lockfiles(config: BusConfig) -> dict[str | None, Lockfile | None]:
    """The lockfiles beside the files with the entries of the servers; None for one that is not there."""
    modes: dict[str | None, list[LockMode | None]] = {config.file: []}
    for alias, server in config.servers.items():
        modes.setdefault(config.file_of(alias), []).append(_asked_mode(config, server))
    if len(modes) > 1 and not modes[config.file]:
        del modes[config.file]
    return {
        file: _lockfile(file, asked, config.lock if file == config.file else None)
        for file, asked in modes.items()
    }


def _lockfile(file: str | None, asked: Sequence[LockMode | None], usual: LockMode | None) -> Lockfile | None:
    is_required = "block" in (usual, *asked)
    if file is None:
        if is_required:
            raise ConfigError("a lock needs a config file; its lockfile is next to it", key="lock")
        return None
    if all(mode == "off" for mode in asked):
        return None
    path = lock_path(file)
    found = read_lock(path)
    if found is None and is_required:
        raise LockError(path, "does not exist, and the config sets 'lock: block'; create it: toolbus lock")
    return found


def _joined(main: Lockfile, files: Iterable[Lockfile | None]) -> Lockfile:
    """One lockfile with the entries of all of them; the main one wins."""
    servers = [one.servers for one in (main, *files) if one is not None]
    return Lockfile(path=main.path, servers=dict(ChainMap(*map(dict, servers))))


def _asked_mode(config: BusConfig, server: ServerConfig) -> LockMode | None:
    """The mode that the server asks for, or else the config that its entry is in."""
    home = config if server.folder is None or config.user is None else config.user
    return server.lock or home.lock


def _mode(config: BusConfig, server: ServerConfig) -> LockMode:
    return _asked_mode(config, server) or "block"


def _launch_reason(server: ServerConfig, config: BusConfig, locked: LockedServer | None) -> str | None:
    """The reason why a server's launch is held; None if it matches the lock, or if its entry is invalid."""
    if server.mistake is not None:
        return None
    if locked is None:  # it may be new, or it could not be started when the file was written
        return held_reason(server.alias, f"it is not in {NAME}")
    try:
        if is_approved(launch_of(server, config.folder), locked.launch):
            return None
        change = "its launch line changed" if server.url is None else "its URL or headers changed"
    except NotCanonical as error:
        change = f"its launch line {error}"
    return held_reason(server.alias, f"{change} since {NAME} was written")


def _refused(server: ServerConfig, reason: str) -> ServerConfig:
    return server.model_copy(
        update={"mistake": ConfigError(f"on hold: {reason}", server=server.alias, key="launch")}
    )


def administrator_of(config: BusConfig, *, has_lock: bool) -> Administrator:
    """The administrator's rules; ConfigError if they cannot be read, or with all unmet requirements."""
    found = read_administrator()
    for file in found.ignored:
        logger.warning("%s is not used: %s; to make it count: %s", file.path, file.reason, file.fix)
    outside = _outside(config)
    unmet = [*_unmet_lock(config, found, outside, exists=has_lock), *_unmet_audit(config, found)]
    if outside and unmet:
        # Otherwise those servers are refused alone.
        refused = (without_sandbox(config.servers[alias], found) for alias in outside)
        raise joined([*unmet, *(one for one in refused if one is not None)])
    return found


def _unmet_lock(
    config: BusConfig, administrator: Administrator, outside: Sequence[str], *, exists: bool
) -> Iterator[ConfigError]:
    file = administrator.requiring("lock")
    if file is None or config.for_lock:
        return
    if config.file is None:
        yield _unmet(file, f"a {NAME} is required, and only a config in a file has one; write toolbus.yaml")
        return
    modes = {alias: _mode(config, config.servers[alias]) for alias in outside}
    weak = {alias: mode for alias, mode in modes.items() if mode != "block"}
    for alias, mode in weak.items():
        yield _unmet(file, f"server {alias!r} has lock: {mode}, and block is required; remove it")
    if not exists and not weak:
        yield _unmet(file, f"a {NAME} is required next to {config.file}; create it: toolbus lock")


def _unmet_audit(config: BusConfig, administrator: Administrator) -> Iterator[ConfigError]:
    file = administrator.requiring("audit")
    if file is not None and config.audit is None:
        yield _unmet(file, "an audit log is required; add audit: {file: audit.jsonl} to the config")
    if file is not None and config.audit is not None and config.audit.content == "none":
        yield _unmet(file, "an audit log of the arguments is required; set content: digest in audit")


def _outside(config: BusConfig) -> list[str]:
    """The servers that are not objects of this program, and not invalid."""
    servers = config.servers.items()
    return [alias for alias, server in servers if server.transport != "memory" and server.mistake is None]


def _unmet(file: str, problem: str) -> ConfigError:
    return ConfigError(f"{problem}, or {ASK}", file=file, key="require")
