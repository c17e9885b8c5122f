"""The server of effects: `python -m tests.durable.crash.server FOLDER [kills]`; FOLDER/port has its port.

It outlives the workers, and keeps a line for each effect, with an id that the result names.
"""

import asyncio
import socket
import sys
from itertools import count
from pathlib import Path

import mcp_types as types
import uvicorn
from mcp.server.mcpserver import MCPServer
from starlette.requests import Request
from starlette.responses import PlainTextResponse

from tests.durable.crash import kill_here, note

PAUSE = 0.1
"""Seconds that a call takes before and after its effect."""


class Effects:
    """Tools whose effects are lines in a file."""

    def __init__(self, folder: Path, *, kills: bool) -> None:
        self._folder = folder
        self._kills = kills
        self._ids = count(1)

    async def act(self, tool: str, run: str, step: int, pid: int = 0) -> str:
        """Have an effect; in the kill test, kill the worker before or after it."""
        if self._kills:
            kill_here(self._folder, int(run), step, "unsent", pid)
        else:
            await asyncio.sleep(PAUSE)
        effect = f"e{next(self._ids)}"
        note(self._folder, f"effect {run} {step} {tool} {effect}")
        if self._kills:
            kill_here(self._folder, int(run), step, "effect", pid)
            return f"ok {step}"
        await asyncio.sleep(PAUSE)
        return f"ok {step} {effect}"

    async def posted(self, request: Request) -> PlainTextResponse:
        """The effect of a function, which calls this over HTTP."""
        given = await request.json()
        return PlainTextResponse(await self.act(given["tool"], given["run"], given["step"]))

    def server(self) -> MCPServer:
        """Two writes that must not be repeated, one that may be, and a read."""
        built: MCPServer = MCPServer("effects")
        reading = types.ToolAnnotations(read_only_hint=True)

        @built.tool(structured_output=False)
        async def write(run: str, step: int, pid: int = 0) -> str:
            """Write something; twice is wrong."""
            return await self.act("effects_write", run, step, pid)

        @built.tool(structured_output=False)
        async def put(run: str, step: int, pid: int = 0) -> str:
            """Write something; twice is the same."""
            return await self.act("effects_put", run, step, pid)

        @built.tool(structured_output=False, annotations=reading)
        async def look(run: str, step: int, pid: int = 0) -> str:
            """Read something."""
            return await self.act("effects_look", run, step, pid)

        @built.tool(structured_output=False)
        async def reserve(run: str, step: int) -> str:
            """Reserve something; twice is wrong."""
            return await self.act("stock_reserve", run, step)

        return built


def main() -> None:
    """Serve on loopback until ended."""
    folder = Path(sys.argv[1])
    listening = socket.create_server(("127.0.0.1", 0), backlog=500)
    (folder / "port.new").write_text(str(listening.getsockname()[1]))
    (folder / "port.new").rename(folder / "port")
    effects = Effects(folder, kills="kills" in sys.argv)
    app = effects.server().streamable_http_app()
    app.add_route("/effects", effects.posted, methods=["POST"])
    # A client that reuses a connection while it is closed would not know what became of its call.
    config = uvicorn.Config(app, log_level="error", lifespan="on", timeout_keep_alive=3600)
    uvicorn.Server(config).run(sockets=[listening])


if __name__ == "__main__":
    main()
