"""HTTP APIs behind a gateway: credentials of clients, large and binary answers, tapes, and lazy starts."""

import asyncio
import base64
import json
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest

from tests.gateway.driving import client_of, gateway_over
from tests.gateway.front import front
from tests.identity.passing import bearer, called, exchange, gateway, letting_in, trusted
from tests.openapi.api import ApiServer, Received, api_server, http_response
from toolbus import Toolbus

pytestmark = pytest.mark.anyio
LARGE = "x" * (10 * 2**20)
BINARY = bytes(range(256))


@pytest.fixture
async def api() -> AsyncGenerator[ApiServer]:
    async def answer(writer: asyncio.StreamWriter, request: Received) -> None:
        match request.target:
            case "/large":
                writer.write(http_response(json.dumps(LARGE).encode()))
            case "/binary":
                writer.write(http_response(BINARY, "content-type: application/pdf"))
            case "/seen":
                names = ("authorization", "x-team")
                seen = {name: request.headers.get(name) for name in names}
                writer.write(http_response(json.dumps(seen).encode()))
            case _:
                writer.write(http_response(b"", status="404 Not Found"))

    async with api_server() as server:
        server.answer = answer
        yield server


def entry(api: ApiServer, folder: Path, **more: Any) -> dict[str, Any]:
    paths = {f"/{name}": {"get": {"operationId": name}} for name in ("large", "binary", "seen")}
    file = folder / "api.json"
    file.write_text(json.dumps({"openapi": "3.1.0", "info": {"title": "A", "version": "1"}, "paths": paths}))
    return {"openapi": {"document": str(file), "base_url": api.url}, **more}


async def test_clients_reach_an_api_with_the_headers_that_are_forwarded(
    api: ApiServer, tmp_path: Path
) -> None:
    async with gateway({"api": entry(api, tmp_path, forward_headers=["X-Team"])}) as served:
        teams = ("red", "blue")
        texts = await asyncio.gather(*(called(served, "api_seen", {"x-team": team}) for team in teams * 8))
    assert [json.loads(text)["x-team"] for text in texts] == [*teams * 8]


async def test_two_users_reach_an_api_with_tokens_that_are_exchanged_for_theirs(
    api: ApiServer, tmp_path: Path
) -> None:
    with trusted(tmp_path) as (issuer, _):
        server = entry(api, tmp_path, auth=exchange(issuer))
        async with gateway({"api": server}, letting_in(issuer)) as served:
            users = {name: bearer(issuer.token(sub=name)) for name in ("ann", "bob")}
            for name in ("ann", "bob", "ann"):
                assert not (await called(served, "api_seen", users[name])).startswith("ERROR")
        ann, bob, again = (
            request.headers["authorization"] for request in api.received if request.target == "/seen"
        )
        assert ann == again != bob
        assert {ann, bob}.isdisjoint(one["authorization"] for one in users.values())
        # One for each user, and for the API alone.
        assert [one["resource"] for one in issuer.exchanged] == [api.url] * 2


async def test_a_large_answer_reaches_a_client_and_a_binary_one_clients_of_both_eras(
    api: ApiServer, tmp_path: Path
) -> None:
    async with front(config={"servers": {"api": entry(api, tmp_path, budget=False)}}) as served:
        legacy = await served.opened()
        large, binary = [
            (await served.modern("tools/call", {"name": name, "arguments": {}})).json()["result"]
            for name in ("api_large", "api_binary")
        ]
        old = (await legacy.call("api_binary")).text
    assert LARGE in large["content"][0]["text"]
    blob = binary["content"][0]["resource"]["blob"]
    assert base64.b64decode(blob) == BINARY
    assert blob in old


async def test_a_tape_takes_the_place_of_an_api_behind_a_gateway(tmp_path: Path) -> None:
    tape = tmp_path / "tape.jsonl"
    answers: list[Any] = []
    call: dict[str, Any] = {"name": "api_seen", "arguments": {}}
    async with api_server() as api:
        config = {"servers": {"api": entry(api, tmp_path)}}
        async with gateway_over(config, record=tape) as recording:
            answers.append(await (await client_of("modern", recording)).request("tools/call", call))
    for era in ("modern", "legacy"):
        async with gateway_over(config, replay=tape) as replaying:
            answers.append(await (await client_of(era, replaying)).request("tools/call", call))
    assert len({json.dumps(one["content"]) for one in answers}) == 1


async def test_a_lazy_api_is_read_at_its_first_use(api: ApiServer, tmp_path: Path) -> None:
    config = {"servers": {"api": entry(api, tmp_path, lazy=True)}}
    async with Toolbus(config) as bus:
        assert bus.servers["api"].state != "ready"
        assert not (await bus.call("api/seen")).is_error
        assert bus.servers["api"].state == "ready"
    assert [request.target for request in api.received] == ["/seen"]
