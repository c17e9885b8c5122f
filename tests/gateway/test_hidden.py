"""Parts outside a client's view do not exist for it: no answer names them, or the rule that hides them."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.gateway.driving import Era, LegacyClient, ModernClient, gateway_over, text_of
from tests.gateway.front import front
from tests.inside.config import setting
from tests.inside.gateway import Gateway, Principal, ProtocolError, readiness
from tests.servers.asking import asking
from tests.servers.everyday import everyday
from toolbus import Toolbus

pytestmark = pytest.mark.anyio

HIDING = [
    {"tools": "day/echo", "do": "deny", "reason": "not for guests"},
    {"resources": "day/memo://of/*", "do": "deny", "reason": "not for guests"},
    {
        "tools": "day/add",
        "arguments": {"properties": {"a": {"const": 7}}},
        "do": "deny",
        "reason": "no sevens",
    },
]
VIEWS = {"views": {"all": {}, "guest": {"servers": ["day"], "policy": HIDING}}, "default_view": "all"}
GUEST = Principal(kind="key", name="guest", view="guest")


async def _client(era: Era, gateway: Gateway) -> ModernClient | LegacyClient:
    if era == "modern":
        return ModernClient(gateway, principal=GUEST)
    return await LegacyClient.opened(gateway, principal=GUEST)


async def _failed(client: ModernClient | LegacyClient, method: str, params: dict[str, Any]) -> ProtocolError:
    with pytest.raises(ProtocolError) as failed:
        await client.request(method, params)
    return failed.value


@pytest.mark.parametrize("era", ["modern", "legacy"])
async def test_what_the_rules_of_a_view_deny_is_unknown_and_recorded(era: Era, tmp_path: Path) -> None:
    trail = tmp_path / "audit.jsonl"
    servers = {"day": {"server": everyday()}, "ask": {"server": asking()}}
    config = {"servers": servers, "audit": str(trail)}
    async with gateway_over(config, serve=setting("serve", VIEWS)) as gateway:
        client = await _client(era, gateway)
        hidden = await _failed(client, "tools/call", {"name": "day_echo", "arguments": {"text": "x"}})
        assert hidden.code == -32602
        assert hidden.message.startswith("Unknown tool: no tool named 'day_echo' among")
        assert "not for guests" not in hidden.message
        uri = "memo://of/ann"
        read = await _failed(client, "resources/read", {"uri": uri})
        assert (read.message, read.data) == ("Resource not found", {"uri": uri})
        ref = {"ref": {"type": "ref/resource", "uri": uri}, "argument": {"name": "who", "value": "a"}}
        assert "Unknown resource template" in (await _failed(client, "completion/complete", ref)).message
        if era == "legacy":
            subscribed = await _failed(client, "resources/subscribe", {"uri": uri})
            assert subscribed.message == "Resource not found"
        # A tool that can be called says why it was not.
        refused = await client.request("tools/call", {"name": "day_add", "arguments": {"a": 7, "b": 1}})
        assert "no sevens" in text_of(refused)
    lines = [json.loads(line) for line in trail.read_text().splitlines()]
    denied = [line for line in lines if line.get("reason") == "rule view.policy[0] denies it: not for guests"]
    assert denied, lines


async def test_readiness_and_metrics_are_about_the_servers_of_the_view() -> None:
    servers: dict[str, Any] = {
        "day": {"server": everyday()},
        "secret-project": {"command": "no-such-command-at-all"},
    }
    serve = setting("serve", {**VIEWS, "default_view": "guest"})
    async with front(config={"servers": servers}, serve=serve) as served:
        base = served.url.removesuffix("/mcp")
        ready, metrics = [await served.http.get(f"{base}/{page}") for page in ("readyz", "metrics")]
    assert list(ready.json()["servers"]) == ["day"]
    assert 'server="day"' in metrics.text
    assert "secret-project" not in ready.text + metrics.text


def test_a_required_server_outside_of_the_view_is_not_named() -> None:
    bus = Toolbus({"servers": {"plans": {"command": "no-such-command-at-all", "required": True}}})
    assert readiness(bus)[1]["reason"] == "required servers are not ready: plans"
    assert readiness(bus, seen=("day",)) == (
        False,
        {"ready": False, "reason": "required servers are not ready", "servers": {}},
    )
