"""A server of the legacy era over stdio that never falls silent: progress, and updates of its resource.

Run it: `python talking.py JOURNAL`. The tool `talk` reports progress until it is cancelled, `confirm` asks
first, and `job` is a task without end. Each call that begins, ends or is cancelled is a line in the journal.
"""

import json
import os
import sys
import threading
import time
from typing import Any

Message = dict[str, Any]
PAUSE = 0.01
NEWS = "talk://news"
SCHEMA: Message = {"type": "object"}
RESULTS: dict[str, Message] = {
    "initialize": {
        "protocolVersion": "2025-11-25",
        "capabilities": {"tools": {}, "resources": {"subscribe": True}},
        "serverInfo": {"name": "talking", "version": "1"},
    },
    "tools/list": {
        "tools": [
            {"name": "talk", "inputSchema": SCHEMA},
            {"name": "confirm", "inputSchema": SCHEMA},
            {"name": "job", "inputSchema": SCHEMA, "execution": {"taskSupport": "required"}},
        ]
    },
    "resources/list": {"resources": [{"uri": NEWS, "name": "news"}]},
    "resources/templates/list": {"resourceTemplates": []},
}


class Talking:
    """One connection; each call has a thread of its own."""

    def __init__(self, journal: str) -> None:
        self._journal = os.open(journal, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        self._writing = threading.Lock()
        self._cancelled: dict[object, threading.Event] = {}
        self._subscribed = threading.Event()

    def run(self) -> None:
        """Serve until the input ends."""
        threading.Thread(target=self._report_news, daemon=True).start()
        for line in sys.stdin:
            message: Message = json.loads(line)
            match message:
                case {"method": "tools/call", "id": number}:
                    self._cancelled[number] = threading.Event()
                    threading.Thread(target=self._call, args=(message,), daemon=True).start()
                case {"method": "notifications/cancelled"}:
                    self._cancelled[message["params"]["requestId"]].set()
                case {"method": method, "id": number}:
                    if method == "resources/subscribe":
                        self._subscribed.set()
                    self._send({"id": number, "result": RESULTS.get(method, {})})
                case {"id": _, "result": result}:
                    self._note(f"answered {result.get('action')}")
                case _:
                    pass

    def _call(self, message: Message) -> None:
        params, cancelled = message["params"], self._cancelled[message["id"]]
        name, token = params["name"], params.get("_meta", {}).get("progressToken")
        self._note(f"{name} begins")
        if name == "confirm":
            asked: Message = {"message": "Sure?", "requestedSchema": {"type": "object", "properties": {}}}
            self._send({"id": f"ask-{message['id']}", "method": "elicitation/create", "params": asked})
        number = 0
        while not cancelled.wait(PAUSE):
            number += 1
            if token is not None:
                progress = {"progressToken": token, "progress": number}
                self._send({"method": "notifications/progress", "params": progress})
        self._note(f"{name} cancelled")

    def _report_news(self) -> None:
        self._subscribed.wait()
        while True:
            self._send({"method": "notifications/resources/updated", "params": {"uri": NEWS}})
            time.sleep(PAUSE)

    def _note(self, line: str) -> None:
        os.write(self._journal, f"{line}\n".encode())

    def _send(self, message: Message) -> None:
        with self._writing:
            sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
            sys.stdout.flush()


if __name__ == "__main__":
    Talking(sys.argv[1]).run()
