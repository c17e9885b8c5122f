"""Run a server over stdio, or over streamable HTTP on localhost, until it is told to exit.

Over stdio, standard output carries only the protocol. Over HTTP it carries one line,
`listening on http://127.0.0.1:PORT/mcp`, written once the server accepts requests. SIGTERM, SIGINT and, over
stdio, the end of standard input end the process at once, with exit code 0 and no output. Over HTTP the end of
standard input counts if it is a pipe, so that a killed parent leaves no server behind.
"""

import argparse
import os
import signal
import socket
import stat
import sys
import threading
from types import FrameType

import uvicorn
from mcp.server.mcpserver import MCPServer

HOST = "127.0.0.1"


def command_line(name: str, purpose: str | None) -> argparse.ArgumentParser:
    """The arguments common to all demo servers; a server adds its own."""
    parser = argparse.ArgumentParser(prog=f"python -m toolbus.demo.{name}", description=purpose)
    parser.add_argument(
        "--http",
        type=_port,
        metavar="PORT",
        help="serve streamable HTTP on this port of 127.0.0.1 (0 for a free one) instead of stdio",
    )
    return parser


def serve(server: MCPServer, http: int | None) -> None:
    """Serve until told to exit: over HTTP if a port is given, otherwise over stdio."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _exit)
    if http is not None:
        return _serve_http(server, http)
    try:
        server.run("stdio")
    except* BrokenPipeError:  # the client disconnected before it got the response
        pass


def _exit(number: int, frame: FrameType | None) -> None:
    # Not sys.exit: over stdio a thread is blocked reading standard input, and the interpreter would wait
    # for it; over HTTP the streams of subscribed clients never end, and uvicorn would wait for them and
    # then log an error for each. Nothing is lost: a demo server stores its data before it responds.
    os._exit(0)


def _exit_with_parent() -> None:
    while os.read(0, 4096):
        pass
    os._exit(0)


def _port(text: str) -> int:
    if not text.isdecimal() or (port := int(text)) > 65535:
        raise argparse.ArgumentTypeError(f"expected a port from 0 to 65535, not {text!r}")
    return port


def _serve_http(server: MCPServer, port: int) -> None:
    try:
        sock = _bind(port)
    except OSError as error:
        sys.exit(f"cannot listen on {HOST}:{port}: {error.strerror}; use --http 0 for a free port")
    if stat.S_ISFIFO(os.fstat(0).st_mode):
        threading.Thread(target=_exit_with_parent, daemon=True).start()
    app = server.streamable_http_app(host=HOST)
    _WebServer(uvicorn.Config(app, log_level="warning")).run(sockets=[sock])


def _bind(port: int) -> socket.socket:
    # The protocol is explicit, because asyncio sets TCP_NODELAY only on such sockets; without it
    # every response would wait 40 ms for an acknowledgment.
    sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    sock.bind((HOST, port))
    return sock


class _WebServer(uvicorn.Server):
    """A web server that prints its URL once it accepts requests, and exits at once."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started and sockets:
            sys.stdout.write(f"listening on http://{HOST}:{sockets[0].getsockname()[1]}/mcp\n")
            sys.stdout.flush()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        _exit(sig, frame)
