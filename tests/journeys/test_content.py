"""Resources, prompts, completion and tasks: the same over every transport and in both eras."""

import asyncio
import contextlib
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Place, web_server
from tests.inside.core import NO_HANDLERS
from tests.patience import PATIENCE
from tests.servers.everyday import PNG, everyday
from toolbus import (
    ArgumentsError,
    CallTimeout,
    ConnectionLost,
    Elicitation,
    InputNeeded,
    Interactions,
    Pending,
    ResourceTooLarge,
    ServerNotFound,
    ServerRejected,
    Toolbus,
)
from toolbus.events import Event, EventStream, ResourceUpdated, StateChanged
from toolbus.records import Completion, Embedded, Image, Text
from toolbus.sync import SyncToolbus

pytestmark = pytest.mark.anyio

TEMPLATE = "code://{language}/{+path}"


def asking_bus(asker: Place, interactions: Interactions = NO_HANDLERS, **more: Any) -> Toolbus:
    return Toolbus({"servers": {"ask": asker.config(**more)}}, interactions=interactions)


async def test_resources_are_listed_and_read_by_server_and_address(asker: Place) -> None:
    config = {"servers": {"one": asker.config(), "two": asker.config()}}
    async with Toolbus(config) as bus:
        both = [(r.server, r.uri, r.mime_type) for r in bus.resources() if r.uri == "board://now"]
        of_one = [resource.uri for resource in bus.resources("one")]
        [template] = bus.templates("two")
        [read] = await bus.read_resource("two", "board://now")
        [blob] = await bus.read_resource("one", "blob://big")
        with pytest.raises(ServerNotFound, match="did you mean 'two'"):
            bus.resources("twoo")
    assert both == [("one", "board://now", "text/plain"), ("two", "board://now", "text/plain")]
    assert (sorted(of_one), template.uri_template) == (["blob://big", "board://now"], TEMPLATE)
    assert (read.uri, read.data, blob.data, blob.text) == ("board://now", None, bytes(2_000), None)
    assert read.text is not None


async def test_a_template_is_filled_in(asker: Place) -> None:
    async with asking_bus(asker) as bus:
        [read] = await bus.read_resource("ask", TEMPLATE, {"language": "go", "path": "src/main.go"})
        with pytest.raises(ArgumentsError, match="no value for 'path'"):
            await bus.read_resource("ask", TEMPLATE, {"language": "go"})
        with pytest.raises(ArgumentsError, match="no value for 'language' and 'path'"):
            await bus.read_resource("ask", TEMPLATE)
        with pytest.raises(ArgumentsError, match="unknown variable 'colour'; known: language, path"):
            await bus.read_resource("ask", TEMPLATE, {"language": "go", "path": "x", "colour": "red"})
    assert read == Embedded(
        uri="code://go/src/main.go", text="go at src/main.go", mime_type="text/plain", meta=read.meta
    )


async def test_a_template_of_another_server_is_not_filled_in(asker: Place) -> None:
    config = {"servers": {"ask": asker.config(), "day": {"server": everyday(), "era": asker.era}}}
    async with Toolbus(config) as bus:
        with pytest.raises(ServerRejected):
            await bus.read_resource("day", TEMPLATE)


async def test_an_unknown_address_is_refused_by_the_server(asker: Place) -> None:
    async with asking_bus(asker) as bus:
        with pytest.raises(ServerRejected, match="resource 'nope://x' was rejected"):
            await bus.read_resource("ask", "nope://x")


async def test_a_resource_over_the_limit_is_refused(asker: Place) -> None:
    async with asking_bus(asker, resource_limit=1_999) as bus:
        with pytest.raises(ResourceTooLarge) as caught:
            await bus.read_resource("ask", "blob://big")
        assert (await bus.read_resource("ask", "board://now"))[0].text is not None
    assert str(caught.value) == (
        "server 'ask': resource 'blob://big' has 2,000 bytes, over the resource_limit of 1,999; "
        "raise the limit to read it"
    )


async def test_a_prompt_keeps_pictures_and_embedded_resources(asker: Place) -> None:
    async with asking_bus(asker) as bus:
        [listed] = bus.prompts()
        prompt = await bus.get_prompt("ask", "review", {"language": "go", "code": "x := 1"})
        with pytest.raises(ArgumentsError, match="prompt 'review': no value for 'language'"):
            await bus.get_prompt("ask", "review", {"code": "x"})
        with pytest.raises(ArgumentsError, match="'language' must be a string, not int"):
            await bus.get_prompt("ask", "review", {"language": 3})  # pyright: ignore[reportArgumentType]
        with pytest.raises(ServerRejected, match="prompt 'nope' was rejected"):
            await bus.get_prompt("ask", "nope")
    assert [(a.name, a.required) for a in listed.arguments] == [("language", True), ("code", False)]
    assert [(message.role, message.content) for message in prompt.messages] == [
        ("user", Text(text="Review this go: x := 1")),
        ("user", Image(data=PNG, mime_type="image/png")),
        ("user", Embedded(uri="code://guide", text="Be kind.", mime_type="text/plain")),
        ("assistant", Text(text="Gladly.")),
    ]


async def test_arguments_are_completed(asker: Place) -> None:
    config = {"servers": {"ask": asker.config(), "day": {"server": everyday(), "era": asker.era}}}
    async with Toolbus(config) as bus:
        assert await bus.complete("ask", "review", "language", "py") == Completion(values=("python",))
        known = await bus.complete("ask", TEMPLATE, "path", known={"language": "go"})
        assert known.values == ("src/main.go",)
        # A server that does not complete gives nothing, and nothing is asked of it.
        assert await bus.complete("day", "summarise", "text", "a") == Completion()


class Updates:
    """The changes of resources that a bus tells."""

    def __init__(self, bus: Toolbus) -> None:
        self._bus = bus
        self._heard: list[str] = []
        self._told = asyncio.Event()
        bus.on_event(self._hear)

    def _hear(self, event: Event) -> None:
        if isinstance(event, ResourceUpdated):
            self._heard.append(event.uri)
            self._told.set()

    async def heard(self, seconds: float) -> list[str]:
        """The updates within this time, returned as soon as there is one."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._told.wait()
        heard, self._heard = self._heard, []
        self._told.clear()
        return heard

    async def after_writing(self, text: str, seconds: float = 10) -> list[str]:
        await self._bus.call("ask_write", {"text": text})
        return await self.heard(seconds)


async def test_a_changed_resource_is_an_event(asker: Place) -> None:
    async with asking_bus(asker) as bus:
        updates = Updates(bus)
        assert await updates.after_writing("before", 0.3) == []
        await bus.subscribe("ask", "board://now")
        await bus.subscribe("ask", "board://now")
        assert await updates.after_writing("first") == ["board://now"]
        assert (await bus.read_resource("ask", "board://now"))[0].text == "first"
        await bus.unsubscribe("ask", "board://now")  # one of two who want it
        assert await updates.after_writing("second") == ["board://now"]
        await bus.unsubscribe("ask", "board://now")
        assert await updates.after_writing("third", 0.3) == []


@pytest.mark.parametrize("era", ["modern", "legacy"])
async def test_a_subscription_outlives_its_connection(era: str, asking_ports: dict[str, int]) -> None:
    async with asking_bus(Place("stdio", era, asking_ports, "asking.py")) as bus:
        updates = Updates(bus)
        await bus.subscribe("ask", "board://now")
        with pytest.raises(ConnectionLost):
            await bus.call("ask_leave")
        # Told once, because nobody knows what changed meanwhile.
        assert await updates.heard(20) == ["board://now"]
        await bus.call("ask_tell", {"text": "up again"})
        async with asyncio.timeout(PATIENCE):  # the new stream may be agreed on a moment later
            while await updates.after_writing("after", 0.5) != ["board://now"]:
                pass


async def _idle(events: EventStream[Event], server: str) -> None:
    async with asyncio.timeout(PATIENCE):
        async for event in events:
            if isinstance(event, StateChanged) and (event.server, event.state) == (server, "idle"):
                return


@pytest.mark.parametrize("era", ["modern", "legacy"])
async def test_a_server_is_not_idle_while_somebody_is_subscribed(
    era: str, asking_ports: dict[str, int]
) -> None:
    place = Place("http", era, asking_ports, "asking.py")
    servers = {alias: place.config(idle_timeout=0.2) for alias in ("ask", "other")}
    async with Toolbus({"servers": servers}) as bus:
        events = bus.events()
        await bus.subscribe("ask", "board://now")
        since = bus.servers["ask"].since
        for _ in range(3):  # each time as long as the subscribed one would have to be idle
            await bus.call("other_tell", {"text": "x"})
            await _idle(events, "other")
        assert (bus.servers["ask"].state, bus.servers["ask"].since) == ("ready", since)
        await bus.unsubscribe("ask", "board://now")
        await _idle(events, "ask")


async def test_what_cannot_be_subscribed_to_is_said(place: Place) -> None:
    async with Toolbus({"servers": {"day": place.config()}}) as bus:
        if place.era == "modern":
            await bus.subscribe("day", "memo://greeting")  # the SDK's server offers it to all
            return
        with pytest.raises(ServerRejected, match="the server does not offer subscriptions"):
            await bus.subscribe("day", "memo://greeting")


# For agents that know nothing but tools


async def test_resources_and_prompts_as_tools_of_each_server(asker: Place) -> None:
    config = {
        "servers": {"ask": asker.config(include=["tell"])},
        "resource_tools": "server",
        "prompt_tools": True,
    }
    async with Toolbus(config) as bus:
        assert set(bus.catalog.names) == {"ask_tell", "mcp_ask_read_resource", "mcp_ask_get_prompt_review"}
        tools = {tool.name: tool for tool in bus.tools("ask")}
        read = await tools["mcp_ask_read_resource"].execute(uri="code://go/a.go")
        prompt = await tools["mcp_ask_get_prompt_review"].execute(language="go")
        wrong = await tools["mcp_ask_get_prompt_review"].execute(code="x")
        missing = await tools["mcp_ask_read_resource"].execute(uri="nope://x")
    assert "code://{language}/{+path}" in tools["mcp_ask_read_resource"].description
    assert read.content == (Embedded(uri="code://go/a.go", text="go at a.go", mime_type="text/plain"),)
    assert [type(block) for block in prompt.content].count(Image) == 1
    assert (wrong.is_error, missing.is_error) == (True, True)
    assert "language" in wrong.text
    assert "nope://x" in missing.text


async def test_resources_as_a_pair_of_tools_of_the_bus(asker: Place) -> None:
    config = {"servers": {"ask": asker.config(exclude=["*"])}, "resource_tools": True}
    async with Toolbus(config) as bus:
        assert bus.catalog.names == ("list_resources", "read_resource")
        listed = await bus.call("list_resources")
        read = await bus.call("read_resource", {"server": "ask", "uri": "code://go/a.go"})
        nobody = await bus.call("list_resources", {"server": "nobody"})
        [_, tool] = bus.tools()
        unknown = await tool.execute(server="nobody", uri="x://y")
    assert {item["uri"] for item in listed.structured["ask"]["resources"]} == {"board://now", "blob://big"}
    assert isinstance(read.content[0], Embedded)
    assert (nobody.is_error, nobody.text) == (True, "MCP error: unknown server 'nobody'; known servers: ask")
    assert (unknown.is_error, "nobody" in unknown.text) == (True, True)


async def test_they_are_off_by_default(asker: Place) -> None:
    async with asking_bus(asker) as bus:
        assert not [name for name in bus.catalog.names if "resource" in name or "prompt" in name]


# Tasks


def sure(question: Elicitation) -> Any:
    return question.accept({"yes": True})


async def test_a_task_is_hidden_behind_a_normal_call(asker: Place) -> None:
    heard: list[str | None] = []
    async with asking_bus(asker, Interactions(elicit=sure)) as bus:
        result = await bus.call(
            "ask_dig", {"depth": 3}, on_progress=lambda done, total, message: heard.append(message)
        )
        if asker.era == "legacy":  # which has none
            assert result.text == "dug 3"
            return
        asked = await bus.call("ask_dig", {"depth": 2, "mode": "ask"})
        with pytest.raises(ServerRejected, match="the ground is rock"):
            await bus.call("ask_dig", {"depth": 2, "mode": "fail"})
        with pytest.raises(CallTimeout, match=r"tool 'dig' timed out after 0\.3 s"):
            await bus.call("ask_dig", {"depth": 1_000}, timeout=0.3)
    assert result.text == "dug 3 as a task"
    assert heard[:3] == ["at 1", "at 2", "at 3"]
    assert asked.text == "dug 2 as a task, sure {'action': 'accept', 'content': {'yes': True}}"


async def test_a_cancelled_call_cancels_its_task(modern_asker: Place) -> None:
    async with asking_bus(modern_asker) as bus:
        first = await bus.submit("ask_dig", {"depth": 0})
        number = int(str(first.id).removeprefix("task-"))
        begun = asyncio.Event()
        calling = asyncio.create_task(
            bus.call("ask_dig", {"depth": 1_000}, on_progress=lambda done, total, message: begun.set())
        )
        await begun.wait()
        calling.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await calling
        stored = first.to_json().replace(f"task-{number}", f"task-{number + 1}")
        assert (await bus.task(stored).status()).status == "cancelled"


async def test_a_submitted_task_is_come_back_to(asker: Place) -> None:
    async with asking_bus(asker) as bus:
        handle = await bus.submit("ask_dig", {"depth": 4})
        if asker.era == "legacy":
            assert handle.done
            assert (await handle.result()).text == "dug 4"
            with pytest.raises(ValueError, match="there is no task: the server returned the result at once"):
                handle.to_json()
            return
        assert not handle.done
        with pytest.raises(CallTimeout):
            await handle.result(timeout=0.01)
        again = bus.task(handle.to_json())
        assert (await again.result()).text == "dug 4 as a task"
        gone = await bus.submit("ask_dig", {"depth": 1_000})
        assert (await gone.status()).status == "working"
        await gone.cancel()
        assert "cancelled" in (await gone.result()).text
        unknown = bus.task(handle.to_json().replace(str(handle.id), "task-0"))
        with pytest.raises(ServerRejected, match="there is no task 'task-0'"):
            await unknown.result()


def test_a_task_is_come_back_to_without_a_loop(modern_asker: Place) -> None:
    with SyncToolbus({"servers": {"ask": modern_asker.config()}}) as bus:
        handle = bus.submit("ask_dig", {"depth": 2})
        again = bus.task(handle.to_json())
        assert (again.id, again.done) == (handle.id, False)
        assert again.result().text == "dug 2 as a task"
        gone = bus.submit("ask_dig", {"depth": 1_000})
        assert gone.status().status == "working"
        gone.cancel()
        assert "cancelled" in gone.result(timeout=20).text


async def test_a_task_survives_another_process_and_may_wait_for_a_person(
    asking_ports: dict[str, int],
) -> None:
    asker = Place("http", "modern", asking_ports, "asking.py")
    async with asking_bus(asker) as bus:
        result = await bus.call("ask_dig", {"depth": 2, "mode": "ask"}, on_input="suspend")
        with pytest.raises(InputNeeded):
            await bus.call("ask_dig", {"depth": 2, "mode": "ask"})
    assert result.pending is not None
    pending = Pending.from_json(result.pending.to_json())
    assert [question.message for question in pending.questions.values()] == ["Dig 2 deep?"]
    async with asking_bus(asker) as bus:  # another link, as another process would have
        done = await bus.resume(pending, pending.questions["sure"].decline())
    assert done.text == "dug 2 as a task, sure {'action': 'decline'}"


async def test_a_task_is_followed_over_a_lost_connection(tmp_path: Path) -> None:
    """Streamable HTTP, and the server is away for a moment in the middle of it."""
    with web_server("http", tmp_path, script="asking.py") as port:
        url = f"http://127.0.0.1:{port}/mcp"
        async with Toolbus({"servers": {"ask": {"url": url}}}) as bus:
            slow = asyncio.create_task(bus.call("ask_dig", {"depth": 20}))
            await asyncio.sleep(0.3)
            [link] = bus._servers.links.values()  # pyright: ignore[reportPrivateUsage]
            link.session.end("cut for the test")
            assert (await slow).text == "dug 20 as a task"
            assert bus.servers["ask"].restarts == 1
