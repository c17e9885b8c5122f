"""A server of the legacy era in plain JSON-RPC over stdio that writes without end.

Run it: `python flooding.py KIND`, with a kind of `LINES`. It floods once its tools were listed, and still
answers.
"""

import json
import sys
import threading
from typing import Any

LINES: dict[str, str] = {
    "logs": '{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"again"}}',
    "changes": '{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}',
    "progress": '{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":7}}',
    "answers": '{"jsonrpc":"2.0","id":99999,"result":{}}',
    "pings": '{"jsonrpc":"2.0","id":"q","method":"ping"}',
    "text": "Still here.",
}
_writing = threading.Lock()


def write(text: str) -> None:
    """Write whole lines."""
    with _writing:
        sys.stdout.write(text + "\n")
        sys.stdout.flush()


def flood(line: str) -> None:
    """Write a line for as long as somebody reads."""
    many = "\n".join([line] * 100)
    while True:
        write(many)


def answer(method: str) -> dict[str, Any]:
    """The result of a request."""
    match method:
        case "initialize":
            return {
                "protocolVersion": "2025-11-25",
                "capabilities": {"tools": {"listChanged": True}, "logging": {}},
                "serverInfo": {"name": "flooding", "version": "1"},
            }
        case "tools/list":
            return {"tools": [{"name": "echo", "inputSchema": {"type": "object"}}]}
        case _:
            return {"content": [{"type": "text", "text": "echo"}]}


if __name__ == "__main__":
    flooding = threading.Thread(target=flood, args=(LINES[sys.argv[1]],), daemon=True)
    for received in sys.stdin:
        message: dict[str, Any] = json.loads(received)
        if "id" in message:
            result = answer(message["method"])
            write(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}))
            if message["method"] == "tools/list" and not flooding.is_alive():
                flooding.start()
