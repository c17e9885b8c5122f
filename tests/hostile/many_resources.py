"""A server over stdio: resources that it is slow to watch, and tools for tasks, without end or large."""

import json
import sys
import time
from typing import Any

Message = dict[str, Any]
NUMBER = 10
RESULTS: dict[str, Message] = {
    "initialize": {
        "protocolVersion": "2025-11-25",
        "capabilities": {"resources": {"subscribe": True}, "tools": {}},
        "serverInfo": {"name": "many", "version": "1"},
    },
    "resources/list": {
        "resources": [{"uri": f"many://{one}", "name": str(one)} for one in range(NUMBER)],
    },
    "tools/list": {
        "tools": [
            {"name": name, "inputSchema": {"type": "object"}, "execution": {"taskSupport": "optional"}}
            for name in ("endless", "large")
        ]
    },
    "resources/templates/list": {"resourceTemplates": [{"uriTemplate": "many://{one}", "name": "one"}]},
}


def main() -> None:
    """Answer until the input ends."""
    for line in sys.stdin:
        message: Message = json.loads(line)
        method = message.get("method", "")
        if "id" in message and method and message.get("params", {}).get("name") != "endless":
            if method == "resources/subscribe":
                time.sleep(0.01)
            result = RESULTS.get(method, {})
            if method == "tools/call":
                result = {"content": [{"type": "text", "text": "x" * message["params"]["arguments"]["size"]}]}
            print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)


if __name__ == "__main__":
    main()
