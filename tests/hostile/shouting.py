"""A server over stdio whose every text is for a terminal: escape sequences, markup, hidden characters."""

import json
import sys
from typing import Any

Message = dict[str, Any]
# Rich markup and format fields; clears the screen, sets the title, makes a link, writes to the clipboard;
# turns the text round, hides it, starts a sequence in one character, and ends a line in other ways.
MARKUP = (
    "[[[[ \u00e9\U0001f600 [/red] [bold]b[/] [link=http://evil.test]l[/link] :smile: {task.fields}"
    " {0} %s %(x)s"
)
CONTROLS = (
    "\x1b[2J\x1b]0;title\x07\x1b]8;;http://evil.test\x1b\\link\x1b]8;;\x1b\\\x1b]52;c;QQ==\x07"
    "\u202e\u200b\x9b31m\u2066\U000e0041\r\b\u2028\u0085"
)
EVIL = MARKUP + CONTROLS
ALIAS = "al[/red][bold]\x1b[31m\u202e\x9b"
"""An alias of the same kind."""
TOOLS = ("look", "fail", "reject", "odd", "files", "ask", "[red]x", f"m{EVIL}")
NUMBERS = {'"NAN"': "NaN", '"INFINITE"': "1e999", '"HUGE"': "1" + "0" * 5000}
"""Placeholders for numbers that json.dumps would not write."""


def results() -> dict[str, Any]:
    """Method -> its result."""
    value = {"type": "string", "description": EVIL, "enum": [EVIL, "a"], "default": EVIL}
    schema = {"type": "object", "description": EVIL, "properties": {"x": value, f"k{EVIL}": {"title": EVIL}}}
    about = {"title": EVIL, "description": EVIL}
    tools = [{"name": name, **about, "inputSchema": schema, "annotations": {"title": EVIL}} for name in TOOLS]
    needy = {"type": "object", "properties": {f"r{EVIL}": value}, "required": [f"r{EVIL}"]}
    bad = {"name": f"bad{EVIL}", "inputSchema": {"type": "object", "properties": {"x": {"default": "NAN"}}}}
    arguments = [{"name": f"a{EVIL}", "description": EVIL}, {"name": "b", "required": True}]
    return {
        "initialize": {
            "protocolVersion": "2025-06-18",
            "serverInfo": {"name": EVIL, "version": EVIL},
            "capabilities": {"tools": {}, "resources": {}, "prompts": {}, "logging": {}},
            "instructions": EVIL,
        },
        "tools/list": {"tools": [*tools, {"name": "needs", "inputSchema": needy}, bad]},
        "resources/list": {
            "resources": [
                {"uri": "test://one", "name": EVIL, **about, "mimeType": EVIL, "size": "HUGE"},
                {"uri": f"test://{EVIL}", "name": "[/red]"},
                {"uri": "test://surrogate", "name": "\ud800"},
            ]
        },
        "resources/templates/list": {
            "resourceTemplates": [{"uriTemplate": f"test://{{x}}{EVIL}", "name": EVIL, **about}]
        },
        "prompts/list": {
            "prompts": [
                {"name": "plain", **about},
                {"name": f"[/red]{EVIL}"},
                {"name": "needs", **about, "arguments": arguments},
            ]
        },
        "resources/read": {
            "contents": [{"uri": f"test://{EVIL}", "text": f"{EVIL}\ud800", "mimeType": EVIL}]
        },
        "prompts/get": {
            "description": EVIL,
            "messages": [{"role": "user", "content": {"type": "text", "text": f"{EVIL}\ud800"}}],
        },
    }


def called(tool: str) -> Message:
    """The response to a call."""
    match tool:
        case "reject":
            return {"error": {"code": -32000, "message": EVIL, "data": EVIL}}
        case "odd":
            odd = ["NAN", "INFINITE", "HUGE", EVIL, "\ud800", {EVIL: EVIL}]
            return {"result": {"content": [], "structuredContent": {"x": odd}}}
        case "files":
            link = {"type": "resource_link", "uri": f"t://{EVIL}", "name": EVIL, "mimeType": EVIL}
            blocks = [
                {"type": "image", "data": "AA==", "mimeType": EVIL},
                {"type": "audio", "data": "!!", "mimeType": EVIL},
                {**link, "description": EVIL, "size": 5},
                {"type": "resource", "resource": {"uri": f"t://{EVIL}", "text": EVIL, "mimeType": EVIL}},
                {"type": "resource", "resource": {"uri": f"t://{EVIL}", "blob": "AA=="}},
                {"type": EVIL, "x": "NAN"},
            ]
            return {"result": {"content": blocks}}
        case _:
            content = [{"type": "text", "text": f"{EVIL}\ud800"}]
            more = {"structuredContent": {EVIL: [EVIL]}, "_meta": {"x": "NAN"}}
            return {"result": {"content": content, "isError": tool == "fail", **more}}


def send(**message: Any) -> None:
    line = json.dumps({"jsonrpc": "2.0", **message})
    for name, number in NUMBERS.items():
        line = line.replace(name, number)
    print(line, flush=True)


def serve() -> None:
    """Serve until the input ends."""
    print(MARKUP, CONTROLS, file=sys.stderr, flush=True)
    print("not a message:", EVIL, flush=True)
    known, asked = results(), None
    for line in sys.stdin:
        message: Message = json.loads(line)
        number, method = message.get("id"), message.get("method")
        if method is None:
            send(id=asked, result={"content": [{"type": "text", "text": EVIL}]})
        elif method == "tools/call":
            params: Message = message["params"]
            meta: Message = params.get("_meta") or {}
            data = {EVIL: ["NAN", EVIL, "HUGE", "\ud800"]}
            send(method="notifications/message", params={"level": "error", "logger": EVIL, "data": data})
            for done, total in (("NAN", "NAN"), ("INFINITE", "INFINITE"), (-5, -1), (1, 0), (3, 0.001)):
                facts = {"progress": done, "total": total, "message": EVIL}
                token = {"progressToken": meta.get("progressToken")}
                send(method="notifications/progress", params={**token, **facts})
            if params["name"] == "ask":
                asked = number
                field = {"type": "string", "title": EVIL, "description": EVIL}
                form = {"type": "object", "properties": {"a": field}, "required": ["a"]}
                send(id="q", method="elicitation/create", params={"message": EVIL, "requestedSchema": form})
            else:
                send(id=number, **called(params["name"]))
        elif number is not None:
            error = {"code": -32601, "message": EVIL}
            send(id=number, **({"result": known[method]} if method in known else {"error": error}))


if __name__ == "__main__":
    sys.stdout.reconfigure(encoding="utf-8")  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]  # it is a file
    sys.stderr.reconfigure(encoding="utf-8")  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]  # likewise
    serve()
