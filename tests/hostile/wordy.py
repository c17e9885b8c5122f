"""A server over stdio whose definitions and questions end up in warnings: `python -m tests.hostile.wordy`."""

import json
import sys
from typing import Any

LONG = "x" * 300_000
OBJECT = {"type": "object"}
TOOLS: list[dict[str, Any]] = [
    {"name": "ask", "inputSchema": OBJECT},
    # Left out, with a warning that names it.
    {"name": f"nameless{LONG}", "inputSchema": 5},
    {"name": "hinted", "inputSchema": OBJECT, "annotations": {f"title{LONG}": "\ud800"}},
    # Places that no provider can express, each with a long path.
    {
        "name": "nowhere",
        "inputSchema": {
            "type": "object",
            "properties": {f"{'p' * 60}{number}": {"$ref": f"#/nowhere/{number}"} for number in range(400)},
        },
    },
]
RESULTS: dict[str, Any] = {
    "initialize": {
        "protocolVersion": "2025-11-25",
        "capabilities": {"tools": {}},
        "serverInfo": {"name": "wordy", "version": "1"},
    },
    "tools/list": {"tools": TOOLS},
    "tools/call": {"content": [{"type": "text", "text": "asked"}]},
}
QUESTION: dict[str, Any] = {
    "jsonrpc": "2.0",
    "id": "q",
    "method": "elicitation/create",
    "params": {"message": LONG, "requestedSchema": {"type": LONG, "properties": {}}},
}


def main() -> None:
    """Serve in plain JSON-RPC; each call asks a question first."""
    for line in sys.stdin:
        message = json.loads(line)
        if message.get("method") == "tools/call":
            print(json.dumps(QUESTION), flush=True)
        if "id" in message and "method" in message:
            answer = {"jsonrpc": "2.0", "id": message["id"], "result": RESULTS.get(message["method"], {})}
            print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
