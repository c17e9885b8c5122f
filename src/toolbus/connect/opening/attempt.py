"""One attempt to connect to a server."""

from collections.abc import Callable
from dataclasses import dataclass

from toolbus.config import Resolved, ServerConfig
from toolbus.connect.auth.credentials import Credentials
from toolbus.connect.opening.diagnostics import Diagnostics
from toolbus.connect.transports.process.process import ServerProcess


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """What a transport needs to connect, and the diagnostics that it fills."""

    config: ServerConfig
    values: Resolved
    credentials: Credentials
    diagnostics: Diagnostics
    warn: Callable[[str], None]
    process: ServerProcess | None = None
    """The process, if it was begun before the attempt; the attempt ends it."""
