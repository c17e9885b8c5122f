"""A server of the legacy era in plain JSON-RPC over stdio that writes down what it does, call by call.

Run it: `python journal_server.py JOURNAL [TOOL ...]`. Each call appends a line to the file when it begins, so
a repeated call appears twice, even from another process. The named tools are more of the same, for a server
that has other tools in its next version.
"""

import json
import os
import sys
import threading
import time
from collections.abc import Sequence
from typing import Any

Message = dict[str, Any]
_NUMBER = {"type": "number"}
_TEXT = {"type": "string"}


class Journal:
    """One connection; each call has a thread of its own."""

    def __init__(self, path: str, tools: Sequence[str] = ()) -> None:
        self._tools = ("write", "confirm", *tools)
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        self._writing = threading.Lock()
        self._answers: dict[str, Message] = {}
        self._answered = threading.Condition()

    def run(self) -> None:
        """Serve until the input ends."""
        for line in sys.stdin:
            message: Message = json.loads(line)
            if message.get("method") is None:
                with self._answered:
                    self._answers[str(message["id"])] = message.get("result") or {}
                    self._answered.notify_all()
            elif message["method"] == "tools/call":
                threading.Thread(target=self._call, args=(message,), daemon=True).start()
            elif "id" in message:
                self._send({"id": message["id"], "result": self._result(message)})

    def _result(self, message: Message) -> Message:
        properties = {"token": _TEXT, "seconds": _NUMBER}
        schema: Message = {"type": "object", "properties": properties, "required": ["token"]}
        tools: list[Message] = [{"name": name, "inputSchema": schema} for name in self._tools]
        job = {"name": "job", "inputSchema": schema, "execution": {"taskSupport": "required"}}
        match message["method"]:
            case "initialize":
                return {
                    "protocolVersion": "2025-11-25",
                    "capabilities": {"tools": {}, "resources": {"subscribe": True}, "logging": {}},
                    "serverInfo": {"name": "journal", "version": "1"},
                }
            case "tools/list":
                return {"tools": [*tools, job]}
            case "resources/list":
                return {"resources": [{"uri": "journal://all", "name": "all"}]}
            case "resources/templates/list":
                return {"resourceTemplates": []}
            case _:
                return {}

    def _call(self, message: Message) -> None:
        arguments: Message = message["params"].get("arguments") or {}
        token = arguments["token"]
        if message["params"]["name"] == "confirm":
            answer = self._asked(f"ask-{token}")
            token = f"{token} {answer.get('action')}"
        os.write(self._file, f"{token}\n".encode())
        updated = {"uri": "journal://all"}
        self._send({"method": "notifications/resources/updated", "params": updated})
        time.sleep(arguments.get("seconds") or 0)
        self._send({"id": message["id"], "result": {"content": [{"type": "text", "text": token}]}})

    def _asked(self, number: str) -> Message:
        schema: Message = {"type": "object", "properties": {"sure": {"type": "boolean"}}}
        params = {"message": "Sure?", "requestedSchema": schema}
        self._send({"id": number, "method": "elicitation/create", "params": params})
        with self._answered:
            self._answered.wait_for(lambda: number in self._answers)
            return self._answers.pop(number)

    def _send(self, message: Message) -> None:
        with self._writing:
            sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
            sys.stdout.flush()


if __name__ == "__main__":
    Journal(sys.argv[1], sys.argv[2:]).run()
