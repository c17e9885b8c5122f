"""The server of the kill test: `python -m tests.durable.crash.server FOLDER`; FOLDER/port has its port.

It outlives the workers, and keeps a line for each effect.
"""

import socket
import sys
from pathlib import Path

import mcp_types as types
import uvicorn
from mcp.server.mcpserver import MCPServer

from tests.durable.crash import kill_here, note


def server(folder: Path) -> MCPServer:
    """Three tools whose effects are lines in a file."""
    built: MCPServer = MCPServer("effects")

    def act(tool: str, run: int, step: int, pid: int) -> str:
        kill_here(folder, run, step, "unsent", pid)
        note(folder, f"effect {run} {step} {tool}")
        kill_here(folder, run, step, "effect", pid)
        return f"ok {step}"

    @built.tool(structured_output=False)
    def write(run: int, step: int, pid: int = 0) -> str:
        """Write something; twice is wrong."""
        return act("write", run, step, pid)

    @built.tool(structured_output=False)
    def put(run: int, step: int, pid: int = 0) -> str:
        """Write something; twice is the same."""
        return act("put", run, step, pid)

    @built.tool(structured_output=False, annotations=types.ToolAnnotations(read_only_hint=True))
    def look(run: int, step: int, pid: int = 0) -> str:
        """Read something."""
        return act("look", run, step, pid)

    return built


def main() -> None:
    """Serve on loopback until ended."""
    folder = Path(sys.argv[1])
    listening = socket.create_server(("127.0.0.1", 0), backlog=500)
    (folder / "port.new").write_text(str(listening.getsockname()[1]))
    (folder / "port.new").rename(folder / "port")
    app = server(folder).streamable_http_app()
    uvicorn.Server(uvicorn.Config(app, log_level="error", lifespan="on")).run(sockets=[listening])


if __name__ == "__main__":
    main()
