"""Quotas of clients of the gateway: whose calls count, and what a client of either era is told."""

import json
from typing import Any

import pytest

from tests.gateway.driving import Answers, Era, ModernClient, client_of, gateway_over, text_of
from tests.gateway.front import front
from tests.inside.config import setting
from tests.inside.core import OverQuota
from tests.inside.gateway import Principal, ProtocolError, protocol_error
from tests.servers.asking import asking
from tests.servers.everyday import everyday

pytestmark = pytest.mark.anyio
ADD = {"name": "day_add", "arguments": {"a": 1, "b": 2}}
BOOKED = {"action": "accept", "content": {"date": "2026-12-24"}}


def config(*quotas: dict[str, Any], era: str = "auto", **more: Any) -> dict[str, Any]:
    servers = {"day": {"server": everyday()}, "ask": {"server": asking(), "era": era}}
    return {"servers": servers, "quotas": list(quotas), **more}


async def made(client: ModernClient, times: int) -> int:
    results = [await client.request("tools/call", ADD) for _ in range(times)]
    return sum(not result.get("isError") for result in results)


@pytest.mark.parametrize("era", ["modern", "legacy"])
async def test_a_client_is_told_when_to_try_again(era: Era) -> None:
    async with gateway_over(config({"per": "server", "per_day": 1})) as gateway:
        client = await client_of(era, gateway)
        assert not (await client.request("tools/call", ADD)).get("isError")
        refused = await client.request("tools/call", ADD)
    assert refused["isError"] is True
    assert 1 <= refused["_meta"]["toolbus/retryAfter"] <= 86_400
    assert "quotas[0] allows server 'day' 1 call per day; try again in " in text_of(refused)


async def test_keys_users_and_views_have_their_own() -> None:
    serve = setting("serve", {"views": {"all": {}, "some": {}}, "default_view": "all"})
    quotas = [{"per": "key", "per_day": 3}, {"per": "view", "names": "some", "per_day": 4}]
    async with gateway_over(config(*quotas), serve=serve) as gateway:

        def client(name: str, view: str, user: str = "") -> ModernClient:
            return ModernClient(gateway, principal=Principal(kind="key", name=name, view=view, user=user))

        assert await made(client("ann", "all", "team"), 5) == 3
        assert await made(client("bob", "all", "team"), 5) == 3  # another key of the same user
        assert await made(client("ann", "some", "team"), 5) == 0  # the same key, whatever the view
        assert await made(client("cat", "some"), 5) == 3
        assert await made(client("dan", "some"), 5) == 1  # the view has no more
        assert await made(ModernClient(gateway, principal=Principal(name="local", view="all")), 5) == 5


@pytest.mark.parametrize("server", ["modern", "legacy"])
@pytest.mark.parametrize("era", ["modern", "legacy"])
async def test_a_call_that_asks_its_client_counts_once(era: Era, server: str) -> None:
    answers: Answers = {"elicitation/create": lambda _: BOOKED}
    asked = {"name": "ask_book", "arguments": {"guest": "Ann"}}
    async with gateway_over(config({"per": "server", "per_day": 2}, era=server)) as gateway:
        client = await client_of(era, gateway, answers)
        for _ in range(2):
            assert text_of(await client.request("tools/call", asked)).startswith("Ann: 2026-12-24")
        assert "quotas[0]" in text_of(await client.request("tools/call", asked))


async def test_an_answer_over_http_says_it_in_a_header() -> None:
    async with front(config=config({"per": "server", "per_day": 1})) as served:
        found = [await served.modern("tools/call", ADD) for _ in range(2)]
        metrics = (await served.http.get(served.url.replace("/mcp", "/metrics"))).text
    assert "retry-after" not in found[0].headers
    assert json.loads(found[1].text)["result"]["isError"] is True
    assert 1 <= int(found[1].headers["retry-after"]) <= 86_400
    assert 'toolbus_gateway_quota_calls_total{quota="quotas[0]"} 1\n' in metrics
    assert 'toolbus_gateway_quota_refused_total{quota="quotas[0]",limit="per_day"} 1\n' in metrics


async def test_there_are_no_series_without_quotas() -> None:
    async with front(config=config()) as served:
        assert "quota" not in (await served.http.get(served.url.replace("/mcp", "/metrics"))).text


def test_an_error_of_the_protocol_has_the_limit_and_the_time() -> None:
    error = OverQuota("tool 'x'", "quotas[0] is used up", "quotas[0]", limit="per_day", retry_after=90.2)
    found = protocol_error(error)
    assert isinstance(found, ProtocolError)
    assert (found.code, found.data) == (-32029, {"limit": "per_day", "retryAfter": 91})
