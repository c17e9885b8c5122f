"""A server in plain JSON-RPC over stdio that offers the content of a JSON file: `python offering.py FILE`.

The file is read for every list, and may have `tools`, `prompts`, `templates` and `instructions`. When it
changes, the server sends `list_changed`. Every call is answered with the name of the tool, and appended to
`FILE.calls`; every start appends a letter to `FILE.starts`. With `silent` in the file, it answers nothing.
"""

import json
import sys
import threading
import time
from pathlib import Path
from typing import Any

Message = dict[str, Any]
LISTS = {
    "tools/list": ("tools", "tools"),
    "prompts/list": ("prompts", "prompts"),
    "resources/templates/list": ("resourceTemplates", "templates"),
    "resources/list": ("resources", "resources"),
}
CAPABILITIES: Message = {
    "tools": {"listChanged": True},
    "prompts": {"listChanged": True},
    "resources": {"listChanged": True},
}


def send(message: Message) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def answer(file: Path, method: str, params: Message) -> Message | None:
    offered = json.loads(file.read_text())
    match method:
        case "initialize":
            return {
                "protocolVersion": "2025-11-25",
                "serverInfo": {"name": "offering", "version": "1"},
                "capabilities": CAPABILITIES,
                "instructions": offered.get("instructions", ""),
            }
        case "tools/call":
            with Path(f"{file}.calls").open("a") as calls:
                calls.write(params["name"] + "\n")
            return {"content": [{"type": "text", "text": f"ran {params['name']}"}]}
        case "prompts/get":
            return {"messages": [{"role": "user", "content": {"type": "text", "text": "prompted"}}]}
        case _ if method in LISTS:
            key, field = LISTS[method]
            return {key: offered.get(field, [])}
        case "ping":
            return {}
        case _:
            return None


def watch(file: Path, before: bytes) -> None:
    while True:
        time.sleep(0.02)
        if (now := file.read_bytes()) != before and now.endswith(b"}"):
            before = now
            for name in ("tools", "prompts", "resources"):
                send({"method": f"notifications/{name}/list_changed"})


def main(file: Path) -> None:
    with Path(f"{file}.starts").open("a") as starts:
        starts.write("s")
    # Read here: the thread may get its turn only after the first list was sent, and the file changed.
    threading.Thread(target=watch, args=(file, file.read_bytes()), daemon=True).start()
    for line in sys.stdin:
        if json.loads(file.read_text()).get("silent"):
            continue
        message: Message = json.loads(line)
        if "id" not in message or "method" not in message:
            continue
        result = answer(file, message["method"], message.get("params") or {})
        if result is None:
            send({"id": message["id"], "error": {"code": -32601, "message": "not found"}})
        else:
            send({"id": message["id"], "result": result})


if __name__ == "__main__":
    main(Path(sys.argv[1]))
