"""The server of the soak: `python -m bench.counting stdio|http LOG [PORT]`.

It writes down every execution before it answers, one line `TOOL ID` each, so executions are known even if the
answer never left. `count` must not be executed twice, `read` may be.
"""

import asyncio
import os
import random
import sys
import time
from pathlib import Path

from bench.server import Message, Server, serve_http, serve_stdio

SLOWEST = 0.002
"""Seconds that a call takes at most between its being written down and its answer."""

ID: Message = {"type": "object", "properties": {"id": {"type": "integer"}}, "required": ["id"]}
TOOLS: list[Message] = [
    {"name": "count", "description": "Counts.", "inputSchema": ID},
    {"name": "read", "description": "Reads.", "inputSchema": ID, "annotations": {"readOnlyHint": True}},
]


class Ledger:
    """The log of executions, written straight to the file: a kill loses nothing."""

    def __init__(self, path: str) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def said(self, params: Message) -> str:
        """Write the call down; its id is the answer."""
        number = params["arguments"]["id"]
        os.write(self._file, f"{params['name']} {number}\n".encode())
        time.sleep(random.uniform(0, SLOWEST))  # the moment in which a kill hurts most
        return str(number)


def pid_file(log: str) -> Path:
    """The file in which a server writes its process id."""
    return Path(f"{log}.pid")


def main() -> None:
    """Say which process this is, and serve."""
    kind, log, *port = sys.argv[1:]
    fresh = pid_file(f"{log}.{os.getpid()}")
    fresh.write_text(str(os.getpid()))
    fresh.replace(pid_file(log))
    server = Server(TOOLS, Ledger(log).said)
    serve_stdio(server) if kind == "stdio" else asyncio.run(serve_http(server, int(port[0])))


if __name__ == "__main__":
    main()
