"""A shop as a server in plain JSON-RPC over stdio: orders with parts inside, questions, and things to read.

Run it: `python shop.py`.
"""

import base64
import json
from typing import Any

from tests.gateway.console.wild import Wild, png

ADDRESS: dict[str, Any] = {
    "type": "object",
    "properties": {
        "street": {"type": "string"},
        "city": {"type": "string", "default": "Oslo"},
        "zip": {"type": "string", "maxLength": 5},
    },
    "required": ["street"],
}
ORDER: dict[str, Any] = {
    "type": "object",
    "properties": {
        "customer": {"type": "string", "description": "Who pays."},
        "address": ADDRESS,
        "items": {
            "type": "array",
            "minItems": 1,
            "items": {
                "type": "object",
                "properties": {
                    "article": {"type": "string"},
                    "count": {"type": "integer", "minimum": 1, "default": 1},
                    "color": {"enum": ["red", "blue"]},
                },
                "required": ["article"],
            },
        },
        "payment": {
            "oneOf": [
                {
                    "title": "Card",
                    "type": "object",
                    "properties": {"kind": {"const": "card"}, "number": {"type": "string"}},
                    "required": ["kind", "number"],
                },
                {
                    "title": "Invoice",
                    "type": "object",
                    "properties": {"kind": {"const": "invoice"}, "days": {"type": "integer", "default": 14}},
                    "required": ["kind"],
                },
            ]
        },
        "extras": {"type": "array", "items": {"enum": ["gift", "fast"]}, "uniqueItems": True},
        "note": {"anyOf": [{"type": "string"}, {"type": "null"}], "default": None},
    },
    "required": ["customer", "address", "items"],
    "additionalProperties": False,
}
WHO: dict[str, Any] = {"type": "object", "properties": {"who": {"type": "string"}}, "required": ["who"]}
TEXT: dict[str, Any] = {"type": "object", "properties": {"text": {"type": "string"}}}
CITIES = ["Oslo", "Osaka", "Paris"]


def _tool(name: str, description: str, schema: dict[str, Any], **hints: bool) -> dict[str, Any]:
    return {"name": name, "description": description, "inputSchema": schema, "annotations": hints}


class Shop(Wild):
    """The server."""

    def __init__(self) -> None:
        super().__init__()
        self.tools = [
            _tool("order", "Order some articles.", ORDER, destructiveHint=False),
            _tool("greet", "Asks for a name, and greets.", {"type": "object"}, readOnlyHint=True),
            _tool("refund", "Pays money back.", WHO, destructiveHint=True),
            _tool("close", "Closes the shop.", {"type": "object"}),
            _tool("report", "A long report.", {"type": "object"}, readOnlyHint=True),
            _tool("echo", "Says it again.", TEXT, readOnlyHint=True),
            _tool("slow", "Takes its time.", {"type": "object"}),
        ]

    def take(self, number: Any, method: str, params: dict[str, Any]) -> None:
        match method:
            case "initialize":
                offers: dict[str, Any] = {"tools": {}, "resources": {}, "prompts": {}, "completions": {}}
                info = {"name": "shop", "version": "1"}
                result: dict[str, Any] = {"serverInfo": info, "capabilities": offers}
                self.result(number, {"protocolVersion": "2025-06-18", **result})
            case "resources/list":
                listed = {"uri": "shop://terms", "name": "terms", "description": "What you agree to."}
                logo = {"uri": "shop://logo", "name": "logo", "mimeType": "image/png", "size": len(png())}
                gone = {"uri": "shop://gone", "name": "gone"}
                self.result(number, {"resources": [listed, logo, gone]})
            case "resources/templates/list":
                template = {
                    "uriTemplate": "shop://{city}/hours",
                    "name": "hours",
                    "description": "When it is open.",
                }
                self.result(number, {"resourceTemplates": [template]})
            case "resources/read":
                self.read(number, params["uri"])
            case "prompts/list":
                arguments = [{"name": "city", "required": True}, {"name": "tone"}]
                self.result(
                    number, {"prompts": [{"name": "invite", "title": "Invite", "arguments": arguments}]}
                )
            case "prompts/get":
                text = f"Invite them to {params['arguments']['city']}."
                message = {"role": "user", "content": {"type": "text", "text": text}}
                self.result(number, {"messages": [message], "description": "An invitation"})
            case "completion/complete":
                begun = params["argument"]["value"]
                found = [city for city in CITIES if city.lower().startswith(begun.lower())]
                self.result(number, {"completion": {"values": found}})
            case _:
                super().take(number, method, params)

    def read(self, number: Any, uri: str) -> None:
        if uri == "shop://logo":
            part = {"blob": base64.b64encode(png()).decode("ascii"), "mimeType": "image/png"}
        elif uri == "shop://gone":
            self.refuse(number, "nobody knows where it is")
            return
        else:
            part = {"text": f"{uri}: all sales are final"}
        self.result(number, {"contents": [{"uri": uri, **part}]})

    def call(self, number: Any, name: str, params: dict[str, Any]) -> None:
        given: dict[str, Any] = params.get("arguments") or {}
        match name:
            case "order" | "echo" | "refund" | "close":
                text = json.dumps(given, sort_keys=True)
                self.result(number, {"content": [{"type": "text", "text": text}], "structuredContent": given})
            case "greet":
                self.asking = number
                asked = {"message": "Who are you?", "requestedSchema": WHO}
                self.say({"id": "question", "method": "elicitation/create", "params": asked})
            case "report":
                self.done(number, "\n".join(f"line {line}" for line in range(20_000)))
            case _:
                super().call(number, name, params)

    def answered(self, message: dict[str, Any]) -> None:
        content: dict[str, Any] = message["result"].get("content") or {}
        self.done(self.asking, f"Hello {content.get('who', 'nobody')}!")


if __name__ == "__main__":
    Shop().serve()
