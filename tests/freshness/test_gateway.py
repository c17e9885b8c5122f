"""The gateway's hints about the freshness of its lists and reads, and its notifications about changes."""

from typing import Any

import pytest

from tests.freshness.growing_bus import HOUR, Clock, over_stdio
from tests.gateway.driving import LegacyClient, ModernClient, client_of, gateway_over, text_of
from tests.inside.gateway import Gateway, Principal, ProtocolError

pytestmark = pytest.mark.anyio
ANN = Principal(kind="key", name="ann", user="ann")


def servers(**scripts: dict[str, Any]) -> dict[str, Any]:
    return {"servers": {name: over_stdio(**script) for name, script in scripts.items()}}


async def grow(client: ModernClient | LegacyClient, kind: str = "tools") -> None:
    await client.request("tools/call", {"name": "g_grow", "arguments": {"kind": kind}})


async def counts(gateway: Gateway, server: str = "g") -> str:
    return text_of(await ModernClient(gateway).request("tools/call", {"name": f"{server}_counts"}))


@pytest.mark.parametrize("era", ["modern", "legacy"])
@pytest.mark.parametrize(
    ("method", "key"),
    [
        ("tools/list", "tools"),
        ("resources/list", "resources"),
        ("resources/templates/list", "resourceTemplates"),
        ("prompts/list", "prompts"),
    ],
)
async def test_a_client_gets_the_new_list_when_the_old_one_has_expired(
    era: Any, method: str, key: str, clock: Clock
) -> None:
    kind = "templates" if key == "resourceTemplates" else key
    async with gateway_over(servers(g={"ttl": {kind: HOUR}})) as gateway:
        client = await client_of(era, gateway)
        before = (await client.request(method))[key]
        await grow(client, kind)
        assert (await client.request(method))[key] == before
        clock.ahead = 3601
        now = (await client.request(method))[key]
        assert len(now) == len(before) + 1
        assert all(one in now for one in before)


@pytest.mark.parametrize("era", ["modern", "legacy"])
async def test_a_call_by_a_client_finds_a_new_tool(era: Any) -> None:
    async with gateway_over(servers(g={"ttl": {"tools": 0}})) as gateway:
        client = await client_of(era, gateway)
        await grow(client)
        assert text_of(await client.request("tools/call", {"name": "g_late0"})) == "called late0"


async def test_clients_learn_of_a_list_that_differs_and_only_of_that(clock: Clock) -> None:
    async with gateway_over(servers(g={"ttl": {"tools": HOUR}})) as gateway:
        listener, other = await LegacyClient.opened(gateway), ModernClient(gateway)
        clock.ahead = 3601
        await other.request("tools/list")
        assert '"tools/list": 2' in await counts(gateway)
        assert listener.standalone.of("notifications/tools/list_changed") == []
        await grow(other)
        clock.ahead += 3601
        await other.request("tools/list")
        assert len(await listener.standalone.wait_for("notifications/tools/list_changed")) == 1


async def test_a_list_is_no_fresher_than_its_stalest_part(clock: Clock) -> None:
    config = servers(a={"ttl": {"tools": 40_000}}, b={"ttl": {"tools": 20_000}}, c={}, d={"era": "legacy"})
    async with gateway_over(config) as gateway:
        client = ModernClient(gateway)
        first = await client.request("tools/list")
        assert 0 < first["ttlMs"] <= 20_000
        assert first["cacheScope"] == "private"
        clock.ahead = 15
        assert 0 <= (await client.request("tools/list"))["ttlMs"] <= 5_000
        assert (await client.request("prompts/list"))["ttlMs"] == 60_000, "no server says anything"


@pytest.mark.parametrize(("ttl", "most"), [(0, 0), (HOUR, 60_000), (-1, 0), ("x", 0), (10**400, 60_000)])
async def test_what_the_gateway_says_is_valid_whatever_servers_say(ttl: Any, most: int) -> None:
    kinds = dict.fromkeys(["tools", "resources", "templates", "prompts"], ttl)
    async with gateway_over(servers(g={"ttl": kinds})) as gateway:
        for method in ("tools/list", "resources/list", "resources/templates/list", "prompts/list"):
            found = await ModernClient(gateway).request(method)
            assert (found["ttlMs"], type(found["ttlMs"]), found["cacheScope"]) == (most, int, "private")


async def test_a_list_that_failed_is_stale(clock: Clock) -> None:
    async with gateway_over(servers(g={"ttl": {"tools": HOUR}})) as gateway:
        client = ModernClient(gateway)
        await client.request("tools/call", {"name": "g_break", "arguments": {"kind": "tools"}})
        clock.ahead = 3601
        found = await client.request("tools/list")
        assert (len(found["tools"]), found["ttlMs"]) == (5, 0)


async def test_a_read_is_passed_on_with_what_is_left_of_its_time(clock: Clock) -> None:
    async with gateway_over(servers(g={"ttl": {"read": 100_000}, "scope": "public"})) as gateway:
        client = ModernClient(gateway)
        uri = {"uri": "data://r0"}
        first = await client.request("resources/read", uri)
        assert (first["ttlMs"], first["cacheScope"]) == (100_000, "public")
        clock.ahead = 60
        second = await client.request("resources/read", uri)
        assert second["contents"] == first["contents"]
        assert 0 < second["ttlMs"] <= 40_000
        legacy = await (await LegacyClient.opened(gateway)).request("resources/read", uri)
        assert legacy == {"contents": first["contents"]}
        clock.ahead = 101
        assert (await client.request("resources/read", uri))["contents"] != first["contents"]
        assert '"resources/read": 2' in await counts(gateway)


async def test_a_read_for_a_principal_is_private_to_clients_and_kept_for_it_alone() -> None:
    for scope, shared in (("private", False), ("public", True)):
        async with gateway_over(servers(g={"ttl": {"read": HOUR}, "scope": scope})) as gateway:
            ann = ModernClient(gateway, principal=ANN)
            bob = ModernClient(gateway, principal=Principal(kind="key", name="bob"))
            found = [await one.request("resources/read", {"uri": "data://r0"}) for one in (ann, bob, ann)]
            assert [one["cacheScope"] for one in found] == ["private"] * 3
            texts = [one["contents"][0]["text"] for one in found]
            assert texts == [f"data://r0 {1 if shared or number != 1 else 2}" for number in range(3)]


async def test_a_read_with_metadata_reaches_the_server() -> None:
    async with gateway_over(servers(g={"ttl": {"read": HOUR}})) as gateway:
        client, uri = ModernClient(gateway), {"uri": "data://r0"}
        metas: list[dict[str, Any]] = [{}, {"traceparent": "00-1"}, {"example.com/part": 2}, {}]
        found = [await client.request("resources/read", uri, meta) for meta in metas]
        texts = [one["contents"][0]["text"] for one in found]
        assert texts == ["data://r0 1", "data://r0 1", "data://r0 2", "data://r0 1"]


async def test_without_a_ttl_a_read_is_stale() -> None:
    async with gateway_over(servers(g={"era": "legacy"})) as gateway:
        found = await ModernClient(gateway).request("resources/read", {"uri": "data://r0"})
        assert (found["ttlMs"], found["cacheScope"]) == (0, "private")


async def test_sessions_with_connections_of_their_own_list_for_themselves(clock: Clock) -> None:
    entry = {**over_stdio(ttl={"tools": HOUR}), "per_session": True}
    async with gateway_over({"servers": {"g": entry}}) as gateway:
        ann, bob, eve = [await LegacyClient.opened(gateway) for _ in range(3)]
        await grow(ann)
        await bob.request("tools/call", {"name": "g_counts"})
        clock.ahead = 3601
        names = [
            [tool["name"] for tool in (await client.request("tools/list"))["tools"]]
            for client in (ann, bob, eve)
        ]
        assert ["g_late0" in found for found in names] == [True, False, False]
        assert [len(found) for found in names] == [6, 5, 5]
        assert text_of(await ann.request("tools/call", {"name": "g_late0"})) == "called late0"
        with pytest.raises(ProtocolError, match="Unknown tool"):
            await bob.request("tools/call", {"name": "g_late0"})
