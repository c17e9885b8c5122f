"""The scripts of a config as a server: in place of a connection, it has their definitions and their code."""

from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any

from toolbus.config import BusConfig, ServerConfig
from toolbus.config.script_tools.entry import SCRIPTS, ScriptEntries
from toolbus.config.script_tools.files import ScriptCode, script_codes
from toolbus.core import version


@dataclass(frozen=True, slots=True)
class ScriptServer:
    """The `server` of a config with the transport `memory`; two are equal if their scripts are."""

    codes: tuple[ScriptCode, ...]

    def code(self, name: str) -> ScriptCode | None:
        """The script of that name."""
        return next((code for code in self.codes if code.name == name), None)

    def connector(self, lost: Callable[[str], None], /) -> Any:
        """Open a dispatcher that lists them; it cannot be lost."""

        async def connect(stack: AsyncExitStack, mode: str, raise_exceptions: bool) -> Any:
            from toolbus.connect.transports.listed import ListedPeer

            server_info = {"name": SCRIPTS, "version": version()}
            return ListedPeer(server_info, [code.definition for code in self.codes])

        return connect


class ScriptFiles:
    """The scripts of a config, read once."""

    def __init__(self, config: BusConfig) -> None:
        found, mistakes = script_codes(config)
        self._server = ScriptServer(tuple(found.values()))
        self._warnings = tuple(f"{error.key}: {error.problem}" for error in mistakes.values())

    def in_use(self, config: BusConfig) -> BusConfig:
        """The config with a server that has the code; a script that cannot be read is left out."""
        server = config.servers.get(SCRIPTS)
        if server is None or not isinstance(server.server, ScriptEntries):
            return config
        now = server.model_copy(
            update={"server": self._server, "warnings": (*server.warnings, *self._warnings)}
        )
        return config.model_copy(update={"servers": {**config.servers, SCRIPTS: now}})


def script_server(config: ServerConfig) -> ScriptServer | None:
    """The scripts behind a server; None for any other one."""
    return config.server if isinstance(config.server, ScriptServer) else None
