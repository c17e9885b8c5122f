"""One client over stdin and stdout, in both eras: a real process, and pipes."""

import asyncio
import json
import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from tests import warm
from tests.gateway.driving import FORWARDS, LEGACY_CAPABILITIES, MODERN_CAPABILITIES, text_of
from tests.inside.gateway import Gateway, serve_stdio
from tests.patience import PATIENCE
from tests.servers.asking import asking
from tests.servers.everyday import everyday
from toolbus import Toolbus

pytestmark = pytest.mark.anyio
ENVELOPE = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": MODERN_CAPABILITIES,
}
HELLO = {
    "protocolVersion": "2025-11-25",
    "capabilities": LEGACY_CAPABILITIES,
    "clientInfo": {"name": "test", "version": "1"},
}
_ids = count(1)


class Wire:
    """The client's end of two pipes."""

    def __init__(self, reader: asyncio.StreamReader, write: Any) -> None:
        self._reader = reader
        self._write = write
        self.others: list[dict[str, Any]] = []
        """The messages between the responses."""

    def send(self, message: dict[str, Any] | str) -> None:
        text = message if isinstance(message, str) else json.dumps({"jsonrpc": "2.0", **message})
        self._write(text.encode() + b"\n")

    def begin(self, method: str, params: dict[str, Any] | None = None, *, modern: bool = False) -> int:
        number = next(_ids)
        given = (
            {**(params or {}), "_meta": {**ENVELOPE, **(params or {}).get("_meta", {})}} if modern else params
        )
        self.send({"id": number, "method": method, **({} if given is None else {"params": given})})
        return number

    async def next(self) -> dict[str, Any]:
        line = await asyncio.wait_for(self._reader.readline(), PATIENCE)
        assert line, "the gateway closed its stdout"
        return json.loads(line)

    async def response(self, number: int | None) -> dict[str, Any]:
        while (message := await self.next()).get("id", "none") != number or "method" in message:
            self.others.append(message)
        return message

    async def request(
        self, method: str, params: dict[str, Any] | None = None, *, modern: bool = False
    ) -> dict[str, Any]:
        return await self.response(self.begin(method, params, modern=modern))


@asynccontextmanager
async def served() -> AsyncGenerator[tuple[Wire, "asyncio.Task[None]", Any]]:
    """A gateway in this process, at the ends of two pipes; closing the last value is the end of its stdin."""
    servers = {"day": {"server": everyday()}, "ask": {"server": asking(), "era": "legacy"}}
    bus = Toolbus({"servers": servers}, interactions=FORWARDS)
    from_client, to_gateway = os.pipe()
    from_gateway, to_client = os.pipe()
    reader = asyncio.StreamReader(limit=2**24)
    loop = asyncio.get_running_loop()
    transport, _ = await loop.connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(from_gateway, "rb")
    )
    stdin = os.fdopen(to_gateway, "wb", buffering=0)
    try:
        with os.fdopen(from_client, "rb") as inward, os.fdopen(to_client, "wb", buffering=0) as outward:
            async with bus, Gateway(bus) as gateway:
                serving = asyncio.create_task(serve_stdio(gateway, inward, outward))
                try:
                    yield Wire(reader, stdin.write), serving, stdin
                finally:
                    stdin.close()
                    await asyncio.wait_for(serving, PATIENCE)
    finally:
        transport.close()


async def test_a_legacy_client() -> None:
    async with served() as (wire, _, _stdin):
        assert (await wire.request("ping"))["result"] == {}
        assert (await wire.request("tools/list"))["error"]["code"] == -32600
        hello = wire.begin("initialize", HELLO)
        early = wire.begin("tools/list")  # before the answer
        assert (await wire.response(hello))["result"]["protocolVersion"] == "2025-11-25"
        assert (await wire.response(early))["result"]["tools"]
        wire.send({"method": "notifications/initialized"})
        answer = {"action": "accept", "content": {"date": "2026-12-24", "seats": 2, "place": "inside"}}
        call = wire.begin("tools/call", {"name": "ask_book", "arguments": {"guest": "Ann"}})
        while (asked := await wire.next()).get("method") != "elicitation/create":
            pass
        wire.send({"id": asked["id"], "result": answer})
        assert text_of((await wire.response(call))["result"]).startswith("Ann: 2026-12-24")
        assert (await wire.request("ping", modern=True))["error"]["code"] == -32600
        assert (await wire.request("initialize", HELLO))["error"]["code"] == -32600


async def test_a_modern_client() -> None:
    async with served() as (wire, _, _stdin):
        found = (await wire.request("server/discover", modern=True))["result"]
        assert found["supportedVersions"] == ["2026-07-28"]
        params = {"name": "ask_book", "arguments": {"guest": "Ann"}}
        asked = (await wire.request("tools/call", params, modern=True))["result"]
        ((key, _),) = asked["inputRequests"].items()
        answer = {"action": "accept", "content": {"date": "2026-12-24", "seats": 2, "place": "inside"}}
        retry = {**params, "inputResponses": {key: answer}, "requestState": asked["requestState"]}
        result = (await wire.request("tools/call", retry, modern=True))["result"]
        assert text_of(result).startswith("Ann: 2026-12-24")
        error = (await wire.request("initialize", HELLO))["error"]
        assert (error["code"], error["data"]["supported"]) == (-32022, ["2026-07-28"])
        assert (await wire.request("tools/list"))["error"]["code"] == -32602
        assert (await wire.request("ping", modern=True))["error"]["code"] == -32601


async def test_requests_run_at_the_same_time() -> None:
    async with served() as (wire, _, _stdin):
        a = wire.begin(
            "tools/call", {"name": "day_meet", "arguments": {"mine": "a", "other": "b"}}, modern=True
        )
        b = wire.begin(
            "tools/call", {"name": "day_meet", "arguments": {"mine": "b", "other": "a"}}, modern=True
        )
        assert {(await wire.next())["id"], (await wire.next())["id"]} == {a, b}


@pytest.mark.parametrize("modern", [True, False], ids=["modern", "legacy"])
async def test_a_cancelled_request_gets_no_response(modern: bool) -> None:
    async with served() as (wire, _, _stdin):
        if not modern:
            await wire.request("initialize", HELLO)
        params = {
            "name": "ask_tick",
            "arguments": {"times": 10_000, "seconds": 0.01},
            "_meta": {"progressToken": "p"},
        }
        call = wire.begin("tools/call", params, modern=modern)
        assert (await wire.next())["method"] == "notifications/progress"
        wire.send({"method": "notifications/cancelled", "params": {"requestId": call}})
        hangs = await wire.request("tools/call", {"name": "day_hangs"}, modern=modern)
        assert text_of(hangs["result"]) == "0 0"
        assert all(message.get("id") != call for message in wire.others)


async def test_lines_that_are_not_requests() -> None:
    """Each gets an error, and the connection goes on."""
    async with served() as (wire, _, _stdin):
        for line, code in (
            ("{", -32700),
            ("[1]", -32600),
            ('"x"', -32600),
            ('{"jsonrpc":"2.0","id":null,"method":"ping"}', -32600),
            ('{"jsonrpc":"2.0","id":true,"method":"ping"}', -32600),
            ('{"jsonrpc":"2.0","id":1,"method":"ping","params":[]}', -32600),
        ):
            wire.send(line)
            assert (await wire.next())["error"]["code"] == code
        wire.send("")
        wire.send({"id": 9, "result": {}})
        assert (await wire.request("server/discover", modern=True))["result"]


async def test_calls_in_flight_get_a_moment_when_stdin_ends() -> None:
    async with served() as (wire, serving, stdin):
        call = wire.begin("tools/call", {"name": "ask_tell", "arguments": {"text": "bye"}}, modern=True)
        listening = wire.begin("subscriptions/listen", {"notifications": {}}, modern=True)
        while (await wire.next()).get("method") != "notifications/subscriptions/acknowledged":
            pass
        stdin.close()
        assert text_of((await wire.response(call))["result"]) == "bye"
        await asyncio.wait_for(serving, PATIENCE)
        assert listening


PROGRAM = """
import asyncio, sys
from toolbus import Toolbus
from toolbus.core.ask.interactions import Interactions, QuestionRouting
from toolbus.gateway.gateway import Gateway
from toolbus.gateway.stdio import serve_stdio

async def main() -> None:
    bus = Toolbus({"servers": {"day": {"command": sys.argv[1], "args": [sys.argv[2], "stdio"]}}},
        interactions=Interactions(_routing=QuestionRouting(forwards=True)))
    try:
        async with Gateway(bus) as gateway:
            serving = asyncio.create_task(serve_stdio(gateway))
            await asyncio.sleep(0)
            print("a stray line")
            await serving
    finally:
        await bus.stop()

asyncio.run(main())
"""


async def test_a_process_prints_nothing_but_the_protocol() -> None:
    everyday_script = Path(__file__).parents[1] / "servers" / "everyday.py"
    process = await asyncio.create_subprocess_exec(
        warm.python(),
        "-c",
        PROGRAM,
        warm.python(),
        str(everyday_script),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    wire = Wire(process.stdout, process.stdin.write)
    params = {"name": "day_add", "arguments": {"a": 1, "b": 2}}
    result = await wire.request("tools/call", params, modern=True)
    assert result["result"]["structuredContent"] == {"result": 3}
    process.stdin.close()
    assert await asyncio.wait_for(process.wait(), PATIENCE) == 0
    assert await process.stdout.read() == b""
    assert b"a stray line" in await process.stderr.read()
