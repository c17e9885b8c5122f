"""The tapes of a bus: recording, and servers that are replayed."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, get_args

from toolbus.config import BusConfig, ServerConfig
from toolbus.core.operation.operation import Observer, Operation, ServerObservation
from toolbus.core.values.records import Inventory
from toolbus.core.values.tape_errors import TapeError
from toolbus.tape.format import Tape
from toolbus.tape.matching import Matching, TapeMode
from toolbus.tape.player import TapePlayer
from toolbus.tape.privacy import Privacy
from toolbus.tape.recorder import Recorder

if TYPE_CHECKING:
    from toolbus.tape.live import LiveBus

_NOT_STARTED: dict[str, Any] = {
    "command": None,
    "args": (),
    "env": {},
    "env_file": None,
    "cwd": None,
    "sandbox": None,
    "url": None,
    "headers": {},
    "auth": None,
    "client_cert": None,
    "client_key": None,
    "transport": "memory",
    "lazy": False,
    "per_session": False,
    "idle_timeout": None,
    "era": "modern",
    "lock": "off",
}
"""Settings of a replayed server: nothing is started, and nobody signs in."""
_KEPT_NOWHERE: dict[str, Any] = {
    "keeps_listings": False,
    "tokens": "memory",
    "store": None,
    "lock": "off",
    "file": None,
}
"""Settings of a bus that only replays: it keeps nothing, and the lock does not apply."""
_NOT_SHAPED: dict[str, Any] = {
    "include": (),
    "also_include": (),
    "exclude": (),
    "override": {},
    "mark": False,
    "repair": False,
    "lazy": True,
    "required": False,
    "per_session": False,
}
"""Settings of the servers behind a tape: the calls that reach them are shaped already."""
_NOT_DECIDED: dict[str, Any] = {"include": (), "exclude": (), "policy": (), "audit": None, "store": None}


class _MakesBus(Protocol):
    """Makes a bus that is connected to the servers of a config."""

    def __call__(self, config: BusConfig, /) -> "LiveBus": ...


@dataclass(frozen=True, slots=True, kw_only=True)
class TapeUse:
    """The tapes of a bus."""

    record: Path | None = None
    replay: Path | None = None
    mode: TapeMode | None = None
    """By default `all` to record, and `none` to replay."""
    matching: Matching = field(default_factory=Matching)

    def __post_init__(self) -> None:
        if self.mode is not None and self.mode not in get_args(TapeMode):
            raise ValueError(f"mode must be one of {', '.join(get_args(TapeMode))}, not {self.mode!r}")
        if self.record is not None and self.replay is not None:
            if self.mode is not None:
                raise TypeError("mode is for one tape; leave it out, or name the tape once")
            if self.record.absolute() == self.replay.absolute():
                raise TypeError("a tape cannot be recorded while it is replayed; use mode='new_episodes'")

    @property
    def resolved(self) -> "_Resolved":
        """The tapes to record and to replay, by the mode."""
        tape, mode = self.record or self.replay, self.mode
        if mode is None or tape is None:
            return _Resolved(self.record, self.replay, False)
        is_there = tape.exists()
        if mode == "none" or (mode == "once" and is_there):
            return _Resolved(None, tape, False)
        adds = mode == "new_episodes" and is_there
        return _Resolved(tape, tape if adds else None, adds)


class _Resolved(NamedTuple):
    """The tapes to record and to replay."""

    record: Path | None
    replay: Path | None
    adds: bool
    """Whether calls that are not on the tape are made, and added to it."""


class BusTapes:
    """The tapes of one bus: puts links to a tape into its config, and records."""

    def __init__(self, use: TapeUse) -> None:
        self._matching = use.matching
        self._use = use.resolved
        self._adds = self._use.adds
        self._recorder: Recorder | None = None
        self._tape = None if self._use.replay is None else Tape(self._use.replay)
        self.player: TapePlayer | None = None
        """The player of the tape, once the bus is prepared."""

    @property
    def connects(self) -> bool:
        """Whether servers may be started, so that there has to be a config."""
        return self._use.replay is None or self._adds

    @property
    def observers(self) -> list[Observer]:
        """The observers of the bus, once it is prepared."""
        if self._recorder is None:
            return []
        return [
            _Others(self._recorder, self._tape.servers if self._tape else ())
            if self._adds
            else self._recorder
        ]

    @property
    def live_observers(self) -> list[Observer]:
        """The observers of the bus that makes calls which are not on the tape."""
        return [] if self._recorder is None else [self._recorder]

    def fits(self, config: BusConfig) -> bool:
        """Whether a config has a server of the tape that is replayed."""
        if self._tape is None:
            return True
        hide = Privacy(config).recorded
        return any(hide(alias) in self._tape.servers for alias in config.servers)

    def prepare(self, config: BusConfig | None, live: _MakesBus | None = None) -> BusConfig:
        """The config for a bus that records or replays; without one, with the servers of the tape.

        `live` makes a bus for calls that are not on the tape.
        """
        privacy = Privacy(config)
        if self._use.record is not None:
            self._recorder = Recorder(
                self._use.record, appends=self._adds, privacy=privacy, prefixes=_prefixes(config)
            )
        if self._tape is not None:
            self.player = TapePlayer(self._tape, self._matching, privacy)
            if config is not None and config.servers and not self.fits(config):
                names = ", ".join(self._tape.servers) or "none"
                problem = f"has no server of the config; its servers: {names}"
                raise TapeError(self._tape.path, problem, "use another tape, or no config")
            if self._adds and live is not None and config is not None:
                from toolbus.tape.live import LiveServers

                self.player.live = LiveServers(partial(live, unshaped(config)))
        return self.replayed(config)

    def replayed(self, config: BusConfig | None) -> BusConfig:
        """The config with links to the tape, if one is replayed."""
        player, tape = self.player, self._tape
        if player is None or tape is None:
            assert config is not None, "there is something to connect to"
            return config
        from toolbus.tape.peer import TapeServer

        if config is None:
            config = BusConfig(
                servers={alias: _server(alias, tape.prefixes.get(alias)) for alias in tape.servers}
            )

        def linked(alias: str, server: ServerConfig) -> ServerConfig:
            if self._adds and player.recorded(alias) not in tape.servers:
                return server
            return server.model_copy(update={**_NOT_STARTED, "server": TapeServer(player, alias)})

        servers = {alias: linked(alias, server) for alias, server in config.servers.items()}
        return config.model_copy(update={"servers": servers, **({} if self._adds else _KEPT_NOWHERE)})

    def begin(self) -> None:
        """Begin the file that is recorded; `TapeError` if it cannot be written."""
        if self._recorder is not None:
            self._recorder.begin()

    async def close(self) -> None:
        """Close the tapes when the bus has stopped."""
        if self.player is not None and self.player.live is not None:
            await self.player.live.close()
        self.end()

    def end(self) -> None:
        """Write the rest of the recording, and close the files; any number of times."""
        if self._recorder is not None:
            self._recorder.closed()
        if self._tape is not None:
            self._tape.close()


class MissingTapes(BusTapes):
    """The tapes of a bus that cannot be started, because there is none to replay."""

    def __init__(self, error: TapeError, raised: list[TapeError]) -> None:
        super().__init__(TapeUse())
        self._error, self._raised = error, raised

    def begin(self) -> None:
        """Raise the error, and note it: the program may catch it."""
        self._raised.append(self._error)
        raise self._error


class _Others:
    """Records the servers that are not on the tape."""

    at_server: Literal[True] = True

    def __init__(self, recorder: Recorder, on_tape: Collection[str]) -> None:
        self._recorder = recorder
        self._on_tape = on_tape

    def start(self, operation: Operation, /) -> ServerObservation | None:
        """Follow a request to another server."""
        return None if operation.server in self._on_tape else self._recorder.start(operation)

    def offered(self, inventories: Mapping[str, Inventory], /) -> None:
        """Record the lists of other servers."""
        self._recorder.offered({k: one for k, one in inventories.items() if k not in self._on_tape})

    def updated(self, server: str, uri: str, /) -> None:
        """Record a change on another server."""
        if server not in self._on_tape:
            self._recorder.updated(server, uri)

    def closed(self) -> None:
        """The recorder is closed with the tapes."""


def unshaped(config: BusConfig) -> BusConfig:
    """The config of the bus behind a tape."""
    servers = {alias: server.model_copy(update=_NOT_SHAPED) for alias, server in config.servers.items()}
    return config.model_copy(update={"servers": servers, **_NOT_DECIDED})


def _prefixes(config: BusConfig | None) -> dict[str, str]:
    servers = {} if config is None else config.servers
    return {alias: one.prefix for alias, one in servers.items() if one.prefix is not None}


def _server(alias: str, prefix: str | None) -> ServerConfig:
    return ServerConfig(alias=alias, transport="memory", server=object(), prefix=prefix)


def tapes_of(
    record: str | Path | None, replay: str | Path | None, mode: TapeMode | None, matching: Matching | None
) -> BusTapes:
    """The tapes of a bus with these options."""
    paths = [None if path is None else Path(path).expanduser() for path in (record, replay)]
    return BusTapes(TapeUse(record=paths[0], replay=paths[1], mode=mode, matching=matching or Matching()))
