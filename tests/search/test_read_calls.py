"""`call_read_tool`: calls that only read, apart from the others, and the hints that say so."""

import json
from typing import Any

import pytest

from tests.gateway.driving import client_of, gateway_over, text_of
from tests.servers.everyday import everyday
from tests.shape.schemas import tool
from toolbus import Toolbus
from toolbus.adapters.approval import needs_approval
from toolbus.errors import ConfigError
from toolbus.shape import overridden

pytestmark = pytest.mark.anyio
ADD: dict[str, Any] = {"name": "a_add", "arguments": {"a": 1, "b": 2}}
ECHO: dict[str, Any] = {"name": "a_echo", "arguments": {"text": "hi"}}


def _config(**entry: Any) -> dict[str, Any]:
    return {"servers": {"a": {"server": everyday(), **entry}}, "expose": "search"}


async def test_only_reading_calls_are_taken() -> None:
    async with Toolbus(_config(trust_annotations=True)) as bus:
        search, read, call = bus.tools()
        assert [tool.name for tool in (search, read, call)] == ["search_tools", "call_read_tool", "call_tool"]
        found = (await search.execute(queries=["a_add", "a_echo"])).text.splitlines()
        assert "read_only: true with call_read_tool" in found[0]
        marked = {one["name"]: one.get("read_only") for one in map(json.loads, found[1:])}
        assert (marked["a_add"], marked["a_echo"]) == (True, None)
        assert (await read.run(ADD)).text == "3"
        refused = await read.run(ECHO)
        assert refused.is_error
        assert "'a_echo' may change something; call it with call_tool" in refused.text
        assert (await call.run(ECHO)).text == "hi"
        assert (await bus.call("call_read_tool", ADD)).text == "3"
        for name in ("call_tool", "call_read_tool"):
            assert "cannot call itself" in (await read.run({"name": name, "arguments": ADD})).text


async def test_a_server_that_is_not_trusted_marks_nothing() -> None:
    async with Toolbus(_config()) as bus:
        assert [tool.name for tool in bus.tools()] == ["search_tools", "call_tool"]
        assert '"read_only"' not in (await bus.tools()[0].execute(queries=["a_add"])).text


async def test_the_owner_marks_a_tool() -> None:
    async with Toolbus(_config(override={"ech*": {"hints": {"read_only": True}}})) as bus:
        _, read, _ = bus.tools()
        assert (await read.run(ECHO)).text == "hi"
        # The word of its server still counts for nothing.
        assert "'a_add' may change something" in (await read.run(ADD)).text


async def test_policy_and_approvals_go_by_the_hints_of_the_owner() -> None:
    rules = [{"hint": "read-only", "do": "allow"}, {"do": "deny", "reason": "no writes"}]
    hints = {"echo": {"hints": {"read_only": True}}}
    async with Toolbus({**_config(override=hints), "policy": rules}) as bus:
        _, read, call = bus.tools()
        assert (await read.run(ECHO)).text == "hi"
        assert "no writes" in (await call.run(ADD)).text
        assert not needs_approval(read, "writes")
        assert needs_approval(read, "ask")
        assert needs_approval(read, lambda spec: False)  # the tool that it calls is not known yet
        assert not needs_approval(read, lambda spec: False, ECHO)
        assert not needs_approval(read, "writes", ECHO)
        assert needs_approval(call, "writes", ADD)


@pytest.mark.parametrize("era", ["modern", "legacy"])
async def test_a_client_of_the_gateway_can_allow_reading(era: Any) -> None:
    async with gateway_over(_config(trust_annotations=True)) as gateway:
        client = await client_of(era, gateway, {})
        listed = {one["name"]: one for one in (await client.request("tools/list", {}))["tools"]}
        assert listed["call_read_tool"]["annotations"]["readOnlyHint"] is True
        assert listed["call_tool"]["annotations"]["destructiveHint"] is True
        taken = await client.request("tools/call", {"name": "call_read_tool", "arguments": ADD})
        assert text_of(taken) == "3"
        refused = await client.request("tools/call", {"name": "call_read_tool", "arguments": ECHO})
        assert refused["isError"]
        assert "call it with call_tool" in text_of(refused)


SAID = {"readOnlyHint": True, "destructiveHint": True, "idempotentHint": True, "title": "Find"}


@pytest.mark.parametrize(
    ("hints", "trusted", "expected"),
    [
        ({"read_only": True}, False, {"title": "Find", "readOnlyHint": True, "destructiveHint": False}),
        ({"read_only": False}, True, {**SAID, "readOnlyHint": False}),
        ({"idempotent": False}, True, {**SAID, "idempotentHint": False}),
        ({"open_world": False}, False, {"title": "Find", "destructiveHint": True, "openWorldHint": False}),
    ],
)
def test_what_a_server_says_in_its_favour_counts_only_if_it_is_trusted(
    hints: dict[str, bool], trusted: bool, expected: dict[str, Any]
) -> None:
    spec = tool({"type": "object"}, annotations=SAID, trusted=trusted)
    (found,) = overridden({"*": {"hints": hints}})([spec])
    assert found.annotations == expected
    assert found.trusted


def test_hints_that_contradict_each_other_are_a_mistake() -> None:
    with pytest.raises(ConfigError, match="cannot be both read_only and destructive"):
        Toolbus(_config(override={"add": {"hints": {"read_only": True, "destructive": True}}}))
