"""A server in plain JSON-RPC over stdio with skills from a JSON file: `python serving.py FILE modern|legacy`.

The file has `skills` (the entries to list) and `unlisted` (entries that only `skills/get` returns). It also
has `files` (text by URI; `{"blob": ...}` for others) and `page` (skills on a page). It is read for every
request; all methods are appended to `FILE.asked`, with the URI if there is one.
"""

import json
import sys
from pathlib import Path
from typing import Any

Message = dict[str, Any]
SKILLS = "io.modelcontextprotocol/skills"
CAPABILITIES: Message = {"tools": {}, "resources": {}, "extensions": {SKILLS: {}}}
NO_SUCH: Message = {"code": -32602, "message": "it is not served"}
VERSIONS = {"modern": "2026-07-28", "legacy": "2025-11-25"}


def answer(offer: Message, era: str, method: str, params: Message) -> Message | None:
    """The result of a request; None if there is none."""
    match method:
        case "server/discover" if era == "modern":
            return {"supportedVersions": [VERSIONS[era]], "capabilities": CAPABILITIES}
        case "initialize" if era == "legacy":
            info = {"name": "serving", "version": "1"}
            return {"protocolVersion": VERSIONS[era], "serverInfo": info, "capabilities": CAPABILITIES}
        case "tools/list":
            return {"tools": [{"name": "work", "inputSchema": {"type": "object"}}]}
        case "resources/list" | "resources/templates/list":
            return {"resources": [], "resourceTemplates": []}
        case "skills/list":
            start, size = int(params.get("cursor", 0)), offer.get("page", 1_000)
            more = {"nextCursor": str(start + size)} if start + size < len(offer["skills"]) else {}
            return {"skills": offer["skills"][start : start + size], **more}
        case "skills/get":
            every = [*offer["skills"], *offer.get("unlisted", [])]
            found = [one for one in every if one.get("uri") == params["uri"]]
            return {"skill": found[0]} if found else None
        case "resources/read":
            return contents(params["uri"], offer["files"].get(params["uri"]))
        case _:
            return None


def contents(uri: str, content: Any) -> Message | None:
    """The content of a file: a text, a blob, or several of them."""
    parts: list[Any] = [content] if isinstance(content, str | dict | None) else content
    texts: list[Message] = [{"text": part} if isinstance(part, str) else part for part in parts]
    return None if content is None else {"contents": [{"uri": uri, **text} for text in texts]}


def main(file: Path, era: str) -> None:
    """Serve until stdin ends."""
    for line in sys.stdin:
        message: Message = json.loads(line)
        method: str = message.get("method", "")
        params: Message = message.get("params") or {}
        with Path(f"{file}.asked").open("a") as asked:
            asked.write(f"{method} {params.get('uri', '')}".strip() + "\n")
        if "id" not in message:
            continue
        result = answer(json.loads(file.read_text()), era, method, params)
        if result is not None and era == "modern":
            result = {"resultType": "complete", "ttlMs": 0, "cacheScope": "public", **result}
        body = {"error": NO_SUCH} if result is None else {"result": result}
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], **body}), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
