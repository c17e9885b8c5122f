"""How a bus uses a tape: what it records, and which of its servers are replayed."""

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import get_args

from toolbus.config import BusConfig, ServerConfig
from toolbus.core.values.errors import TapeError
from toolbus.tape.format import Tape
from toolbus.tape.matching import Matching, TapeMode
from toolbus.tape.player import TapePlayer
from toolbus.tape.privacy import Privacy
from toolbus.tape.recorder import Recorder

LAUNCH: dict[str, object] = {
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
    "era": "auto",
    "lock": "off",
}
"""What a replayed server does not have: nothing is started, and nobody signs in."""
SETTINGS: dict[str, object] = {
    "keeps_listings": False,
    "tokens": "memory",
    "store": None,
    "lock": "off",
    "file": None,
}
"""What a bus does not need: it keeps nothing, and its servers are what the tape says."""


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
    def resolved(self) -> "TapeUse":
        """What the mode means: a tape to record, one to replay, or the same for both."""
        tape, mode = self.record or self.replay, self.mode
        if mode is None or tape is None:
            return self
        is_there = tape.exists()
        if mode == "none" or (mode == "once" and is_there):
            return replace(self, record=None, replay=tape, mode=None)
        if mode == "new_episodes" and is_there:
            return replace(self, record=tape, replay=tape, mode=mode)
        return replace(self, record=tape, replay=None, mode=None)


class BusTapes:
    """The tapes of one bus: puts links to a tape into its config, and records."""

    def __init__(self, use: TapeUse) -> None:
        self._use = use.resolved
        self.recorder: Recorder | None = None
        """Set by `prepare`, if the bus records."""
        self._player: TapePlayer | None = None

    @property
    def needs_config(self) -> bool:
        """Whether there has to be a config: nothing else says which servers there are."""
        return self._use.replay is None

    def prepare(self, config: BusConfig | None) -> BusConfig:
        """The config for a bus that records or replays; without one, with the servers of the tape."""
        privacy = Privacy(config)
        if self._use.record is not None:
            appends = self._use.record == self._use.replay
            self.recorder = Recorder(self._use.record, appends=appends, privacy=privacy)
        if self._use.replay is not None:
            self._player = TapePlayer(Tape(self._use.replay), self._use.matching, privacy)
        return self.replayed(config)

    def replayed(self, config: BusConfig | None) -> BusConfig:
        """The config with links to the tape, if one is replayed."""
        if self._player is None:
            assert config is not None, "there is something to connect to"
            return config
        from toolbus.tape.peer import TapeServer

        player, tape = self._player, self._player.tape
        if config is None:
            config = BusConfig(servers={alias: _server(alias) for alias in tape.servers})
        elif config.servers and not any(player.recorded(alias) in tape.servers for alias in config.servers):
            names = ", ".join(tape.servers) or "none"
            raise TapeError(
                tape.path, f"has no server of the config; its servers: {names}", "use another tape"
            )
        servers = {
            alias: server.model_copy(update={**LAUNCH, "server": TapeServer(player, alias)})
            for alias, server in config.servers.items()
        }
        return config.model_copy(update={"servers": servers, **SETTINGS})

    def close(self) -> None:
        """Close the tape that was replayed."""
        if self._player is not None:
            self._player.tape.close()


def _server(alias: str) -> ServerConfig:
    return ServerConfig(alias=alias, transport="memory", server=object())
