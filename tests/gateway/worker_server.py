"""A server over stdio that tells its process, asks, and takes as long as it is told to.

In plain JSON-RPC: each worker of a gateway starts one, and the SDK would take a second to import.
"""

import json
import os
import sys
import threading
import time
from pathlib import Path
from typing import Any

Message = dict[str, Any]
COLOR: Message = {"type": "object", "properties": {"color": {"type": "string"}}, "required": ["color"]}
PATH: Message = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
RESULTS: dict[str, Message] = {
    "initialize": {
        "protocolVersion": "2025-11-25",
        "capabilities": {"tools": {}},
        "serverInfo": {"name": "worker", "version": "1"},
    },
    "tools/list": {
        "tools": [
            {"name": "pid", "inputSchema": {"type": "object"}},
            {"name": "ask", "inputSchema": {"type": "object"}},
            {"name": "wait_for", "inputSchema": PATH},
        ]
    },
}


class Server:
    """One connection; each call has a thread of its own."""

    def __init__(self) -> None:
        self._writing = threading.Lock()
        self._answered = threading.Condition()
        self._answers: dict[str, Message] = {}

    def run(self) -> None:
        """Serve until the input ends."""
        for line in sys.stdin:
            message: Message = json.loads(line)
            match message:
                case {"method": "tools/call"}:
                    threading.Thread(target=self._call, args=(message,), daemon=True).start()
                case {"method": method, "id": number}:
                    self._send({"id": number, "result": RESULTS.get(method, {})})
                case {"id": number}:
                    with self._answered:
                        self._answers[number] = message.get("result", {"action": "error"})
                        self._answered.notify_all()
                case _:
                    pass

    def _call(self, message: Message) -> None:
        params = message["params"]
        match params["name"]:
            case "pid":
                text = str(os.getpid())
            case "ask":
                text = self._color(f"color for {message['id']}")
            case _:
                text = _wait_for(params["arguments"]["path"])
        self._send({"id": message["id"], "result": {"content": [{"type": "text", "text": text}]}})

    def _color(self, number: str) -> str:
        params = {"message": "Which color?", "requestedSchema": COLOR}
        self._send({"id": number, "method": "elicitation/create", "params": params})
        with self._answered:
            self._answered.wait_for(lambda: number in self._answers)
            answer = self._answers.pop(number)
        return answer["content"]["color"] if answer["action"] == "accept" else answer["action"]

    def _send(self, message: Message) -> None:
        with self._writing:
            print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


def _wait_for(path: str) -> str:
    Path(f"{path}.entered").touch()
    while not Path(path).exists():
        time.sleep(0.01)
    return "done"


if __name__ == "__main__":
    Server().run()
