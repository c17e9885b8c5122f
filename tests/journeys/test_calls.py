"""From a config to a result: the same behaviour over every transport and in both eras."""

import asyncio

import pytest

from tests.conftest import PLACES, Place
from tests.patience import PATIENCE
from tests.servers.everyday import PNG, WAV
from toolbus import CallTimeout, Toolbus, ToolResult, connect_mcp
from toolbus.call import Next, Operation
from toolbus.records import Audio, Embedded, Image, ResourceLink, Text

pytestmark = pytest.mark.anyio


# With --full or without; the other tests are for the layers above, which meet each transport and era.
in_all_places = pytest.mark.parametrize("place", PLACES, indirect=True, ids="-".join)


@in_all_places
async def test_a_tool_is_listed_with_all_it_says_and_can_be_called(place: Place) -> None:
    async with Toolbus({"servers": {"day": place.config()}}) as bus:
        spec = bus.catalog["day_add"]
        result = await bus.call("day_add", {"a": 2, "b": 3})
        status = bus.servers["day"]
    assert (str(spec.origin), spec.description, spec.title) == ("day/add", "Add two numbers.", "Addition")
    assert spec.input_schema["required"] == ["a", "b"]
    assert spec.annotations == {"title": "Addition", "readOnlyHint": True}
    assert (result.text, result.structured, result.is_error) == ("5", {"result": 5}, False)
    assert (status.state, status.era, status.error, status.tools) == (
        "ready",
        place.era,
        None,
        len(bus.catalog),
    )
    assert status.protocol == ("2026-07-28" if place.era == "modern" else "2025-11-25")


@in_all_places
async def test_a_result_comes_back_with_nothing_lost(place: Place) -> None:
    async with Toolbus({"servers": {"day": place.config()}}) as bus:
        result = await bus.call("day/many")
    assert result.content == (
        Text(text="first"),
        Image(data=PNG, mime_type="image/png"),
        Audio(data=WAV, mime_type="audio/wav"),
        ResourceLink(uri="memo://greeting", name="greeting", mime_type="text/plain", size=5),
        Embedded(uri="memo://greeting", text="hello", mime_type="text/plain"),
        Embedded(uri="memo://blob", data=b"\x00\x01"),
        Text(text="last"),
    )
    assert (result.text, result.structured, result.meta["trace"]) == ("first\nlast", {"n": 7}, "abc")


async def test_a_tool_that_fails_is_a_result_and_not_an_exception(place: Place) -> None:
    async with Toolbus({"servers": {"day": place.config()}}) as bus:
        result = await bus.call("day_fail", {"reason": "out of tea"})
    assert result.is_error
    assert result.text == "Error executing tool fail: out of tea"


async def test_arguments_of_a_wrong_type_are_a_failed_result(place: Place) -> None:
    async with Toolbus({"servers": {"day": place.config()}}) as bus:
        result = await bus.call("day_add", {"a": "two", "b": 3})
    assert result.is_error
    assert "argument 'a': expected an integer, got 'two'" in result.text


async def test_two_calls_on_one_link_run_at_the_same_time(place: Place) -> None:
    async with Toolbus({"servers": {"day": place.config()}}) as bus, asyncio.timeout(PATIENCE):
        results = await asyncio.gather(
            bus.call("day_meet", {"mine": place.era + "a", "other": place.era + "b"}),
            bus.call("day_meet", {"mine": place.era + "b", "other": place.era + "a"}),
        )
    assert [result.is_error for result in results] == [False, False]


@in_all_places
async def test_a_call_out_of_time_is_cancelled_on_the_server_and_the_link_goes_on(place: Place) -> None:
    async with Toolbus({"servers": {"day": place.config()}}) as bus:
        begun, cancelled = map(int, (await bus.call("day_hangs")).text.split())
        with pytest.raises(CallTimeout) as caught:
            await bus.call("day_hang", timeout=0.2)
        after = await _cancellations(bus, cancelled + 1)
    assert (caught.value.server, caught.value.what, caught.value.seconds) == ("day", "tool 'hang'", 0.2)
    assert after == (begun + 1, cancelled + 1)


async def test_cancelling_the_caller_reaches_the_server_and_the_link_goes_on(place: Place) -> None:
    async with Toolbus({"servers": {"day": place.config()}}) as bus:
        begun, cancelled = map(int, (await bus.call("day_hangs")).text.split())
        task = asyncio.create_task(bus.call("day_hang"))
        async with asyncio.timeout(PATIENCE):
            while (await bus.call("day_hangs")).text.split()[0] == str(begun):
                pass
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        after = await _cancellations(bus, cancelled + 1)
    assert after == (begun + 1, cancelled + 1)


async def _cancellations(bus: Toolbus, wanted: int) -> tuple[int, int]:
    """The result of `hangs` once the server has noticed this number of cancellations."""
    async with asyncio.timeout(PATIENCE):
        while True:
            begun, cancelled = map(int, (await bus.call("day_hangs")).text.split())
            if cancelled >= wanted:
                return begun, cancelled


@in_all_places
async def test_progress_reaches_the_caller_in_order(place: Place) -> None:
    seen: list[tuple[float, float | None, str | None]] = []
    done = asyncio.Event()

    async def note(progress: float, total: float | None, message: str | None) -> None:
        seen.append((progress, total, message))
        if progress == total:
            done.set()

    async with Toolbus({"servers": {"day": place.config()}}) as bus, asyncio.timeout(PATIENCE):
        await bus.call("day_steps", {"count": 3}, on_progress=note)
        await done.wait()
    assert seen == [(1, 3, "step 1"), (2, 3, "step 2"), (3, 3, "step 3")]


async def test_no_more_calls_than_max_concurrency_are_under_way(place: Place) -> None:
    async with Toolbus({"servers": {"day": place.config(max_concurrency=1)}}) as bus:
        first = asyncio.create_task(bus.call("day_meet", {"mine": "x" + place.era, "other": "y"}))
        await asyncio.sleep(0)  # the first one takes the only place
        with pytest.raises(CallTimeout):
            await bus.call("day_echo", {"text": "blocked by the first"}, timeout=0.3)
        first.cancel()
        await asyncio.wait({first})
        assert (await bus.call("day_echo", {"text": "free again"})).text == "free again"


async def test_resources_and_prompts_are_listed_and_read(place: Place) -> None:
    async with Toolbus({"servers": {"day": place.config()}}) as bus:
        assert [(r.server, r.uri, r.mime_type) for r in bus.resources()] == [
            ("day", "memo://greeting", "text/plain")
        ]
        assert [t.uri_template for t in bus.templates()] == ["memo://of/{who}"]
        assert [(p.name, p.arguments[0].name, p.arguments[0].required) for p in bus.prompts()] == [
            ("summarise", "text", True)
        ]
        [part] = await bus.read_resource("day", "memo://of/Ann")
        prompt = await bus.get_prompt("day", "summarise", {"text": "all"})
    assert part.text == "memo of Ann"
    assert [(m.role, m.content) for m in prompt.messages] == [("user", Text(text="Summarise: all"))]


async def test_health_asks_the_live_link(place: Place) -> None:
    async with Toolbus({"servers": {"day": place.config()}}) as bus:
        health = (await bus.health())["day"]
    assert (health.ok, health.error) == (True, None)
    assert health.latency_ms is not None
    assert health.latency_ms > 0


async def test_hooks_are_layers_around_a_call(place: Place) -> None:
    seen: list[str] = []

    async def outer(call: Operation, following: Next) -> ToolResult:
        seen.append(f"outer in {call.spec.origin}")
        result = await following(call)
        seen.append(f"outer out {result.text}")
        return result

    async def inner(call: Operation, following: Next) -> ToolResult:
        seen.append("inner")
        return await following(call)

    async with Toolbus({"servers": {"day": place.config()}}, hooks=[outer, inner]) as bus:
        await bus.call("day_echo", {"text": "hello"})
    assert seen == ["outer in day/echo", "inner", "outer out hello"]


async def test_one_server_is_connected_without_a_config(place: Place) -> None:
    async with connect_mcp(place.config()) as mcp:
        tools = {tool.name: tool for tool in await mcp.list_tools(prefix="fs")}
        own = [tool.name for tool in await mcp.list_tools()]
        result = await tools["fs_echo"].execute(text="hi")
        again = await mcp.call_tool("echo", {"text": "hi"})
    assert "echo" in own
    assert (result, again.text) == (again, "hi")


async def test_the_same_tool_name_on_two_servers_stays_two_tools(place: Place) -> None:
    async with Toolbus({"servers": {"one": place.config(), "two": place.config()}}) as bus:
        first, second = await asyncio.gather(
            bus.call("one_echo", {"text": "1"}), bus.call("two_echo", {"text": "2"})
        )
    assert (first.text, second.text) == ("1", "2")


async def test_the_time_limit_of_the_config_holds_when_a_call_names_none(place: Place) -> None:
    async with Toolbus({"servers": {"day": place.config(timeouts={"call": 0.2})}}) as bus:
        with pytest.raises(CallTimeout, match=r"timed out after 0\.2 s"):
            await bus.call("day_hang")
