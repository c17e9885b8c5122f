"""A server behind the REST API, and clients of that."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Annotated, Any

import httpx2
from mcp.server.mcpserver import Context, Elicit, ElicitationResult, Image, MCPServer, Resolve
from mcp.server.mcpserver.exceptions import ToolError
from pydantic import BaseModel, Field

from tests.gateway.driving import JSON
from tests.gateway.front import Gates, front
from tests.inside.config import Serve
from tests.inside.gateway import AccessControl, Gateway, GatewayLimits, HttpLimits, Replicas
from tests.patience import PATIENCE


class Seat(BaseModel):
    """The question to a person."""

    row: int


class Branch(BaseModel):
    """A tree, whose schema refers to itself."""

    name: str
    branches: "list[Branch]" = Field(default_factory=list["Branch"])


def desk(gates: Gates, made: list[str]) -> MCPServer:
    """A server whose tools ask, wait, fail, and return all kinds of content; `made` are its calls."""
    server: MCPServer = MCPServer("desk")

    @server.tool(title="Add")
    def add(a: int, b: int) -> int:  # pyright: ignore[reportUnusedFunction]
        """Add two numbers."""
        made.append(f"{a}+{b}")
        return a + b

    @server.tool(structured_output=False)
    def greet(name: str = "you") -> str:  # pyright: ignore[reportUnusedFunction]
        return f"Hello {name}"

    @server.tool()
    def picture() -> Image:  # pyright: ignore[reportUnusedFunction]
        return Image(data=b"\x89PNG", format="png")

    @server.tool()
    def fail() -> str:  # pyright: ignore[reportUnusedFunction]
        raise ToolError("no paper left")

    @server.tool()
    def count(tree: Branch) -> int:  # pyright: ignore[reportUnusedFunction]
        return 1 + sum(count(one) for one in tree.branches)

    @server.tool()
    async def wait() -> str:  # pyright: ignore[reportUnusedFunction]
        made.append("wait")
        gates.entered.set()
        try:
            await gates.opened.wait()
        except asyncio.CancelledError:
            gates.cancelled.set()
            raise
        return "done"

    _asking(server, made)
    return server


def _asking(server: MCPServer, made: list[str]) -> None:
    def which_row() -> Elicit[Seat]:
        made.append("book")
        return Elicit("Which row?", Seat)

    @server.tool()
    async def book(seat: Annotated[ElicitationResult[Seat], Resolve(which_row)]) -> str:  # pyright: ignore[reportUnusedFunction]
        return f"row {seat.data.row}" if seat.action == "accept" else seat.action

    @server.tool()
    async def pay(context: Context) -> str:  # pyright: ignore[reportUnusedFunction]
        answer = await context.elicit_url("Pay there.", "https://pay.example/1", "payment-1")
        return f"paid: {answer.action}"


@dataclass
class Desk:
    """A gateway with the REST API in front of the server."""

    base: str
    http: httpx2.AsyncClient
    gates: Gates
    made: list[str]
    gateway: Gateway
    url: str
    """The URL of the MCP endpoint."""
    port: int

    async def call(
        self, tool: str, headers: dict[str, str] | None = None, /, **arguments: Any
    ) -> httpx2.Response:
        """Call a tool."""
        return await self.http.post(f"{self.base}/tools/{tool}", json=arguments, headers=headers)

    async def get(self, path: str, **headers: str) -> httpx2.Response:
        return await self.http.get(f"{self.base}{path}", headers=headers)

    async def answer(self, path: str, **answers: Any) -> httpx2.Response:
        """Answer questions of a call."""
        return await self.http.post(f"{self.base}{path}", json={"answers": answers})

    async def ended(self, path: str) -> JSON:
        """The state of a call when it has ended."""
        async with asyncio.timeout(PATIENCE):
            while (state := (await self.get(path, prefer="wait=20")).json())["status"] == "working":
                pass
        return state


@asynccontextmanager
async def served_desk(
    config: JSON | None = None,
    limits: HttpLimits | None = None,
    settings: GatewayLimits | None = None,
    replicas: Replicas | None = None,
    era: str = "modern",
    **serve: Any,
) -> AsyncGenerator[Desk]:
    """The server behind a gateway with a REST API; `config` is more for the bus, `serve` for the gateway."""
    gates, made = Gates(), list[str]()
    entry = {"server": desk(gates, made), "era": era}
    shown = Serve(rest=True, **serve)
    whole = {"servers": {"desk": entry}, "naming": "{tool}", **(config or {})}
    access = AccessControl(shown, servers=("desk",))
    async with front(limits, access, settings, whole, serve=shown, replicas=replicas) as served:
        base = served.url.removesuffix("/mcp")
        yield Desk(base, served.http, gates, made, served.gateway, served.url, served.port)


if __name__ == "__main__":
    desk(Gates(), []).run("stdio")
