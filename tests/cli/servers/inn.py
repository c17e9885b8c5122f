"""The server of the examples in docs/cli.md: things to read, a prompt, a tool that asks. Runs over stdio."""

from typing import Annotated

from mcp.server.mcpserver import Elicit, ElicitationResult, MCPServer, RequestStateSecurity, Resolve
from pydantic import BaseModel, Field

# The same in every process, so that a call can be resumed in another one.
KEY = b"a key for the examples in docs/cli.md"
server: MCPServer = MCPServer(
    "inn", log_level="WARNING", request_state_security=RequestStateSecurity(keys=[KEY], audience="inn")
)


class Booking(BaseModel):
    """What is asked."""

    date: str = Field(description="Which day?", json_schema_extra={"format": "date"})
    seats: int = Field(default=2, ge=1, le=8)


def when(guest: str) -> Elicit[Booking]:
    """The question."""
    return Elicit(f"When does {guest} come?", Booking)


@server.tool(structured_output=False)
def book(guest: str, booking: Annotated[ElicitationResult[Booking], Resolve(when)]) -> str:
    """Book a table."""
    if booking.action != "accept":
        return "nothing was booked"
    return f"a table for {booking.data.seats}, {guest}, on {booking.data.date}"


@server.resource("inn://menu", mime_type="text/plain")
def menu() -> str:
    """What there is to eat."""
    return "soup\nbread\n"


@server.resource("inn://menu/{day}", mime_type="text/plain")
def menu_of(day: str) -> str:
    """What there is to eat on a day."""
    return f"{day}: soup\n"


@server.prompt()
def invite(guest: str, tone: str = "kind") -> str:
    """Ask for an invitation."""
    return f"Invite {guest}, in a {tone} tone."


if __name__ == "__main__":
    server.run("stdio")
