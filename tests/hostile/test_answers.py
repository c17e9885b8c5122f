"""Answers that are too large, too deep or no answers at all: an error for that call, and for nothing else."""

import asyncio
import gzip
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests import warm
from tests.hostile.answers import LIMITS, REFUSED, TAKEN, answer
from tests.patience import PATIENCE
from tests.servers.raw_http import Request, raw_server, response
from toolbus import Toolbus, ToolbusError

pytestmark = pytest.mark.anyio
SERVER = str(Path(__file__).with_name("answers.py"))


@asynccontextmanager
async def hostile(transport: str, name: str) -> AsyncGenerator[Toolbus]:
    """A bus with a server that answers so to `look`, and as it should to `plain`."""
    if transport == "stdio":
        entry: dict[str, Any] = {"command": warm.python(), "args": [SERVER, name]}
        async with Toolbus({"servers": {"a": {**entry, "era": "legacy", "limits": LIMITS}}}) as bus:
            yield bus
        return

    async def send(writer: asyncio.StreamWriter, request: Request) -> None:
        chosen = name if request.message["params"]["arguments"] else ""
        data = answer(chosen, request.message["id"]).encode()
        if transport == "gzip":
            writer.write(response(gzip.compress(data), "content-encoding: gzip"))
        elif transport == "events":
            body = b"data: " + data + b"\n\n"
            writer.write(response(body).replace(b"application/json", b"text/event-stream"))
        else:
            writer.write(response(data))

    async with raw_server() as server:
        server.send = send
        config = {"servers": {"a": {"url": server.url, "era": "legacy", "limits": LIMITS}}}
        async with Toolbus(config) as bus:
            yield bus


def called(transport: str, name: str) -> tuple[str, dict[str, Any]]:
    if transport == "stdio":
        return f"a_{name}", {}
    return "a_look", {"odd": True} if name == "look" else {}


@pytest.mark.parametrize("transport", ["stdio", "json", "gzip", "events"])
@pytest.mark.parametrize("name", REFUSED)
async def test_an_answer_that_cannot_be_taken(name: str, transport: str) -> None:
    """Its call fails with the reason, and the next one works."""
    async with hostile(transport, name) as bus:
        for _ in range(2):
            with pytest.raises(ToolbusError) as caught:
                await bus.call(*called(transport, "look"), timeout=PATIENCE)
            assert REFUSED[name][1] in str(caught.value)
            assert (await bus.call(*called(transport, "plain"))).text == "seen"
        assert (bus.servers["a"].state, bus.servers["a"].restarts) == ("ready", 0)


@pytest.mark.parametrize("transport", ["stdio", "json", "gzip", "events"])
@pytest.mark.parametrize("name", TAKEN)
async def test_an_odd_answer(name: str, transport: str) -> None:
    """It is a result all the same."""
    async with hostile(transport, name) as bus:
        result = await bus.call(*called(transport, "look"), timeout=PATIENCE)
        assert result.text == "seen" or result.structured
        assert (bus.servers["a"].state, bus.servers["a"].restarts) == ("ready", 0)


async def test_progress_beyond_all_numbers() -> None:
    """It is ignored, and the call ends."""
    seen: list[float] = []

    async def report(progress: float, total: float | None, message: str | None) -> None:
        seen.append(progress)

    async with hostile("stdio", "") as bus:
        assert (await bus.call("a_plain", on_progress=report)).text == "seen"
    assert seen == []
