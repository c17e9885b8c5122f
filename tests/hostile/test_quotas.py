"""Clients that want more calls than their quota has, and stores and files that are not what they were."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from tests.gateway.driving import LegacyClient, ModernClient, gateway_over, text_of
from tests.inside.bus import tenant_of
from tests.inside.core import Caller
from tests.inside.gateway import Principal
from tests.inside.state import state_folder
from tests.patience import until
from tests.servers.asking import asking
from tests.servers.everyday import everyday
from toolbus import Answer, OverQuota, Pending, Toolbus

pytestmark = pytest.mark.anyio
ADD = {"name": "day_add", "arguments": {"a": 1, "b": 2}}
BOOK = {"name": "ask_book", "arguments": {"guest": "Ann"}}
BOOKED = {"action": "accept", "content": {"date": "2026-12-24"}}


@pytest.fixture(autouse=True)
def _own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # pyright: ignore[reportUnusedFunction]
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


def config(*quotas: dict[str, Any], **more: Any) -> dict[str, Any]:
    servers = {"day": {"server": everyday()}, "ask": {"server": asking()}}
    return {"servers": servers, "quotas": list(quotas), **more}


async def test_a_round_that_is_sent_again_is_another_call() -> None:
    """The state of a call is no way around a quota."""
    async with gateway_over(config({"per": "server", "per_day": 3})) as gateway:
        client = ModernClient(gateway, answers={"elicitation/create": lambda _: BOOKED})
        retry = {**BOOK, **client.answered(await client.once("tools/call", BOOK))}
        results = [await client.once("tools/call", retry) for _ in range(5)]
        assert [bool(result.get("isError")) for result in results] == [False, False, False, True, True]


async def test_more_sessions_and_another_era_are_no_other_quota() -> None:
    """A key has one quota, over all transports."""
    ann = Principal(kind="key", name="ann")
    async with gateway_over(config({"per": "key", "per_day": 4})) as gateway:
        made = 0
        for _ in range(3):
            session, _ = await gateway.initialize(ann, {"protocolVersion": "2025-11-25"})
            for client in (ModernClient(gateway, principal=ann), LegacyClient(gateway, session)):
                made += not (await client.request("tools/call", ADD)).get("isError")
        assert made == 4


async def test_clients_that_leave_before_the_answer_have_used_their_calls() -> None:
    """A call counts when it is about to be sent."""
    async with gateway_over(config({"per": "user", "per_day": 3})) as gateway:
        client = ModernClient(gateway)
        for _ in range(3):
            begun = asyncio.create_task(client.request("tools/call", {"name": "day_hang", "arguments": {}}))
            quotas = tenant_of(gateway.bus).engine.enforcement.quotas
            before = quotas.totals["quotas[0]"].calls
            await until(lambda quotas=quotas, before=before: quotas.totals["quotas[0]"].calls > before)
            begun.cancel()
            await asyncio.gather(begun, return_exceptions=True)
        assert "quotas[0]" in text_of(await client.request("tools/call", ADD))


@pytest.mark.parametrize(
    "proof",
    ["9999999999-" + "0" * 32, "9999999999-../../key", "../../toolbus.json", "", "9999999999"],
)
async def test_a_made_up_proof_that_a_call_was_counted_counts(proof: str, tmp_path: Path) -> None:
    """It neither spares a call, nor is it the name of a file."""
    file = tmp_path / "toolbus.json"
    servers = {"day": {"url": "http://127.0.0.1:9/mcp"}}
    file.write_text(json.dumps({"servers": servers, "quotas": [{"per": "server", "per_day": 1}]}))
    victim = state_folder().base / "key"
    victim.parent.mkdir(parents=True, exist_ok=True)
    victim.write_text("secret")
    async with Toolbus(str(file)) as bus:
        await bus.add_server("ask", {"server": asking()})
        result = await bus.call("ask_book", {"guest": "Ann"}, on_input="suspend")
        assert result.pending is not None
        stored = json.loads(result.pending.to_json())
        stored["pending"]["counted"] = proof
        with pytest.raises(OverQuota):
            await bus.resume(Pending.from_json(json.dumps(stored)), Answer(**BOOKED))  # pyright: ignore[reportArgumentType]  # as its JSON
    assert victim.read_text() == "secret"


@pytest.mark.parametrize("damage", [b"", b"[]", b"{", b'{"x": []}', b"\xff"], ids=repr)
async def test_a_damaged_file_of_counts_allows_no_call(damage: bytes, tmp_path: Path) -> None:
    """Calls are refused if they cannot be counted, and the message names the file."""
    file = tmp_path / "toolbus.json"
    servers = {"day": {"url": "http://127.0.0.1:9/mcp"}}
    file.write_text(json.dumps({"servers": servers, "quotas": [{"per": "server", "per_day": 9}]}))

    async def opened_and_called() -> None:
        async with Toolbus(str(file)) as bus:
            await bus.add_server("here", {"server": everyday()})
            await bus.call("here_add", {"a": 1, "b": 2})

    await opened_and_called()
    [counts] = (state_folder().base / "quotas").glob("*.json")
    names = list(json.loads(counts.read_bytes()))
    counts.write_bytes(damage.replace(b'"x"', json.dumps(names[0]).encode()))
    with pytest.raises(OverQuota, match="cannot be counted"):
        await opened_and_called()


async def test_a_tool_whose_name_looks_like_a_counted_one_counts() -> None:
    """A server that writes a name in another way gets no calls for nothing."""
    async with Toolbus(config({"per": "server", "tools": "DAY/ADD", "per_day": 1})) as bus:
        # Aliases are compared as they are, names by what they look like.
        assert not (await bus.call("day_add", {"a": 1, "b": 2})).is_error
    async with Toolbus(config({"per": "server", "tools": "day/ADD", "per_day": 1})) as bus:
        await bus.call("day_add", {"a": 1, "b": 2})
        with pytest.raises(OverQuota):
            await bus.call("day_add", {"a": 1, "b": 2})


async def test_a_great_number_of_users_leaves_no_memory_behind() -> None:
    """The counts of inactive users are dropped."""
    async with Toolbus(config({"per": "user", "per_minute": 1, "concurrent": 50})) as bus:
        for number in range(300):
            await bus.view(caller=Caller(user=f"user {number}")).call("day_add", {"a": 1, "b": 2})
        quotas = tenant_of(bus).engine.enforcement.quotas
        await until(lambda: not quotas.leases)
