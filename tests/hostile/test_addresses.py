"""Facts that a client can learn or reach by the addresses below the endpoint, and by server cards."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp.server.mcpserver import MCPServer

from tests.gateway.driving import LegacyClient, gateway_over
from tests.gateway.front import Front, front
from tests.inside.config import Serve, setting
from tests.inside.gateway import AccessControl, Keys, Principal, ServerCards, file_keys
from tests.servers.asking import asking
from tests.servers.everyday import everyday

pytestmark = pytest.mark.anyio
SERVERS = ("day", "ask")
FOREIGN = {"origin": "https://evil.example"}


def config(**more: Any) -> dict[str, Any]:
    return {"servers": {"day": {"server": everyday()}, "ask": {"server": asking()}}, **more}


@asynccontextmanager
async def served(serve: Serve, keys: Keys | None = None) -> AsyncGenerator[Front]:
    """A front with cards, whose clients can reach each server alone."""
    access = AccessControl(serve, keys=keys, servers=SERVERS)
    async with front(
        access=access, config=config(), serve=serve, cards=ServerCards(lambda: serve, lambda: SERVERS)
    ) as one:
        yield one


@pytest.fixture
def keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """A key for each view, and the stored ones."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    stored = file_keys(tmp_path / "toolbus.yaml")
    made = {view: stored.add(view, views=(view,))[0] for view in ("all", "one", "few")}
    return {"stored": Keys(stored, "all"), **made}


def settings(**more: Any) -> Serve:
    views = {
        "all": {},
        "one": {"servers": ["ask"]},
        "few": {"include": ["day/add"], "policy": [{"tools": "day/add", "do": "deny"}]},
    }
    return setting(
        "serve", {"views": views, "default_view": "all", "auth": {"keys": True}, "cards": True, **more}
    )


async def test_a_server_outside_the_view_of_a_key(keys: dict[str, Any]) -> None:
    """Its address gets the answer of one that does not exist."""
    async with served(settings(), keys["stored"]) as gateway:
        base, refused = gateway.url, list[tuple[int, str]]()
        for name in ("day", "xyz"):
            gateway.url = f"{base}/{name}"
            answer = await gateway.modern("tools/list", headers={"authorization": f"Bearer {keys['one']}"})
            refused.append((answer.status_code, answer.text.replace(name, "NAME")))
        assert refused[0] == refused[1]
        assert refused[0][0] == 403


async def test_a_tool_that_the_view_hides_under_its_other_name(keys: dict[str, Any]) -> None:
    """The patterns and rules of the view apply to a server alone."""
    async with served(settings(), keys["stored"]) as gateway:
        gateway.url += "/day"
        key = {"authorization": f"Bearer {keys['few']}"}
        assert (await gateway.modern("tools/list", headers=key)).json()["result"]["tools"] == []
        for name in ("add", "echo", "day_add", "day/add", "day/day_add", "/add", "day//add", "ask/tell"):
            answer = await gateway.modern("tools/call", {"name": name, "arguments": {}}, headers=key)
            assert "no tool named" in answer.text, name


async def test_a_server_that_calls_its_tools_like_those_of_others() -> None:
    """Alone, a server's name for a tool leads to no other server, and to no tool of the bus."""

    def offering(who: str, *names: str) -> MCPServer:
        server: MCPServer = MCPServer(who)
        for name in names:
            server.add_tool(lambda: who, name=name)
        return server

    names = ("ask_tell", "search_tools", "read_result", "call_tool", "other_get")
    servers = {"liar": {"server": offering("liar", *names)}, "other": {"server": offering("other", "get")}}
    access = AccessControl(setting("serve", {}), servers=("liar", "other"))
    async with front(access=access, config={"servers": servers}, serve=setting("serve", {})) as gateway:
        gateway.url += "/liar"
        for name in names:
            answer = await gateway.modern("tools/call", {"name": name, "arguments": {}})
            assert answer.json()["result"]["content"][0]["text"] == "liar", name


async def test_a_session_that_moves_to_another_address(keys: dict[str, Any]) -> None:
    """A session belongs to the address where it was opened, and ends with its key."""
    async with served(settings(auth={})) as gateway:
        base = gateway.url
        gateway.url = f"{base}/ask"
        session = await gateway.opened()
        for path in ("", "/day", "/all", "/one"):
            gateway.url = f"{base}{path}"
            assert (await session.post({"id": 1, "method": "tools/list"})).status_code == 404, path


async def test_a_web_page_that_reads_the_catalog_of_a_local_gateway() -> None:
    """A foreign page, or one that comes by another name, learns of no view and no server."""
    async with served(settings(auth={})) as gateway:
        origin = gateway.url.removesuffix("/mcp")
        for path in ("/.well-known/ai-catalog.json", "/mcp/server-card", "/mcp/day/server-card"):
            answer = await gateway.http.get(f"{origin}{path}", headers=FOREIGN)
            assert answer.status_code == 403
            assert "access-control-allow-origin" not in answer.headers
            rebound = await gateway.http.get(f"{origin}{path}", headers={"host": "evil.example"})
            assert rebound.status_code == 421
            for text in (answer.text, rebound.text):
                assert not [name for name in ("day", "one", "few") if name in text]


async def test_somebody_without_a_key_who_reads_every_card(keys: dict[str, Any]) -> None:
    """Behind authentication, cards name no view, no server and no tool, even with a key."""
    async with served(settings(), keys["stored"]) as gateway:
        origin = gateway.url.removesuffix("/mcp")
        for headers in ({}, {"authorization": f"Bearer {keys['all']}"}, FOREIGN):
            catalog = await gateway.http.get(f"{origin}/.well-known/ai-catalog.json", headers=headers)
            card = await gateway.http.get(f"{origin}/mcp/server-card", headers=headers)
            assert len(catalog.json()["entries"]) == 1
            for name in ("day", "ask", "one", "few", "add", keys["all"]):
                assert f'"{name}' not in catalog.text + card.text
                assert f"/{name}" not in catalog.text + card.text
            for name in ("day", "one", "gone"):
                hidden = await gateway.http.get(f"{origin}/mcp/{name}/server-card", headers=headers)
                assert (hidden.status_code, hidden.text) == (404, "")


async def test_a_card_that_is_asked_for_by_another_host(keys: dict[str, Any]) -> None:
    """A card names the gateway by a name that it has, so no client is sent elsewhere."""
    async with served(settings(), keys["stored"]) as gateway:
        for host in ("evil.example", "localhost:1/x", "localhost@evil.example"):
            answer = await gateway.http.get(f"{gateway.url}/server-card", headers={"host": host})
            assert answer.status_code in (400, 421), host
            assert "remotes" not in answer.text


async def test_the_names_are_gone_with_the_config() -> None:
    """A view that lost a server shows no trace of it, although a session is still open."""
    async with gateway_over(
        config(), serve=setting("serve", {"views": {"default": {"servers": ["ask"]}}})
    ) as core:
        client = await LegacyClient.opened(core, principal=Principal(name="local", server="day"))
        for method, key in (
            ("tools/list", "tools"),
            ("prompts/list", "prompts"),
            ("resources/list", "resources"),
        ):
            assert (await client.request(method))[key] == []
