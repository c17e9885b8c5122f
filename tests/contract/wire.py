"""Toolbus's messages to servers, step by step: over stdio and HTTP, in both eras."""

import asyncio
import json
import re
import sys
import tempfile
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

from tests.contract import peer
from tests.patience import PATIENCE, until
from tests.servers.raw_http import RawServer, Request, raw_server, response
from toolbus import Toolbus, ToolbusError, __version__

ERAS = ("modern", "legacy")
Sent = list[dict[str, Any]]
Step = Callable[[Toolbus], Awaitable[object]]


async def _cancelled(bus: Toolbus, sent: Callable[[], Sent]) -> None:
    call = asyncio.create_task(bus.call("peer_hang"))
    await until(lambda: '"hang"' in json.dumps(sent()))
    call.cancel()
    with suppress(asyncio.CancelledError):
        await call


async def _refused(bus: Toolbus) -> None:
    with suppress(ToolbusError):
        await bus.call("peer_refuse")


def _ignored(*_: object) -> None: ...


STEPS: dict[str, Step] = {
    "2 call": lambda bus: bus.call("peer_echo", {"text": "tea"}),
    "3 progress": lambda bus: bus.call("peer_steps", on_progress=_ignored),
    "4 error": _refused,
    "5 resource": lambda bus: bus.read_resource("peer", "memo://one"),
    "6 subscribe": lambda bus: bus.subscribe("peer", "memo://one"),
    "7 prompt": lambda bus: bus.get_prompt("peer", "ask", {"what": "tea"}),
    "8 completion": lambda bus: bus.complete("peer", "ask", "what", "t"),
}


MARK = "the end of a step"
LATE = {
    ("stdio modern", "9 cancel"): "notifications/cancelled",
    ("stdio legacy", "9 cancel"): "notifications/cancelled",
    ("http legacy", "9 cancel"): "notifications/cancelled",
    ("http modern", "1 connect and list"): "subscriptions/listen",
    ("stdio modern", "1 connect and list"): "subscriptions/listen",
    ("http legacy", "1 connect and list"): "GET /mcp",
    ("http legacy", "close"): "DELETE /mcp",
}
"""The message that a step sends without waiting for the answer."""


def recorded() -> dict[str, Any]:
    """The messages of each step, by transport and era."""
    found: dict[str, Any] = {}
    for era in ERAS:
        with tempfile.TemporaryDirectory() as folder:
            found |= _numbered(f"stdio {era}", asyncio.run(_over_stdio(era, Path(folder))))
        found |= _numbered(f"http {era}", asyncio.run(_over_http(era)))
    return found


def _numbered(place: str, steps: dict[str, Sent]) -> dict[str, Any]:
    return {
        f"{place}: {step}, {number}": one for step, sent in steps.items() for number, one in enumerate(sent)
    }


async def _over_stdio(era: str, folder: Path) -> dict[str, Sent]:
    trace = folder / "trace"
    entry = {"command": sys.executable, "args": [peer.__file__, era, str(trace)], "era": era}

    def sent() -> Sent:
        lines = trace.read_text().splitlines() if trace.exists() else []
        return [normal(json.loads(line)) for line in lines]

    return await _stepwise(f"stdio {era}", entry, sent)


async def _over_http(era: str) -> dict[str, Sent]:
    async with _http_peer(era) as server:

        def sent() -> Sent:
            return [_http(request) for request in server.requests]

        return await _stepwise(f"http {era}", {"url": server.url, "era": era}, sent)


async def _stepwise(place: str, entry: dict[str, Any], sent: Callable[[], Sent]) -> dict[str, Sent]:
    """The messages sent in each step, in any order; a call marks the end of each."""
    found: dict[str, Sent] = {}
    seen = 0

    async def end(step: str) -> None:
        nonlocal seen
        if late := LATE.get((place, step)):
            await until(lambda: late in json.dumps(sent()[seen:]))
        if bus.running:
            await bus.call("peer_echo", {"text": MARK})
        whole = sent()
        found[step] = sorted((one for one in whole[seen:] if MARK not in json.dumps(one)), key=json.dumps)
        seen = len(whole)

    bus = Toolbus({"servers": {"peer": entry}})
    await bus.start()
    await end("1 connect and list")
    for step, act in STEPS.items():
        async with asyncio.timeout(PATIENCE):
            await act(bus)
        await end(step)
    await _cancelled(bus, sent)
    await end("9 cancel")
    await bus.stop()
    await end("close")
    return found


JSON_TYPE = b"content-type: application/json\r\n"


@asynccontextmanager
async def _http_peer(era: str) -> AsyncGenerator[RawServer]:
    async def send(writer: asyncio.StreamWriter, request: Request) -> None:
        message = request.message
        sent = peer.answers(era, message)
        headers = ["mcp-session-id: the-session"] if message.get("method") == "initialize" else []
        if sent and "method" in sent[0]:
            body = "".join(f"data: {json.dumps(one)}\n\n" for one in sent).encode()
            headers.append("content-type: text/event-stream")
            is_whole = "id" in sent[-1]
            writer.write(response(body, *headers, length=is_whole).replace(JSON_TYPE, b"", 1))
        elif sent:
            writer.write(response(json.dumps(sent[0]).encode(), *headers))
        elif "id" not in message:
            writer.write(response(b"", status="202 Accepted" if message else "405 Method Not Allowed"))

    async with raw_server() as server:
        server.send = server.send_other = send
        yield server


def _http(request: Request) -> dict[str, Any]:
    headers = {name: without_version(value) for name, value in sorted(request.headers.items())}
    headers.update({name: name.upper() for name in ("host", "content-length") if name in headers})
    return {"line": request.line, "headers": headers, "message": normal(request.message)}


def normal(message: Any) -> Any:
    """A message without parts that differ from run to run."""
    if isinstance(message, dict):
        fixed = {"id": "ID", "requestId": "ID", "progressToken": "TOKEN", "seconds": "SECONDS"}
        return {key: fixed.get(key) or normal(message[key]) for key in sorted(message)}  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]  # any JSON
    if isinstance(message, list):
        return [normal(one) for one in message]  # pyright: ignore[reportUnknownVariableType]  # any JSON
    return without_version(message) if isinstance(message, str) else message


def without_version(text: str) -> str:
    return re.sub(rf"(?<![\d.]){re.escape(__version__)}(?![\d.])", "VERSION", text)
