"""A small server on the SDK, for every behaviour that a well-behaved server can show.

Run it: `python everyday.py stdio`, or `python everyday.py http|sse PORT_FILE [PORT]` (it writes its port
to the file).
"""

import asyncio
import base64
import contextlib
import os
import socket
import sys
from pathlib import Path
from typing import Any, Literal

import mcp_types as types
import uvicorn
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from starlette.types import ASGIApp

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
Parser = Literal["auto", "h11", "httptools"]
WAV = b"RIFF$\x00\x00\x00WAVEfmt "


def everyday(name: str = "everyday") -> MCPServer:
    """A fresh server; each has its own state."""
    server: MCPServer = MCPServer(name, instructions="Be kind.")
    _plain_tools(server)
    _slow_tools(server)
    _telling_tools(server)
    _changing_tools(server)

    @server.resource("memo://greeting", mime_type="text/plain")
    def greeting() -> str:
        """A greeting."""
        return "hello"

    @server.resource("memo://of/{who}")
    def memo(who: str) -> str:
        """A memo about someone."""
        return f"memo of {who}"

    @server.prompt()
    def summarise(text: str) -> str:
        """Ask for a summary."""
        return f"Summarise: {text}"

    return server


def _plain_tools(server: MCPServer) -> None:
    @server.tool(annotations=types.ToolAnnotations(read_only_hint=True, title="Addition"))
    def add(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    @server.tool(structured_output=False)
    def echo(text: str) -> str:
        """Say it again."""
        return text

    @server.tool(structured_output=False)
    def fail(reason: str = "no reason") -> str:
        """Always fails."""
        raise ToolError(reason)

    @server.tool(structured_output=False)
    def many() -> types.CallToolResult:
        """One block of every kind."""
        text = types.TextResourceContents(uri="memo://greeting", text="hello", mime_type="text/plain")
        blob = types.BlobResourceContents(uri="memo://blob", blob=base64.b64encode(b"\x00\x01").decode())
        return types.CallToolResult(
            content=[
                types.TextContent(text="first"),
                types.ImageContent(data=base64.b64encode(PNG).decode(), mime_type="image/png"),
                types.AudioContent(data=base64.b64encode(WAV).decode(), mime_type="audio/wav"),
                types.ResourceLink(uri="memo://greeting", name="greeting", mime_type="text/plain", size=5),
                types.EmbeddedResource(resource=text),
                types.EmbeddedResource(resource=blob),
                types.TextContent(text="last"),
            ],
            structured_content={"n": 7},
            _meta={"trace": "abc"},
        )

    @server.tool(structured_output=False)
    def names(self: str, config: str, ctx: str, run_manager: str, args: str, name: str, input: str) -> str:  # noqa: A002
        """Arguments that bear the names which frameworks take for their own."""
        return " ".join((self, config, ctx, run_manager, args, name, input))

    @server.tool(structured_output=False)
    def environment(name: str) -> str:
        """A variable of the server's environment."""
        return os.environ.get(name, "(unset)")


def _slow_tools(server: MCPServer) -> None:
    begun = 0
    cancelled = 0
    meeting: dict[str, asyncio.Event] = {}

    @server.tool(structured_output=False)
    async def hang() -> str:
        """Never answers; counts how often it was cancelled."""
        nonlocal begun, cancelled
        begun += 1
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled += 1
            raise
        return "unreachable"

    @server.tool(structured_output=False)
    async def hangs() -> str:
        """How often `hang` was begun and cancelled."""
        return f"{begun} {cancelled}"

    @server.tool(structured_output=False)
    async def meet(mine: str, other: str) -> str:
        """Returns when two calls have met: only possible when they run at the same time."""
        meeting.setdefault(mine, asyncio.Event()).set()
        await meeting.setdefault(other, asyncio.Event()).wait()
        return f"{mine} met {other}"

    @server.tool(structured_output=False)
    async def steps(count: int, ctx: Context) -> str:
        """Reports its progress."""
        for step in range(1, count + 1):
            await ctx.report_progress(step, count, f"step {step}")
        return f"{count} steps"


def _telling_tools(server: MCPServer) -> None:
    """Tools whose calls leave a trace, so that a test can see how often they were run."""

    def times(path: str) -> int:
        with Path(path).open("a") as file:
            file.write("x")
        return len(Path(path).read_text())

    async def note(path: str) -> str:
        if times(path) == 1:
            await asyncio.Event().wait()
        return "not the first time"

    @server.tool(structured_output=False, annotations=types.ToolAnnotations(read_only_hint=True))
    async def linger_reading(path: str) -> str:
        """Never answers the first time; says that it only reads."""
        return await note(path)

    @server.tool(structured_output=False)
    async def linger(path: str) -> str:
        """Never answers the first time."""
        return await note(path)

    @server.tool(structured_output=False)
    def big(size: int) -> str:
        """A text of that many characters."""
        return "x" * size

    @server.tool(structured_output=False)
    def process() -> str:
        """The number of the server's process."""
        return str(os.getpid())


def _changing_tools(server: MCPServer) -> None:
    @server.tool(structured_output=False)
    async def grow(name: str, ctx: Context) -> str:
        """Add a tool of that name and say so."""

        def grown() -> str:
            return f"I am {name}"

        server.add_tool(grown, name=name, description="Grown at run time.", structured_output=False)
        await _announced(ctx)
        return f"grew {name}"

    @server.tool(structured_output=False)
    async def shrink(name: str, ctx: Context) -> str:
        """Remove the tool of that name and say so."""
        server.remove_tool(name)
        await _announced(ctx)
        return f"removed {name}"


async def _announced(ctx: Context) -> None:
    await ctx.notify_tools_changed()  # the modern era: to whoever listens
    with contextlib.suppress(Exception):
        await ctx.session.send_tool_list_changed()  # the legacy era


def serve_http(server: MCPServer, kind: str, port_file: str, port: int = 0) -> None:
    """Serve on a port of loopback, a free one if none is given, and write it to a file, once it listens."""
    serve_app(server.sse_app() if kind == "sse" else server.streamable_http_app(), port_file, port)


def serve_app(app: Any, port_file: str, port: int = 0, parser: Parser = "auto") -> None:
    """As `serve_http`, for an ASGI application."""
    run_app(app, listening_socket(port), port_file, parser)


def listening_socket(port: int = 0) -> socket.socket:
    """A socket that listens on a port of loopback."""
    # The protocol is named, because asyncio sets TCP_NODELAY only on sockets that do; without it
    # every answer would wait 40 ms for an acknowledgement.
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listening.bind(("127.0.0.1", port))
    listening.listen()
    return listening


def run_app(app: ASGIApp, listening: socket.socket, port_file: str, parser: Parser = "auto") -> None:
    """Serve on a socket that listens already, and write its port to a file."""
    partial = Path(port_file + ".partial")
    partial.write_text(str(listening.getsockname()[1]))
    partial.rename(port_file)
    config = uvicorn.Config(app, log_level="error", timeout_graceful_shutdown=1, http=parser)
    uvicorn.Server(config).run(sockets=[listening])


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["stdio"]:
            everyday().run("stdio")
        case [("http" | "sse") as kind, port_file]:
            serve_http(everyday(), kind, port_file)
        case [("http" | "sse") as kind, port_file, port]:
            serve_http(everyday(), kind, port_file, int(port))
        case _:
            sys.exit(__doc__)
