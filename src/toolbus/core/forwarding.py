"""An operation that is made for an MCP client: what its server sends goes to that client, as it was sent."""

from dataclasses import dataclass, field
from typing import Protocol

from toolbus.core.argument_map import EMPTY
from toolbus.core.fast_init import with_fast_init
from toolbus.core.records import JSON, JSONObject, LogLevel


class ClientError(Exception):
    """A client answered a server's request with an error, or cannot be asked."""

    def __init__(self, code: int, message: str, data: JSON = None) -> None:
        self.code = code
        self.message = message
        self.data = data
        super().__init__(f"{message} (code {code})")


class Client(Protocol):
    """The client that an operation is made for."""

    @property
    def capabilities(self) -> JSONObject:
        """What it declared, in the form of the modern era."""
        ...

    async def ask(self, server: str, method: str, params: JSONObject) -> JSONObject:
        """Put a server's request to it: elicitation, sampling or roots.

        Returns its result as sent; `ClientError` if it has none.
        """
        ...


@with_fast_init
@dataclass(frozen=True, slots=True, kw_only=True)
class Forwarding:
    """For whom an operation is made, and what goes to the server with it."""

    client: Client
    meta: JSONObject = field(default_factory=lambda: EMPTY)
    """The `_meta` of the client's request, without the keys of the protocol itself."""
    log_level: LogLevel | None = None
    """The lowest level of log messages that the client wants; None for none."""
    responses: JSONObject | None = None
    """The client's answers to the requests of a modern server, if this is another round of a call."""
    state: str | None = None
    """The server's state of that call."""
    rounds: int = 0
    """How often the server has asked so far."""
    is_unlisted: bool = False
    """Whether the client named the tool to `call_tool`, and may not know its definition."""
