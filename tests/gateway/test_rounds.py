"""A modern client's state between rounds is useless for anybody and anything else."""

import asyncio
from typing import Any

import pytest
from mcp.server.mcpserver import Context, MCPServer

from tests import warm
from tests.conftest import SERVERS
from tests.gateway.driving import Era, ModernClient, client_of, gateway_over, text_of
from tests.inside.gateway import GatewayLimits, Principal, ProtocolError
from tests.inside.state import Seal
from tests.servers.asking import Sure, asking
from tests.servers.everyday import everyday

pytestmark = pytest.mark.anyio
ANN = {"name": "book", "arguments": {"guest": "Ann"}}
BOOKED = {
    "action": "accept",
    "content": {"date": "2026-12-24", "seats": 2, "place": "inside", "quiet": False},
}


@pytest.fixture(params=["modern", "legacy"], ids=["server-modern", "server-legacy"])
def config(request: pytest.FixtureRequest) -> dict[str, Any]:
    return {"servers": {"ask": {"server": asking(), "era": request.param, "prefix": ""}}}


async def test_a_state_of_another_principal(config: dict[str, Any]) -> None:
    """It is refused, and the call goes on for its owner."""
    async with gateway_over(config) as gateway:
        ann = ModernClient(gateway, answers={"elicitation/create": lambda _: BOOKED})
        asked = await ann.once("tools/call", ANN)
        retry = {**ANN, **ann.answered(asked)}
        eve = ModernClient(gateway, principal=Principal(name="eve"))
        with pytest.raises(ProtocolError) as failed:
            await eve.once("tools/call", retry)
        assert (failed.value.code, failed.value.message) == (-32602, "Invalid requestState")
        assert text_of(await ann.once("tools/call", retry)).startswith("Ann: 2026-12-24")


@pytest.mark.parametrize(
    "change",
    [
        {"arguments": {"guest": "Eve"}},
        {"name": "twice"},
        {"requestState": "made up"},
        {"requestState": ""},
        {"requestState": 7},
    ],
    ids=str,
)
async def test_a_state_for_another_request(config: dict[str, Any], change: dict[str, Any]) -> None:
    """It is refused."""
    async with gateway_over(config) as gateway:
        client = ModernClient(gateway, answers={"elicitation/create": lambda _: BOOKED})
        retry = {**ANN, **client.answered(await client.once("tools/call", ANN)), **change}
        with pytest.raises(ProtocolError) as failed:
            await client.once("tools/call", retry)
        assert (failed.value.code, failed.value.message) == (-32602, "Invalid requestState")


def _with_another_letter(text: str) -> str:
    """In the middle: the last letters may have bits that mean nothing."""
    return text[:20] + ("A" if text[20] != "A" else "B") + text[21:]


async def test_a_tampered_state(config: dict[str, Any]) -> None:
    """It is refused."""
    async with gateway_over(config) as gateway:
        client = ModernClient(gateway, answers={"elicitation/create": lambda _: BOOKED})
        given = client.answered(await client.once("tools/call", ANN))
        for state in (given["requestState"] + "-TAMPERED", _with_another_letter(given["requestState"])):
            with pytest.raises(ProtocolError) as failed:
                await client.once("tools/call", {**ANN, **given, "requestState": state})
            assert failed.value.code == -32602


async def test_a_state_that_has_expired(config: dict[str, Any]) -> None:
    """It is refused."""
    clock = [1000.0]
    seal = Seal(bytes(32), now=lambda: clock[0])
    async with gateway_over(config, seal=seal) as gateway:
        client = ModernClient(gateway, answers={"elicitation/create": lambda _: BOOKED})
        retry = {**ANN, **client.answered(await client.once("tools/call", ANN))}
        clock[0] += 601
        with pytest.raises(ProtocolError) as failed:
            await client.once("tools/call", retry)
        assert failed.value.code == -32602


@pytest.mark.parametrize("given", [None, 7, {"user_name": 12345}, []], ids=str)
async def test_responses_that_are_not_objects(config: dict[str, Any], given: Any) -> None:
    """They are refused as invalid parameters."""
    async with gateway_over(config) as gateway:
        with pytest.raises(ProtocolError) as failed:
            await ModernClient(gateway).once("tools/call", {**ANN, "inputResponses": given})
        assert failed.value.code == -32602


async def test_a_response_that_is_missing_is_asked_for_again(config: dict[str, Any]) -> None:
    async with gateway_over(config) as gateway:
        client = ModernClient(gateway, answers={"elicitation/create": lambda _: BOOKED})
        first = await client.once("tools/call", ANN)
        state = {"requestState": first["requestState"], "inputResponses": {"other": {"action": "accept"}}}
        again = await client.once("tools/call", {**ANN, **state})
        assert again["resultType"] == "input_required"
        assert list(again["inputRequests"].values()) == list(first["inputRequests"].values())
        result = await client.once("tools/call", {**ANN, **client.answered(again)})
        assert text_of(result).startswith("Ann: 2026-12-24")


async def test_a_waiting_call_ends_when_nobody_answers() -> None:
    config = {"servers": {"ask": {"server": asking(), "era": "legacy", "prefix": ""}}}
    ended = asyncio.Event()
    async with gateway_over(config, GatewayLimits(answer_within=0.05)) as gateway:
        gateway.bus.on_event(lambda event: ended.set() if type(event).__name__ == "CallEnded" else None)
        client = ModernClient(gateway)
        assert (await client.once("tools/call", ANN))["resultType"] == "input_required"
        await asyncio.wait_for(ended.wait(), 60)
        await asyncio.sleep(0)
        assert len(gateway._parked) == 0  # pyright: ignore[reportPrivateUsage]


async def test_a_waiting_call_is_cancelled_when_the_gateway_closes() -> None:
    config = {"servers": {"ask": {"server": asking(), "era": "legacy", "prefix": ""}}}
    ended: list[Any] = []
    async with gateway_over(config) as gateway:
        gateway.bus.on_event(ended.append)
        assert (await ModernClient(gateway).once("tools/call", ANN))["resultType"] == "input_required"
    assert [event.reason for event in ended if type(event).__name__ == "CallEnded"] == ["cancelled"]


@pytest.mark.parametrize("era", ["modern", "legacy"])
async def test_the_policy_asks_the_client(era: Era) -> None:
    config = {"servers": {"day": {"server": everyday()}}, "policy": [{"tools": "day/echo", "do": "ask"}]}
    params = {"name": "day_echo", "arguments": {"text": "hi"}}
    answers = iter(["once", "no"])
    async with gateway_over(config) as gateway:

        def answer(given: dict[str, Any]) -> dict[str, Any]:
            assert "hi" in given["message"]
            return {"action": "accept", "content": {"answer": next(answers)}}

        client = await client_of(era, gateway, {"elicitation/create": answer})
        assert text_of(await client.request("tools/call", params)) == "hi"
        refused = await client.request("tools/call", params)
        assert refused["isError"]
        assert "did not allow it" in text_of(refused)
        mute = await client_of(era, gateway, capabilities={})
        refused = await mute.request("tools/call", params)
        assert refused["isError"]
        assert text_of(refused).endswith("does not support forms; use one that does, or change the rule")


@pytest.mark.parametrize("era", ["modern", "legacy"])
async def test_the_policy_asks_before_the_server_does(era: Era, config: dict[str, Any]) -> None:
    def answer(given: dict[str, Any]) -> dict[str, Any]:
        approves = "answer" in given["requestedSchema"]["properties"]
        return {"action": "accept", "content": {"answer": "once"}} if approves else BOOKED

    async with gateway_over({**config, "policy": [{"tools": "ask/book", "do": "ask"}]}) as gateway:
        client = await client_of(era, gateway, {"elicitation/create": answer})
        assert text_of(await client.request("tools/call", ANN)).startswith("Ann: 2026-12-24")
        assert len(client.asked) == 2


@pytest.mark.parametrize(("era", "code"), [("modern", -32021), ("legacy", -32600)])
async def test_a_legacy_server_needs_what_the_client_did_not_declare(era: Era, code: int) -> None:
    """A modern client learns which capability that is, in the terms of its era."""
    config = {"servers": {"ask": {"server": asking(), "era": "legacy", "prefix": ""}}}
    async with gateway_over(config) as gateway:
        client = await client_of(era, gateway, capabilities={})
        cases: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
            ("book", {"guest": "Ann"}, {"elicitation": {"form": {}}}),
            ("title", {"about": "snow"}, {"sampling": {}}),
        ]
        for name, arguments, needed in cases:
            with pytest.raises(ProtocolError) as failed:
                await client.request("tools/call", {"name": name, "arguments": arguments})
            assert failed.value.code == code
            assert failed.value.data == {"requiredCapabilities": needed}


async def test_calls_of_one_client_on_a_pipe_are_asked_in_the_one_that_waits() -> None:
    """A pipe does not say which call a question belongs to; all of them are of one client."""
    entry = {"command": warm.python(), "args": [str(SERVERS / "asking.py"), "stdio"], "era": "legacy"}
    config = {"servers": {"ask": {**entry, "prefix": ""}}}
    async with gateway_over(config) as gateway:
        client = ModernClient(gateway, answers={"elicitation/create": lambda _: BOOKED})
        left = await client.once("tools/call", ANN)  # which it does not come back to
        twice = {"name": "book", "arguments": {"guest": "Bob"}}
        assert text_of(await client.request("tools/call", twice)).startswith("Bob: 2026-12-24")
        eve = ModernClient(gateway, principal=Principal(name="eve"))
        with pytest.raises(ProtocolError) as failed:  # hers may be a question of the other one
            await eve.once("tools/call", ANN)
        assert "per_session" in failed.value.message
        result = await client.once("tools/call", {**ANN, **client.answered(left)})
        assert text_of(result).startswith("Ann: 2026-12-24")


async def test_questions_at_the_same_time_come_together() -> None:
    server: MCPServer = MCPServer("s")

    @server.tool(structured_output=False)
    async def both(ctx: Context) -> str:
        answers = await asyncio.gather(ctx.elicit("One?", Sure), ctx.elicit("Two?", Sure))
        return " ".join(answer.action for answer in answers)

    async with gateway_over({"servers": {"s": {"server": server, "era": "legacy"}}}) as gateway:
        client = ModernClient(gateway)
        asked = await client.once("tools/call", {"name": "s_both"})
        messages = {key: one["params"]["message"] for key, one in asked["inputRequests"].items()}
        assert sorted(messages.values()) == ["One?", "Two?"]
        one, two = messages
        state = {"name": "s_both", "requestState": asked["requestState"]}
        left = await client.once("tools/call", {**state, "inputResponses": {one: {"action": "decline"}}})
        assert list(left["inputRequests"]) == [two]
        state["requestState"] = left["requestState"]
        done = await client.once("tools/call", {**state, "inputResponses": {two: {"action": "cancel"}}})
        assert sorted(text_of(done).split()) == ["cancel", "decline"]
