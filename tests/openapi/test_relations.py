"""HTTP APIs together with users, policies, locks, tapes, the gateway and failures."""

import asyncio
import gzip
import json
from collections import Counter
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest

from tests.gateway.front import front
from tests.openapi.api import ApiServer, Received, api_server, http_response
from toolbus import CallDenied, ConnectionLost, Toolbus, ToolNotFound
from toolbus.records import ToolResult

pytestmark = pytest.mark.anyio
ID = {"name": "id", "in": "path", "required": True, "schema": {"type": "integer"}}


def described(name: str, *parameters: Any) -> dict[str, Any]:
    return {"operationId": name, "parameters": [*parameters], "responses": {"200": {"description": "ok"}}}


def document() -> dict[str, Any]:
    paths = {
        "/items": {"get": described("listItems"), "post": described("addItem")},
        "/items/{id}": {"get": described("readItem", ID), "delete": described("removeItem", ID)},
    }
    return {"openapi": "3.0.3", "info": {"title": "Items", "version": "1"}, "paths": paths}


@pytest.fixture
async def api() -> AsyncGenerator[ApiServer]:
    async with api_server() as server:
        yield server


def entry(api: ApiServer, folder: Path, **more: Any) -> dict[str, Any]:
    """The server of a config, whose document is a file in the folder."""
    file = folder / "items.json"
    if not file.exists():
        file.write_text(json.dumps(document()))
    return {"openapi": {"document": str(file), "base_url": api.url}, **more}


def bus_of(api: ApiServer, folder: Path, **more: Any) -> Toolbus:
    return Toolbus({"servers": {"api": entry(api, folder)}, **more})


async def echo_user(writer: asyncio.StreamWriter, request: Received) -> None:
    """The credentials and the target of a request."""
    body = {"user": request.headers.get("authorization"), "target": request.target}
    writer.write(http_response(json.dumps(body).encode()))


async def test_two_users_call_at_once_with_their_own_credentials(api: ApiServer, tmp_path: Path) -> None:
    def secret(name: str, user: str) -> str:
        return user or "bus"

    api.answer = echo_user
    config = {"servers": {"api": entry(api, tmp_path, headers={"Authorization": "Bearer ${TOKEN}"})}}
    async with Toolbus(config, get_secret=secret) as bus:
        views = {who: bus.as_user(who) for who in ("ann", "bob")}

        async def call(who: str, number: int) -> tuple[str, ToolResult]:
            return who, await views[who].call("api_readItem", {"id": number})

        replies = await asyncio.gather(*(call(who, number) for number in range(16) for who in views))
    for who, reply in replies:
        assert reply.structured is not None
        # Each secret is hidden in what its own user reads.
        assert reply.structured["user"] != f"Bearer {'bob' if who == 'ann' else 'ann'}"
    sent = Counter(request.headers["authorization"] for request in api.received)
    assert sent == {"Bearer ann": 16, "Bearer bob": 16}


async def test_a_policy_that_denies_everything_but_reads(api: ApiServer, tmp_path: Path) -> None:
    rules = [{"tools": "*", "hint": "read-only", "do": "allow"}, {"tools": "*", "do": "deny"}]
    config = {"servers": {"api": entry(api, tmp_path, trust_annotations=True)}, "policy": rules}
    async with Toolbus(config) as bus:
        assert not (await bus.call("api_readItem", {"id": 1})).is_error
        for name in ("api_addItem", "api_removeItem"):
            with pytest.raises((CallDenied, ToolNotFound)):
                await bus.call(name, {"id": 1} if name == "api_removeItem" else {})
    assert [request.method for request in api.received] == ["GET"]


async def test_a_tape_repeats_an_api_that_is_gone(tmp_path: Path) -> None:
    tape = tmp_path / "tape.jsonl"
    async with api_server() as api:
        api.answer = echo_user
        async with Toolbus({"servers": {"api": entry(api, tmp_path)}}, record=tape) as bus:
            recorded = await bus.call("api_readItem", {"id": 3})
            names = sorted(spec.name for spec in bus.catalog)
    async with Toolbus(replay=tape) as bus:
        assert sorted(spec.name for spec in bus.catalog) == names
        replayed = await bus.call("api_readItem", {"id": 3})
    assert (replayed.text, replayed.structured) == (recorded.text, recorded.structured)


async def test_an_api_that_dies_in_the_middle_of_a_call_works_once_it_is_back(
    api: ApiServer, tmp_path: Path
) -> None:
    async def die(writer: asyncio.StreamWriter, request: Received) -> None:
        if len(api.received) <= 1:
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{")
            writer.close()
        else:
            writer.write(http_response(b"{}"))

    api.answer = die
    async with bus_of(api, tmp_path) as bus:
        with pytest.raises(ConnectionLost):
            await bus.call("api_addItem", {})
        assert [request.method for request in api.received] == ["POST"]  # not repeated
        assert not (await bus.call("api_addItem", {})).is_error


LARGE = "x" * (10 * 2**20)
RESPONSES: dict[str, tuple[bytes, str, Any]] = {
    "204": (http_response(b"", status="204 No Content"), "HTTP 204 No Content", None),
    "10 MiB": (http_response(json.dumps(LARGE).encode()), LARGE, {"result": LARGE}),
    "NDJSON": (http_response(b"{}\n{}\n", "content-type: application/x-ndjson"), "{}\n{}\n", None),
    "events": (http_response(b"data: 1\n\n", "content-type: text/event-stream"), "data: 1\n\n", None),
    "gzip": (http_response(gzip.compress(b"{}"), "content-encoding: gzip"), "{}", {}),
    "latin-1": (http_response(b"\xfc", "content-type: text/plain; charset=latin-1"), "\u00fc", None),
}


@pytest.mark.parametrize("kind", RESPONSES)
async def test_a_program_gets_every_kind_of_response(api: ApiServer, tmp_path: Path, kind: str) -> None:
    async def send(writer: asyncio.StreamWriter, _: Received) -> None:
        writer.write(answer)

    answer, text, structured = RESPONSES[kind]
    api.answer = send
    async with bus_of(api, tmp_path) as bus:
        result = await bus.call("api_listItems")
    assert (result.is_error, result.structured) == (False, structured)
    assert text in result.text


async def test_sixty_four_calls_at_once_through_the_gateway_in_both_eras(
    api: ApiServer, tmp_path: Path
) -> None:
    api.answer = echo_user
    async with front(config={"servers": {"api": entry(api, tmp_path)}}) as gateway:
        legacy = await gateway.opened()

        async def modern(number: int) -> Any:
            params = {"name": "api_readItem", "arguments": {"id": number}}
            return (await gateway.modern("tools/call", params)).json()

        async def old(number: int) -> Any:
            return await legacy.call("api_readItem", id=number)

        answers = await asyncio.gather(*(modern(number) for number in range(64)))
        olds = await asyncio.gather(*(old(number) for number in range(64, 128)))
    for number, answer in enumerate(answers):
        assert f"/items/{number}" in json.dumps(answer["result"]), answer
    for number, response in enumerate(olds, 64):
        assert f"/items/{number}" in response.text
    assert len(api.received) == 128
