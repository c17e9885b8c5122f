"""A gateway over HTTP as a process: prints its port, and has a tool that takes as long as it is told to."""

import asyncio
import signal
import sys
from pathlib import Path

from mcp.server.mcpserver import MCPServer

sys.path.insert(0, str(Path(__file__).parents[2]))  # run as a script
from toolbus import Toolbus
from toolbus.core.ask.interactions import Interactions, QuestionRouting
from toolbus.gateway.gateway import Gateway
from toolbus.gateway.http.app import App
from toolbus.gateway.http.run import HttpServer, listening_socket


def waiting() -> MCPServer:
    """A server whose tool waits for a file."""
    server: MCPServer = MCPServer("waiting")

    @server.tool()
    async def wait_for(path: str) -> str:  # pyright: ignore[reportUnusedFunction]
        await asyncio.to_thread(Path(f"{path}.entered").touch)
        while not await asyncio.to_thread(Path(path).exists):  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        return "done"

    return server


async def main(port: int, drain: float) -> None:
    """Serve until a signal; a second one does not wait for calls."""
    config = {"servers": {"waiting": {"server": waiting(), "prefix": ""}}}
    bus = Toolbus(config, interactions=Interactions(_routing=QuestionRouting(forwards=True)))
    arrived = asyncio.Semaphore(0)
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, arrived.release)
    async with bus, Gateway(bus) as gateway:
        server, sock = HttpServer(App(gateway)), listening_socket("127.0.0.1", port)
        await server.start(sock)
        print(sock.getsockname()[1], flush=True)
        await arrived.acquire()
        ends = (asyncio.create_task(server.drain(drain)), asyncio.create_task(arrived.acquire()))
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        for end in ends:
            end.cancel()
        await server.close()
    print("ended", flush=True)


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), float(sys.argv[2])))
