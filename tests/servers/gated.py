"""A server that says nothing until a file exists, and then offers what another file lists.

Run it: `GATE=FILE OFFER=FILE python gated.py`. OFFER has the definitions of its tools, in JSON; each is also
the name of a prompt and of a resource. Every call is written to `OFFER.calls`.
"""

import json
import os
import sys
import time
from pathlib import Path
from typing import Any


def result(method: str, params: dict[str, Any], tools: list[dict[str, Any]]) -> dict[str, Any] | None:
    """The result for a request; None if the method is unknown."""
    names = [tool["name"] for tool in tools]
    match method:
        case "initialize":
            return {
                "protocolVersion": "2025-06-18",
                "capabilities": {"tools": {}, "prompts": {}, "resources": {}},
                "serverInfo": {"name": "gated", "version": "1"},
                "instructions": f"I have {', '.join(names)}.",
            }
        case "tools/list":
            return {"tools": tools}
        case "prompts/list":
            return {"prompts": [{"name": name} for name in names]}
        case "resources/list":
            return {"resources": [{"name": name, "uri": f"gated://{name}"} for name in names]}
        case "tools/call":
            with Path(f"{os.environ['OFFER']}.calls").open("a") as calls:
                print(params["name"], file=calls)
            return {"content": [{"type": "text", "text": f"called {params['name']}"}]}
        case _:
            return None


def main() -> None:
    """Serve until the input ends."""
    while not Path(os.environ["GATE"]).exists():
        time.sleep(0.01)
    tools = json.loads(Path(os.environ["OFFER"]).read_text())
    for line in sys.stdin:
        message = json.loads(line)
        if "id" in message:
            found = result(message["method"], message.get("params") or {}, tools)
            unknown = {"error": {"code": -32601, "message": "Method not found"}}
            answer = unknown if found is None else {"result": found}
            print(json.dumps({"jsonrpc": "2.0", "id": message["id"], **answer}), flush=True)


if __name__ == "__main__":
    main()
