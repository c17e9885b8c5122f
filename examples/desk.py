"""The desk of a small restaurant as an MCP server: it asks questions, and has resources and prompts.

Run it with any Python that has the `mcp` package: `python desk.py`.
"""

from typing import Annotated, Literal

from mcp.server.mcpserver import Context, Elicit, ElicitationResult, MCPServer, RequestStateSecurity, Resolve
from mcp.types import (
    Completion,
    CompletionArgument,
    CompletionContext,
    PromptReference,
    ResourceTemplateReference,
)
from pydantic import BaseModel, Field

# A fixed key lets a suspended call be resumed after a restart. A real server reads it from a secret.
server = MCPServer(
    "desk",
    instructions="Book with `book`; it asks the guest for the rest.",
    request_state_security=RequestStateSecurity(keys=["a key of this example, of 32 bytes or more"]),
)
MENU = ["soup", "pie", "tea"]
LANGUAGES = ["english", "esperanto", "german"]


class Booking(BaseModel):
    """The choices of a guest."""

    day: str = Field(title="Day", json_schema_extra={"format": "date"})
    seats: int = Field(default=2, ge=1, le=8, title="Seats")
    place: Literal["inside", "terrace"] = "inside"


def which_table(guest: str) -> Elicit[Booking]:
    """The question for the missing details."""
    return Elicit(f"When does {guest} come?", Booking)


@server.tool(structured_output=False)
async def book(guest: str, table: Annotated[ElicitationResult[Booking], Resolve(which_table)]) -> str:
    """Book a table for a guest."""
    if table.action != "accept":
        return f"No table for {guest}: the question was answered with {table.action}."
    booking = table.data
    return f"{guest} has a table for {booking.seats}, {booking.place}, on {booking.day}."


@server.tool(structured_output=False)
async def cook(dish: str, ctx: Context) -> str:
    """Cook a dish, and add it to the menu."""
    for step, doing in enumerate(["chop", "simmer", "serve"], start=1):
        await ctx.report_progress(step, 3, doing)
    MENU.append(dish)
    await ctx.notify_resource_updated("menu://today")
    return f"{dish} is ready"


@server.resource("menu://today", mime_type="text/plain")
def menu() -> str:
    """The dishes of today."""
    return ", ".join(MENU)


@server.resource("table://{number}", mime_type="text/plain")
def table(number: str) -> str:
    """The state of a table."""
    return f"Table {number} is free."


@server.prompt()
def welcome(guest: str, language: str = "english") -> str:
    """Welcome a guest."""
    return f"Welcome {guest} in {language}, in one sentence."


@server.completion()
async def complete(
    ref: PromptReference | ResourceTemplateReference,
    argument: CompletionArgument,
    context: CompletionContext | None,
) -> Completion | None:
    """Values for an argument."""
    known = {"language": LANGUAGES, "number": ["1", "2", "3"]}.get(argument.name, [])
    return Completion(values=[value for value in known if value.startswith(argument.value)])


if __name__ == "__main__":
    server.run()
