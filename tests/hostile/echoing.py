"""A server over stdio that repeats its secret wherever it can: `python echoing.py FORM`.

The secret is in the variable API_TOKEN; FORM is its spelling. The tools `look` and `fail` repeat it in a
result, `reject` in a protocol error, and `garble` in an invalid result. `mismatch` repeats it in structured
content that its output schema refuses. `ask` repeats it in a question to the user, and `die` on standard
error before it exits.
"""

import base64
import json
import os
import sys
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

Message = dict[str, Any]
FORMS: dict[str, Callable[[str], str]] = {
    "plain": lambda secret: secret,
    "escaped": lambda secret: secret,
    "in a URL": lambda secret: quote(secret, safe=""),
    "in base64": lambda secret: base64.b64encode(f"x{secret}".encode()).decode(),
    "in JSON": lambda secret: json.dumps({"token": secret}),
    "with hidden characters": "\u200b".join,
    "with controls": "\b".join,
}
"""The spellings of a secret in a text."""
OBJECT = {"type": "object"}


class Echoing:
    """The server."""

    def __init__(self, form: str, secret: str) -> None:
        self.form = form
        self.secret = secret
        self.text = f"<{FORMS[form](secret)}>"
        self.asked: Any = None

    def serve(self) -> None:
        print(f"{'.' * 70} {self.secret} is not a message", flush=True)
        print(f"{'.' * 490} {self.secret} starts", file=sys.stderr, flush=True)
        for line in sys.stdin:
            message: Message = json.loads(line)
            number = message.get("id")
            params: Message = message.get("params") or {}
            meta: Message = params.get("_meta") or {}
            if "method" not in message:
                self.send(id=self.asked, result={"content": []})
            elif message["method"] == "tools/call":
                self.call(number, params["name"], meta.get("progressToken"))
            elif number is not None:
                result = self.results().get(message["method"])
                error = {"code": -32601, "message": self.text}
                self.send(id=number, **({"error": error} if result is None else {"result": result}))

    def results(self) -> dict[str, Any]:
        text = self.text
        schema = {**OBJECT, "description": text, "properties": {"a": {"enum": [text], "default": text}}}
        info = {"name": text, "title": text, "version": text}
        tools = [
            {"name": name, "title": text, "description": text, "inputSchema": schema}
            for name in ("look", "fail", "reject", "garble", "ask", "die")
        ]
        refusing = {"name": "mismatch", "inputSchema": OBJECT, "outputSchema": {**OBJECT, "required": [text]}}
        more = {"name": f"also {text}", "inputSchema": OBJECT}
        resource = {"uri": "test://one", "name": text, "description": text, "title": text}
        template = {"uriTemplate": "test://{a}", "name": text, "description": text}
        argument = {"name": "a", "description": text}
        prompt = {"name": "ask", "title": text, "description": text, "arguments": [argument]}
        message = {"role": "user", "content": {"type": "text", "text": text}}
        capabilities: Message = {
            "tools": {},
            "resources": {},
            "prompts": {},
            "logging": {},
            "completions": {},
        }
        return {
            "initialize": {
                "protocolVersion": "2025-06-18",
                "serverInfo": info,
                "capabilities": capabilities,
                "instructions": text,
            },
            "tools/list": {"tools": [*tools, refusing, more]},
            "resources/list": {"resources": [resource, {"uri": "not valid", "name": 5, "description": text}]},
            "resources/templates/list": {"resourceTemplates": [template]},
            "prompts/list": {"prompts": [prompt]},
            "resources/read": {
                "contents": [
                    {"uri": "test://one", "text": text},
                    {"uri": "test://two", "blob": base64.b64encode(self.secret.encode()).decode()},
                ]
            },
            "prompts/get": {"description": text, "messages": [message]},
            "completion/complete": {"completion": {"values": [text]}},
        }

    def call(self, number: Any, tool: str, token: Any) -> None:
        text = self.text
        self.notify("notifications/message", level="error", logger=text, data={text: text})
        self.notify("notifications/progress", progressToken=token, progress=1, message=text)
        print(f"{self.secret} on stderr", file=sys.stderr, flush=True)
        match tool:
            case "reject":
                self.send(id=number, error={"code": -32000, "message": text, "data": {"why": text}})
            case "mismatch":
                self.send(id=number, result={"content": [], "structuredContent": {"x": text}})
            case "garble":
                self.send(id=number, result={"content": [{"type": "text", "text": {text: text}}]})
            case "ask":
                self.asked = number
                wanted = {**OBJECT, "properties": {"a": {"type": "string", "description": text}}}
                params = {"message": text, "requestedSchema": wanted}
                self.send(id="q", method="elicitation/create", params=params)
            case "die":
                sys.exit(5)
            case _:
                encoded = base64.b64encode(self.secret.encode()).decode()
                blocks = [
                    {"type": "text", "text": text},
                    {"type": "resource", "resource": {"uri": "test://x", "text": text}},
                    {"type": "resource", "resource": {"uri": "test://y", "blob": encoded}},
                    {"type": "resource_link", "uri": "test://z", "name": text, "description": text},
                    {"type": "unknown", "text": text},
                ]
                structured = {"x": [text, {text: text}]}
                more = {"isError": tool == "fail", "_meta": {"x": text}}
                self.send(id=number, result={"content": blocks, "structuredContent": structured, **more})

    def notify(self, method: str, **params: Any) -> None:
        self.send(method=method, params=params)

    def send(self, **message: Any) -> None:
        line = json.dumps({"jsonrpc": "2.0", **message}, ensure_ascii=False)
        if self.form == "escaped":
            line = line.replace(self.secret, "".join(f"\\u{ord(letter):04x}" for letter in self.secret))
        print(line, flush=True)


if __name__ == "__main__":
    sys.stdout.reconfigure(encoding="utf-8")  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]  # it is a file
    Echoing(sys.argv[1], os.environ["API_TOKEN"]).serve()
