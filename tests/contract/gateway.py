"""The gateway's answers to clients of both eras, over HTTP and stdio."""

import json
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tests import warm
from tests.cli.running import environment
from tests.contract import peer
from tests.contract.wire import normal, without_version
from tests.gateway.serving import gateway
from tests.patience import PATIENCE

JSON = dict[str, Any]
PREFIX = "io.modelcontextprotocol/"
INFO = {"name": "client", "version": "1"}
META: JSON = {
    f"{PREFIX}protocolVersion": "2026-07-28",
    f"{PREFIX}clientInfo": INFO,
    f"{PREFIX}clientCapabilities": {},
}
# Later clients get a stream if an answer takes more than a moment.
HELLO: JSON = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": INFO}
BOTH = {"accept": "application/json, text/event-stream", "content-type": "application/json"}

REQUESTS: dict[str, tuple[str, JSON]] = {
    "discover": ("server/discover", {}),
    "ping": ("ping", {}),
    "tools": ("tools/list", {}),
    "bad cursor": ("tools/list", {"cursor": "odd"}),
    "call": ("tools/call", {"name": "peer_echo", "arguments": {"text": "tea"}}),
    "call with progress": ("tools/call", {"name": "peer_steps", "_meta": {"progressToken": "mine"}}),
    "failing call": ("tools/call", {"name": "peer_fail"}),
    "refused call": ("tools/call", {"name": "peer_refuse"}),
    "wrong arguments": ("tools/call", {"name": "peer_echo", "arguments": {"txt": "tea"}}),
    "denied call": ("tools/call", {"name": "peer_hang"}),
    "unknown tool": ("tools/call", {"name": "peer_ecko"}),
    "call without a name": ("tools/call", {}),
    "resources": ("resources/list", {}),
    "templates": ("resources/templates/list", {}),
    "resource": ("resources/read", {"uri": "memo://one"}),
    "unknown resource": ("resources/read", {"uri": "odd://one"}),
    "prompts": ("prompts/list", {}),
    "prompt": ("prompts/get", {"name": "peer_ask", "arguments": {"what": "tea"}}),
    "unknown prompt": ("prompts/get", {"name": "odd"}),
    "completion": (
        "completion/complete",
        {"ref": {"type": "ref/prompt", "name": "peer_ask"}, "argument": {"name": "what", "value": "t"}},
    ),
    "log level": ("logging/setLevel", {"level": "info"}),
    "unknown task": ("tasks/get", {"taskId": "odd"}),
    "unknown method": ("tools/odd", {}),
}
ODD_REQUESTS: dict[str, tuple[str, dict[str, str], str]] = {
    "not JSON": ("POST", BOTH, "{"),
    "not an object": ("POST", BOTH, "7"),
    "a batch": ("POST", BOTH, "[]"),
    "no method": ("POST", BOTH, '{"jsonrpc": "2.0", "id": 1}'),
    "no session": ("POST", BOTH, '{"jsonrpc": "2.0", "id": 1, "method": "tools/list"}'),
    "unknown session": (
        "POST",
        {**BOTH, "mcp-session-id": "odd"},
        '{"jsonrpc": "2.0", "id": 1, "method": "ping"}',
    ),
    "unknown version": (
        "POST",
        {**BOTH, "mcp-protocol-version": "1999-01-01", "mcp-method": "tools/list"},
        json.dumps(
            {
                "jsonrpc": "2.0",
                "id": 1,
                "method": "tools/list",
                "params": {"_meta": {**META, f"{PREFIX}protocolVersion": "1999-01-01"}},
            }
        ),
    ),
    "headers of another method": (
        "POST",
        {**BOTH, "mcp-protocol-version": "2026-07-28", "mcp-method": "tools/call"},
        json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": META}}),
    ),
    "wrong type": ("POST", {**BOTH, "content-type": "text/plain"}, "{}"),
    "wrong accept": ("POST", {**BOTH, "accept": "text/html"}, "{}"),
    "GET without a session": ("GET", BOTH, ""),
    "DELETE without a session": ("DELETE", BOTH, ""),
    "PUT": ("PUT", BOTH, ""),
    "foreign origin": ("POST", {**BOTH, "origin": "https://odd.test"}, "{}"),
    "foreign host": ("POST", {**BOTH, "host": "odd.test"}, "{}"),
}
PAGES = ("/healthz", "/readyz", "/odd")
UNSTABLE = ("date", "content-length")


def recorded() -> dict[str, Any]:
    """Every answer, by transport, era and request."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "work" / "toolbus.yaml"
        file.parent.mkdir()
        server = {"command": sys.executable, "args": [peer.__file__, "modern"], "era": "modern"}
        policy = [{"tools": "peer/hang", "do": "deny", "reason": "it never ends"}]
        serve = {"list_within": PATIENCE}
        file.write_text(json.dumps({"servers": {"peer": server}, "policy": policy, "serve": serve}))
        with gateway(file) as url:
            over_http = dict(_over_http(url))
        return {**over_http, **_over_stdio(file, "modern"), **_over_stdio(file, "legacy")}


def _over_http(url: str) -> Iterator[tuple[str, Any]]:
    address = urlsplit(url)
    with closing(HTTPConnection(address.hostname or "", address.port, timeout=PATIENCE)) as connection:

        def send(verb: str, path: str, headers: dict[str, str], body: str) -> JSON:
            connection.request(verb, path, body, headers)
            response = connection.getresponse()
            shown = {
                name.lower(): value for name, value in response.getheaders() if name.lower() not in UNSTABLE
            }
            text = response.read().decode()
            answer = {
                "status": response.status,
                "headers": dict(sorted(shown.items())),
                "body": _parsed(text),
            }
            session.update({"mcp-session-id": shown["mcp-session-id"]} if "mcp-session-id" in shown else {})
            return _without_session(answer, session.get("mcp-session-id"))

        session: dict[str, str] = {}
        path = address.path
        for name, (method, params) in REQUESTS.items():
            yield (
                f"http modern: {name}",
                send("POST", path, _modern_headers(method, params), _modern(1, method, params)),
            )
        hello = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": HELLO})
        yield "http legacy: 0 initialize", send("POST", path, BOTH, hello)
        known = {**BOTH, **session, "mcp-protocol-version": "2025-06-18"}
        ready = json.dumps({"jsonrpc": "2.0", "method": "notifications/initialized"})
        yield "http legacy: 1 initialized", send("POST", path, known, ready)
        for name, (method, params) in REQUESTS.items():
            message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
            yield f"http legacy: {name}", send("POST", path, known, json.dumps(message))
        yield "http legacy: z end", send("DELETE", path, known, "")
        for name, (verb, headers, body) in ODD_REQUESTS.items():
            yield f"http odd: {name}", send(verb, path, headers, body)
        for page in PAGES:
            yield f"http page: {page}", send("GET", page, {}, "")


def _modern(number: int, method: str, params: JSON) -> str:
    whole = {**params, "_meta": {**META, **params.get("_meta", {})}}
    return json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": whole})


def _modern_headers(method: str, params: JSON) -> dict[str, str]:
    name = params.get("name") or params.get("uri")
    headers = {**BOTH, "mcp-protocol-version": "2026-07-28", "mcp-method": method}
    return {**headers, "mcp-name": name} if name else headers


def _parsed(text: str) -> Any:
    """The JSON of a body, or of the events in it."""
    if text.startswith(("{", "[")):
        return normal(json.loads(text))
    events = [line.removeprefix("data: ") for line in text.splitlines() if line.startswith("data: {")]
    return [normal(json.loads(event)) for event in events] if events else without_version(text)


def _without_session(answer: JSON, session: str | None) -> JSON:
    return json.loads(json.dumps(answer).replace(session, "SESSION")) if session else answer


def _over_stdio(config: Path, era: str) -> dict[str, Any]:
    """The answers to all requests at once, which come in any order."""
    lines: list[str] = []
    if era == "legacy":
        lines.append(
            json.dumps({"jsonrpc": "2.0", "id": "0 initialize", "method": "initialize", "params": HELLO})
        )
        lines.append(json.dumps({"jsonrpc": "2.0", "method": "notifications/initialized"}))
    for name, (method, params) in REQUESTS.items():
        message: JSON = {"jsonrpc": "2.0", "id": name, "method": method, "params": params}
        if era == "modern":
            message = {**json.loads(_modern(1, method, params)), "id": name}
        lines.append(json.dumps(message))
    env = environment(config.parent.parent, TOOLBUS_TRUST="1")
    words = ["serve", "--stdio", "--config", str(config)]
    done = warm.run("toolbus", words, config.parent, env, "\n".join([*lines, "{", ""]), PATIENCE)
    found: dict[str, Any] = {f"stdio {era}: z exit code": done.returncode}
    for line in done.stdout.splitlines():
        message = json.loads(line)
        name = message.get("id") or message.get("method", "not JSON")
        found.setdefault(f"stdio {era}: {name}", []).append(normal(message))
    return found
