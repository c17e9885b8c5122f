"""A server is killed. The next call waits until toolbus has started it again, and returns."""

import os
import signal
import sys
import threading

from mcp.server.mcpserver import MCPServer

from toolbus import SyncToolbus
from toolbus.events import Event, StateChanged


def math() -> MCPServer:
    """The server that will be killed; it runs in its own process."""
    server: MCPServer = MCPServer("math", log_level="WARNING")

    @server.tool(structured_output=False)
    def square(x: int) -> str:
        """The square of a number."""
        return str(x * x)

    @server.tool(structured_output=False)
    def process() -> str:
        """The id of the server's process."""
        return str(os.getpid())

    return server


def main() -> None:
    is_gone = threading.Event()

    def show(event: Event) -> None:
        if isinstance(event, StateChanged) and event.state != "closed":
            print(f"  math: {event.previous} -> {event.state}")
            is_gone.set()

    with SyncToolbus({"servers": {"math": {"command": sys.executable, "args": [__file__, "serve"]}}}) as bus:
        print("call math_square(x=12)")
        print(" ", bus.call("math_square", {"x": 12}).text)
        bus.on_event(show)
        print("kill -9 the server's process")
        os.kill(int(bus.call("math_process").text), signal.SIGKILL)
        is_gone.wait()
        print("call math_square(x=13), while no server is running")
        print(" ", bus.call("math_square", {"x": 13}).text)


if __name__ == "__main__":
    if sys.argv[1:] == ["serve"]:
        math().run("stdio")
    else:
        main()
