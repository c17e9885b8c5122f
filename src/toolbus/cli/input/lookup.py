"""Errors and suggestions for a resource or prompt that no server has."""

from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import TYPE_CHECKING

from toolbus.core.values.errors import ServerDown, ServerRejected, ToolbusError

if TYPE_CHECKING:
    from toolbus.bus.toolbus import Toolbus


class NotListed(ToolbusError):
    """No server lists a resource or prompt of this name."""

    def __init__(
        self, what: str, name: str, known: Sequence[str], servers_down: Mapping[str, str | None]
    ) -> None:
        self.name = name
        self.close_matches = get_close_matches(name, known, n=1)
        missing = f"; not connected: {', '.join(servers_down)}" if servers_down else ""
        if self.close_matches:
            hint = f"{missing}; did you mean {self.close_matches[0]!r}?"
        elif len(servers_down) == 1:
            [(alias, reason)] = servers_down.items()
            hint = f"; {reason or f'server {alias!r} is not connected'}"
        else:
            reasons = " and see why a server is down" if servers_down else ""
            hint = f"{missing}; run 'toolbus {'read' if what == 'resource' else what}' to list them{reasons}"
        super().__init__(f"no {what} {name!r} among {len(known)}{hint}")


def servers_down(bus: "Toolbus") -> dict[str, str | None]:
    """The servers that are not connected, and why."""
    return {alias: status.error for alias, status in bus.servers.items() if status.state != "ready"}


def raise_if_down(bus: "Toolbus", server: str) -> None:
    """Raise the error that explains why the server is not connected, if it is not."""
    status = bus.servers[server]
    if status.state != "ready":
        raise bus.failures.get(server) or ServerDown(server, status.state, status.error)


def with_suggestion(error: ServerRejected, name: str, known: Sequence[str]) -> ServerRejected:
    """The server's error with a suggestion, if a known name is similar."""
    close = [] if name in known else get_close_matches(name, known, n=1)
    if not close:
        return error
    message = f"{error.message}; did you mean {close[0]!r}?"
    return ServerRejected(error.server, error.what, error.code, message, error.status)
