"""Serves the tools of a benchmark as an MCP server over stdio, without the SDK.

    python backend.py bfcl_tools travel CONTROL   # a stdio server; the socket CONTROL sets its task
    python backend.py bfcl_tools run < TASKS      # the tasks' calls, made directly
    python backend.py bfcl_tools list travel ...  # the definitions of servers
    python backend.py agentdojo_tools tasks       # the tasks, if they are code

It runs in the environment of the benchmark, which knows nothing of toolbus, so it imports only the standard
library and the benchmark. The modules beside it are its sides: one for each benchmark.
"""

import importlib
import json
import os
import socket
import sys
import threading
from collections.abc import Callable
from typing import Any, Protocol

Message = dict[str, Any]
Answer = tuple[str, bool]
"""The text of a result, and whether it is an error."""

FRESH = {"resultType": "complete", "ttlMs": 600_000, "cacheScope": "public"}
CAPABILITIES: Message = {"tools": {"listChanged": True}}


class Backend(Protocol):
    """The tools of a server with the data of one task."""

    def call(self, name: str, arguments: Message) -> Answer: ...

    def state(self) -> Any: ...


class Side(Protocol):
    """A benchmark: a module beside this one."""

    def tools(self, name: str) -> list[Message]: ...

    def opened(self, name: str, scenario: Message) -> Backend: ...

    def direct(self, backend: Backend, call: Message) -> Answer: ...


class Server:
    """Answers a client's messages with the tools of the task that is open."""

    def __init__(self, tools: list[Message], opened: Callable[[Message], Backend]) -> None:
        self._tools = tools
        self._opened = opened
        self._backend: Backend | None = None
        self._hidden: set[str] = set()
        self._lock = threading.Lock()

    def answer(self, message: Message) -> Message | None:
        """The reply to a client's message; None for a notification."""
        if "id" not in message:
            return None
        reply: Message = {"jsonrpc": "2.0", "id": message["id"]}
        with self._lock:
            result = self._result(message["method"], message.get("params") or {})
        if result is None:
            return {**reply, "error": {"code": -32601, "message": "no such method"}}
        return {**reply, "result": result}

    def _result(self, method: str, params: Message) -> Message | None:
        match method:
            case "tools/call":
                text, failed = self._call(params["name"], params.get("arguments") or {})
                content = [{"type": "text", "text": text}]
                return {"content": content, "isError": failed, "resultType": "complete"}
            case "tools/list":
                return {"tools": [tool for tool in self._tools if tool["name"] not in self._hidden], **FRESH}
            case "initialize":
                info = {"name": "proof", "version": "1"}
                return {"protocolVersion": "2025-11-25", "capabilities": CAPABILITIES, "serverInfo": info}
            case "ping":
                return {}
            case _:
                return None

    def _call(self, name: str, arguments: Message) -> Answer:
        if self._backend is None or name in self._hidden:
            return f"no tool {name!r} now", True
        return self._backend.call(name, arguments)

    def control(self, order: Message) -> Any:
        """Do what the measuring program asks: open a task, hide tools, tell the state."""
        with self._lock:
            if "open" in order:
                self._backend = self._opened(order["open"])
            if "hide" in order:
                self._hidden = set(order["hide"])
                write({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})
            return self._backend.state() if "state" in order and self._backend else None


def write(message: Message) -> None:
    """Send a message in one write, so that two threads never mix theirs."""
    os.write(1, json.dumps(message, separators=(",", ":")).encode() + b"\n")


def control(server: Server, path: str) -> None:
    """Listen to the measuring program: one order per line, one answer per line."""
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(path)
        listening.listen()
        while True:
            accepted, _ = listening.accept()
            with accepted, accepted.makefile("rwb") as lines:
                for line in lines:
                    lines.write(json.dumps(server.control(json.loads(line))).encode() + b"\n")
                    lines.flush()


def serve(side: Side, name: str, path: str) -> None:
    """Serve until the input ends."""
    server = Server(side.tools(name), lambda scenario: side.opened(name, scenario))
    threading.Thread(target=control, args=(server, path), daemon=True).start()
    for line in sys.stdin.buffer:
        reply = server.answer(json.loads(line))
        if reply is not None:
            write(reply)


def run(side: Side) -> None:
    """Make the calls of each task directly, without those that do not fit; a line of JSON for each task."""
    for line in sys.stdin:
        task = json.loads(line)
        backends = {name: side.opened(name, scenario) for name, scenario in task["scenarios"].items()}
        results = [
            side.direct(backends[call["server"]], call) if call["fits"] else ("refused", True)
            for call in task["calls"]
        ]
        states = {name: backend.state() for name, backend in backends.items()}
        print(json.dumps({"id": task["id"], "results": results, "states": states}), flush=True)


def main() -> None:
    """Serve, list, or make all calls directly."""
    side: Any = importlib.import_module(sys.argv[1])
    if sys.argv[2] == "run":
        run(side)
    elif sys.argv[2] == "tasks":
        print(json.dumps(side.tasks()))
    elif sys.argv[2] == "list":
        print(json.dumps({name: side.tools(name) for name in sys.argv[3:]}))
    else:
        serve(side, *sys.argv[2:4])


if __name__ == "__main__":
    main()
