"""A server in plain JSON-RPC over stdio that offers exactly the content of a file, valid or not.

Run it: `python staged.py modern|legacy FILE`. The file is JSON: a list of stages, each with some of `tools`,
`prompts`, `resources`, `resourceTemplates` and `instructions`. They are sent unchanged. A call of the tool
`next` goes on to the next stage, with a notice that all lists changed. Any other call answers with its name.
The text "DEEP" stands for an object that is nested too deeply for any reader or writer of JSON.
"""

import json
import sys
from typing import Any

Message = dict[str, Any]
NEXT: Message = {"name": "next", "inputSchema": {"type": "object"}}
DEEP = '{"a":' * 20_000 + "1" + "}" * 20_000
LISTS = {
    "tools/list": "tools",
    "prompts/list": "prompts",
    "resources/list": "resources",
    "resources/templates/list": "resourceTemplates",
}


class Staged:
    """One server."""

    def __init__(self, era: str, stages: list[Message]) -> None:
        self.modern = era == "modern"
        self.stages = stages

    def serve(self) -> None:
        for line in sys.stdin:
            message: Message = json.loads(line)
            if "id" in message and "method" in message:
                self.take(message["id"], message["method"], message.get("params") or {})

    def take(self, number: Any, method: str, params: Message) -> None:
        change = {"listChanged": not self.modern}
        capabilities = {"tools": change, "prompts": change, "resources": change}
        said = {key: value for key, value in self.stages[0].items() if key == "instructions"}
        match method:
            case "server/discover" if self.modern:
                self.result(
                    number, {"supportedVersions": ["2026-07-28"], "capabilities": capabilities, **said}
                )
            case "initialize":
                info = {"name": "staged", "version": "1"}
                version = {"protocolVersion": "2025-11-25", "serverInfo": info}
                self.result(number, {**version, "capabilities": capabilities, **said})
            case "tools/call":
                self.result(number, {"content": [{"type": "text", "text": params["name"]}]})
                if params["name"] == "next":
                    self.go_on()
            case _ if method in LISTS:
                listed = self.stages[0].get(LISTS[method], [])
                self.result(number, {LISTS[method]: [*listed, *([NEXT] if method == "tools/list" else [])]})
            case _:
                self.say({"id": number, "error": {"code": -32601, "message": "no such method"}})

    def go_on(self) -> None:
        del self.stages[0]
        for kind in ("tools", "prompts", "resources"):
            self.say({"method": f"notifications/{kind}/list_changed"})

    def result(self, number: Any, result: Message) -> None:
        modern = {"resultType": "complete", "ttlMs": 0, "cacheScope": "public"} if self.modern else {}
        self.say({"id": number, "result": {**modern, **result}})

    def say(self, message: Message) -> None:
        # ASCII: a lone surrogate is sent as an escape, as servers send it.
        print(json.dumps({"jsonrpc": "2.0", **message}).replace('"DEEP"', DEEP), flush=True)


if __name__ == "__main__":
    with open(sys.argv[2], encoding="utf-8") as file:
        Staged(sys.argv[1], json.load(file)).serve()
