"""A server that has no room for a request, as a gateway of toolbus reports it: nothing was done."""

import asyncio

from mcp.shared.exceptions import MCPError

from toolbus.core.values.errors import CallRejected, ToolbusError

BUSY = -32029
"""The code of its error, which a gateway sends."""


def busy_data(error: MCPError) -> dict[str, float] | None:
    """When such a request may be sent again; None if the error is another one."""
    seconds = _seconds(error.code, error.data)
    return None if seconds is None else {"retryAfter": seconds}


async def wait_for_room(error: ToolbusError, deadline: float) -> None:
    """Wait as long as the server wants; raises the error if that is too long, or if it is another one."""
    seconds = _seconds(error.code, error.data) if isinstance(error, CallRejected) else None
    if seconds is None or asyncio.get_running_loop().time() + seconds >= deadline:
        raise error
    await asyncio.sleep(seconds)


def _seconds(code: int, data: object) -> float | None:
    match data:
        case {"retryAfter": int() | float() as seconds} if code == BUSY and seconds > 0:
            return seconds
        case _:
            return None
