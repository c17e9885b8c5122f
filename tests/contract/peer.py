"""A plain MCP server of either era whose answers never change, over stdio or HTTP.

Run it: `python peer.py modern|legacy [TRACE]`. Each message that it receives is a line of the trace. The
lockfile in `old/` has its tools, so do not change their definitions.
"""

import json
import sys
from pathlib import Path
from typing import Any

Message = dict[str, Any]

CAPABILITIES: Message = {
    "completions": {},
    "logging": {},
    "prompts": {"listChanged": True},
    "resources": {"listChanged": True, "subscribe": True},
    "tools": {"listChanged": True},
}
TEXT: Message = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
TOOLS: list[Message] = [
    {
        "name": "echo",
        "description": "Say it again.",
        "inputSchema": TEXT,
        "annotations": {"readOnlyHint": True},
    },
    {"name": "fail", "description": "Always fails.", "inputSchema": {"type": "object"}},
    {"name": "refuse", "description": "Answers with an error.", "inputSchema": {"type": "object"}},
    {"name": "hang", "description": "Never answers.", "inputSchema": {"type": "object"}},
    {"name": "book", "description": "Asks for the day.", "inputSchema": {"type": "object"}},
    {"name": "steps", "description": "Reports progress.", "inputSchema": {"type": "object"}},
]
DAY: Message = {"type": "object", "properties": {"day": {"type": "string"}}, "required": ["day"]}
QUESTION: Message = {
    "resultType": "input_required",
    "inputRequests": {
        "when": {
            "method": "elicitation/create",
            "params": {"mode": "form", "message": "Which day?", "requestedSchema": DAY},
        }
    },
    "requestState": "the state",
}
MEMO: Message = {"uri": "memo://one", "name": "one", "mimeType": "text/plain"}
RESULTS: Message = {
    "initialize": {
        "protocolVersion": "2025-11-25",
        "capabilities": CAPABILITIES,
        "serverInfo": {"name": "peer", "version": "1"},
        "instructions": "Be kind.",
    },
    "server/discover": {
        "supportedVersions": ["2026-07-28"],
        "capabilities": CAPABILITIES,
        "serverInfo": {"name": "peer", "version": "1"},
        "instructions": "Be kind.",
    },
    "tools/list": {"tools": TOOLS},
    "resources/list": {"resources": [MEMO]},
    "resources/templates/list": {"resourceTemplates": [{"uriTemplate": "memo://of/{who}", "name": "of"}]},
    "resources/read": {"contents": [{**MEMO, "text": "hello"}]},
    "resources/subscribe": {},
    "resources/unsubscribe": {},
    "prompts/list": {"prompts": [{"name": "ask", "arguments": [{"name": "what", "required": True}]}]},
    "prompts/get": {"messages": [{"role": "user", "content": {"type": "text", "text": "What?"}}]},
    "completion/complete": {"completion": {"values": ["tea"]}},
    "logging/setLevel": {},
    "ping": {},
}
WHOLE: Message = {"resultType": "complete", "ttlMs": 3_600_000, "cacheScope": "public"}
OF_OTHER_ERA = {
    "modern": ("initialize", "ping", "logging/setLevel", "resources/subscribe"),
    "legacy": ("server/discover",),
}


def answers(era: str, message: Message) -> list[Message]:
    """Its response to a message: progress, then the answer; nothing for calls that hang."""
    method = message.get("method")
    params: Message = message.get("params") or {}
    if "id" not in message or method is None:
        return []
    if method == "subscriptions/listen" and era == "modern":
        meta = {"io.modelcontextprotocol/subscriptionId": message["id"]}
        honored = {"notifications": params.get("notifications", {}), "_meta": meta}
        return [{"jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged", "params": honored}]
    if method not in (*RESULTS, "tools/call") or method in OF_OTHER_ERA[era]:
        return [_sent(message, error={"code": -32601, "message": "no such method"})]
    result = RESULTS.get(method, {})
    if method == "tools/call":
        match params["name"]:
            case "hang":
                return []
            case "refuse":
                return [
                    _sent(message, error={"code": -32050, "message": "not today", "data": {"why": "rain"}})
                ]
            case "book" if era == "modern" and "inputResponses" not in params:
                return [_sent(message, result=QUESTION)]
            case "fail":
                result = {"content": [{"type": "text", "text": "it failed"}], "isError": True}
            case _:
                result = {"content": [{"type": "text", "text": json.dumps(params.get("arguments"))}]}
    return [*_progress(params), _sent(message, result={**result, **(WHOLE if era == "modern" else {})})]


def _progress(params: Message) -> list[Message]:
    meta: Message = params.get("_meta") or {}
    token = meta.get("progressToken")
    if token is None or params.get("name") != "steps":
        return []
    reports = [
        {"progressToken": token, "progress": step, "total": 2, "message": f"step {step}"} for step in (1, 2)
    ]
    return [{"jsonrpc": "2.0", "method": "notifications/progress", "params": report} for report in reports]


def _sent(message: Message, **answer: Any) -> Message:
    return {"jsonrpc": "2.0", "id": message["id"], **answer}


def serve(era: str, trace: Path | None) -> None:
    """Serve until the input ends."""
    for line in sys.stdin:
        if trace is not None:
            with trace.open("a") as file:
                file.write(line)
        for answer in answers(era, json.loads(line)):
            print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    serve(sys.argv[1], Path(sys.argv[2]) if len(sys.argv) > 2 else None)
