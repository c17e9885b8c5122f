"""The server that both sides call: `python -m bench.server stdio|http`.

Over HTTP it prints its port once it listens. It is given host and port instead of a socket, so that
asyncio sets TCP_NODELAY; without that every call would wait 40 ms for an acknowledgement.
"""

import socket
import sys

import uvicorn
from mcp.server.mcpserver import MCPServer

server: MCPServer = MCPServer("bench", log_level="ERROR")


@server.tool(structured_output=False)
def echo(text: str) -> str:
    """Say it again."""
    return text


class Announced(uvicorn.Server):
    """Prints its port when it listens."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        print(self.servers[0].sockets[0].getsockname()[1], flush=True)


if __name__ == "__main__":
    if sys.argv[1:] == ["http"]:
        app = server.streamable_http_app()
        # Idle connections are kept: the SDK's client may send on one that is just being closed, and fail.
        config = uvicorn.Config(app, host="127.0.0.1", port=0, log_level="error", timeout_keep_alive=300)
        Announced(config).run()
    else:
        server.run("stdio")
