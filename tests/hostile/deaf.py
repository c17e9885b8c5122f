"""A legacy server that stops reading after a call of `stop`: `python deaf.py HOW`.

HOW: `closes its input`, `stops reading`, `talks on` (stops reading, and sends pings and logs all the time).
"""

import json
import os
import sys
import time
from typing import Any

TOOLS = [{"name": name, "inputSchema": {"type": "object"}} for name in ("stop", "echo")]


def send(message: dict[str, Any]) -> None:
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


def stop(how: str) -> None:
    """Never read again."""
    if how == "closes its input":
        os.close(0)
        time.sleep(600)
    number = 0
    while True:
        time.sleep(0.05)
        if how == "talks on":
            number += 1
            send({"id": f"p{number}", "method": "ping"})
            send({"method": "notifications/message", "params": {"level": "info", "data": "busy"}})


def main(how: str) -> None:
    for line in sys.stdin:
        message = json.loads(line)
        number, method = message.get("id"), message.get("method")
        match method:
            case "initialize":
                info = {"name": "deaf", "version": "1"}
                capabilities: dict[str, Any] = {"tools": {}, "logging": {}}
                result: Any = {
                    "protocolVersion": "2025-06-18",
                    "serverInfo": info,
                    "capabilities": capabilities,
                }
            case "tools/list":
                result = {"tools": TOOLS}
            case "tools/call":
                result = {"content": [{"type": "text", "text": str(os.getpid())}]}
            case _:
                result = {}
        if number is not None:
            send({"id": number, "result": result})
        if method == "tools/call" and message["params"]["name"] == "stop":
            stop(how)


if __name__ == "__main__":
    main(sys.argv[1])
