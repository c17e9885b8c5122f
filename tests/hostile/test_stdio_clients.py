"""Clients at stdin and stdout that send unreadable lines, or do not read the responses."""

import asyncio
import json
import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, BinaryIO

import pytest

from tests.inside.gateway import Gateway, GatewayLimits
from tests.patience import PATIENCE, until
from tests.servers.everyday import everyday
from toolbus import Toolbus
from toolbus.gateway import stdio

pytestmark = pytest.mark.anyio

CLIENT = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}


@asynccontextmanager
async def served(
    settings: GatewayLimits | None = None,
) -> AsyncGenerator[tuple[BinaryIO, BinaryIO, "asyncio.Task[None]"]]:
    """The client's ends of two pipes, and the gateway between them."""
    from_client, to_gateway = os.pipe()
    from_gateway, to_client = os.pipe()
    with (
        os.fdopen(from_client, "rb") as inward,
        os.fdopen(to_client, "wb", buffering=0) as outward,
        os.fdopen(from_gateway, "rb") as output,
    ):
        async with Toolbus({"servers": {"day": everyday()}}) as bus, Gateway(bus, settings) as gateway:
            serving = asyncio.create_task(stdio.serve_stdio(gateway, inward, outward))
            with os.fdopen(to_gateway, "wb", buffering=0) as input_:
                yield input_, output, serving
            async with asyncio.timeout(PATIENCE):
                await serving


def line(method: str, number: int | None = None, params: Any = None) -> bytes:
    parts = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
    return json.dumps({key: part for key, part in parts.items() if part is not None}).encode() + b"\n"


async def response(output: BinaryIO, number: int | None) -> dict[str, Any]:
    async with asyncio.timeout(PATIENCE):
        while True:
            text = await asyncio.to_thread(output.readline)
            assert text, "the gateway has ended"
            found = json.loads(text)
            if "method" not in found and found["id"] == number:
                return found


@pytest.mark.parametrize("depth", [1_000, 100_000])
async def test_a_message_nested_too_deeply(depth: int) -> None:
    """It is an error of that message, and the client is served on: a model may have written the arguments."""
    deep = b'{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"add","arguments":{"a":%s%s}}}\n'
    async with served() as (client, output, _):
        client.write(line("initialize", 1, CLIENT))
        await response(output, 1)
        client.write(deep % (b"[" * depth, b"]" * depth))
        client.write(line("ping", 3))
        assert (await response(output, 3))["result"] == {}


async def test_a_line_without_an_end() -> None:
    """It is not kept: a message beyond the limit is an error, and the next one is read."""
    async with served(GatewayLimits(max_message=10_000)) as (client, output, _):
        client.write(line("initialize", 1, CLIENT))
        await response(output, 1)
        for _ in range(100):
            await asyncio.to_thread(client.write, b"x" * 10_000)
        client.write(b"\n" + line("ping", 2))
        assert (await response(output, None))["error"]["code"] == stdio.PARSE_ERROR
        assert (await response(output, 2))["result"] == {}


async def test_a_client_that_asks_and_does_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its queue has a limit: beyond it, it is not heard until it reads, and no request is lost."""
    monkeypatch.setattr(stdio, "BACKLOG", 100_000)
    many, asked = 5_000, 0
    async with served() as (client, output, serving):
        client.write(line("initialize", 1, CLIENT))
        await response(output, 1)

        def ask() -> None:
            nonlocal asked
            for number in range(2, 2 + many):
                client.write(line("tools/list", number))
                asked = number

        asking = asyncio.create_task(asyncio.to_thread(ask))
        seen: list[int] = []

        def is_stuck() -> bool:
            """Whether nobody has read what it writes for many turns of the loop."""
            seen.append(asked)
            return asked == 1 + many or (len(seen) > 100 and len(set(seen[-100:])) == 1)

        await until(is_stuck)
        assert asked < many
        assert (await response(output, many + 1))["result"]["tools"]
        await asking
        assert not serving.done()


async def test_a_client_that_never_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its connection is given up in the end."""
    monkeypatch.setattr(stdio, "BACKLOG", 1_000)
    monkeypatch.setattr(stdio, "UNREAD", 0.1)
    monkeypatch.setattr(stdio, "LINGER", 0.1)
    async with served() as (client, output, serving):
        client.write(line("initialize", 1, CLIENT))
        await response(output, 1)
        client.write(b"".join(line("tools/list", number) for number in range(2, 500)))
        await until(serving.done)
