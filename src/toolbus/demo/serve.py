"""Run a server over stdio, or over streamable HTTP on loopback; it leaves quietly when told to.

Over stdio, standard output carries the protocol and nothing else. Over HTTP it carries one line,
`listening on http://127.0.0.1:PORT/mcp`, written once requests are answered. SIGTERM, SIGINT and, over
stdio, the end of standard input end the process at once, with exit code 0 and without a word. Over HTTP the
end of standard input counts if it is a pipe: so a parent that was killed leaves no server behind.
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
    """The arguments that all demo servers take; a server adds its own."""
    parser = argparse.ArgumentParser(prog=f"python -m toolbus.demo.{name}", description=purpose)
    parser.add_argument(
        "--http",
        type=_port,
        metavar="PORT",
        help="serve streamable HTTP on this port of 127.0.0.1 (0: a free one) instead of stdio",
    )
    return parser


def serve(server: MCPServer, http: int | None) -> None:
    """Serve until told to leave: over HTTP if a port is given, else over stdio."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _leave)
    if http is not None:
        return _serve_http(server, http)
    try:
        server.run("stdio")
    except* BrokenPipeError:  # the client left while an answer was on its way
        pass


def _leave(number: int, frame: FrameType | None) -> None:
    # Not sys.exit: over stdio a thread is blocked reading standard input, and the interpreter would wait
    # for it; over HTTP the streams of clients that listen never end, and uvicorn would wait for them and
    # then complain about each. Nothing is lost: what a demo server keeps, it has written when it answers.
    os._exit(0)


def _leave_with_parent() -> None:
    while os.read(0, 4096):
        pass
    os._exit(0)


def _port(text: str) -> int:
    if not text.isdecimal() or (port := int(text)) > 65535:
        raise argparse.ArgumentTypeError(f"expected a port from 0 to 65535, not {text!r}")
    return port


def _serve_http(server: MCPServer, port: int) -> None:
    try:
        listening = _bound(port)
    except OSError as error:
        sys.exit(f"cannot listen on {HOST}:{port}: {error.strerror}; use --http 0 for a free port")
    if stat.S_ISFIFO(os.fstat(0).st_mode):
        threading.Thread(target=_leave_with_parent, daemon=True).start()
    app = server.streamable_http_app(host=HOST)
    _WebServer(uvicorn.Config(app, log_level="warning")).run(sockets=[listening])


def _bound(port: int) -> socket.socket:
    # The protocol is named, because asyncio sets TCP_NODELAY only on sockets that do; without it
    # every answer would wait 40 ms for an acknowledgement.
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listening.bind((HOST, port))
    return listening


class _WebServer(uvicorn.Server):
    """A web server that says where it is, once it answers, and leaves at once."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started and sockets:
            sys.stdout.write(f"listening on http://{HOST}:{sockets[0].getsockname()[1]}/mcp\n")
            sys.stdout.flush()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        _leave(sig, frame)
