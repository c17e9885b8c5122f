"""Servers that send too many allowed messages: tools, requests, events."""

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests import warm
from tests.budget import BUDGET, measured
from tests.conftest import SERVERS
from tests.hostile.wires import hostile_http, modern
from tests.inside.core import (
    BACKLOG,
    CatalogChanged,
    Event,
    EventStream,
    Logged,
    StateChanged,
    Warned,
    tool_spec,
)
from tests.patience import PATIENCE
from tests.servers.flooding import LINES
from toolbus import ServerRejected, Toolbus, ToolSpec

pytestmark = pytest.mark.anyio
FLOODING = """
import json, sys

def say(message):
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)

def flood():
    pings = [json.dumps({"jsonrpc": "2.0", "id": f"q{n}", "method": "ping"}) for n in range(500)]
    print("\\n".join(pings), flush=True)

answered, wanted = 0, int(sys.argv[2])
for line in sys.stdin:
    message = json.loads(line)
    number, method = message.get("id"), message.get("method")
    if method is None:
        answered += 1
        if answered < wanted and answered % 5 == 0:
            flood()
        if answered == wanted:
            say({"id": call, "result": {"content": [{"type": "text", "text": str(answered)}]}})
    elif method == "initialize":
        info = {"name": "flood", "version": "1"}
        say({"id": number, "result": {"protocolVersion": "2025-06-18", "serverInfo": info,
             "capabilities": {"tools": {}}}})
    elif method == "tools/list":
        tools = [{"name": f"t{n}", "inputSchema": {"type": "object"}} for n in range(int(sys.argv[1]))]
        say({"id": number, "result": {"tools": tools}})
    elif method == "tools/call":
        call = number
        flood()
    elif number is not None:
        say({"id": number, "error": {"code": -32601, "message": "no such method"}})
"""


def _plain(script: str, *words: str) -> dict[str, Any]:
    """A server of the legacy era that imports little."""
    return {"command": sys.executable, "args": ["-I", "-S", str(SERVERS / script), *words], "era": "legacy"}


@pytest.fixture
def flooding(tmp_path: Path) -> list[str]:
    file = tmp_path / "flooding.py"
    file.write_text(FLOODING)
    return [str(file)]


async def test_more_tools_than_the_limit(flooding: list[str], caplog: pytest.LogCaptureFixture) -> None:
    """The rest is left out, with a warning."""
    entry = {"command": sys.executable, "args": [*flooding, "500", "1"], "limits": {"tools": 200}}
    async with Toolbus({"servers": {"a": {**entry, "era": "legacy"}}}) as bus:
        assert len(bus.catalog) == 200
    assert "server 'a': tools: only the first 200 are used (limits.tools)" in caplog.text


async def test_a_flood_of_requests_during_a_call(flooding: list[str]) -> None:
    """They are answered up to the limit, and the call ends."""
    # More requests than the limit arrive in one piece; some are answered, and so are some of the next piece.
    entry = {"command": sys.executable, "args": [*flooding, "1", "50"], "limits": {"requests": 10}}
    async with asyncio.timeout(PATIENCE), Toolbus({"servers": {"a": {**entry, "era": "legacy"}}}) as bus:
        assert (await bus.call("a_t0")).text == "50"
        assert (bus.servers["a"].state, bus.servers["a"].restarts) == ("ready", 0)


@pytest.mark.parametrize("kind", LINES)
async def test_messages_without_end(kind: str) -> None:
    """The connection is closed, the reason is visible, and the other servers go on."""
    flood = {**_plain("flooding.py", kind), "limits": {"unasked": 2_000}, "lazy": True}
    async with (
        asyncio.timeout(PATIENCE),
        Toolbus({"servers": {"a": flood, "b": _plain("counting.py")}}) as bus,
    ):
        lost: asyncio.Future[StateChanged] = asyncio.get_running_loop().create_future()

        def look(event: object) -> None:
            is_loss = isinstance(event, StateChanged) and event.error and "limits.unasked" in event.error
            if is_loss and isinstance(event, StateChanged) and not lost.done():
                lost.set_result(event)

        bus.on_event(look)
        await bus.wait_ready("a")
        for number in range(1, 21):
            assert (await bus.call("b/count")).text == str(number)
        event = await lost
        assert (event.server, event.state) == ("a", "retrying")
        assert "the server sent more than 2,000 messages in a minute unasked" in (event.error or "")


async def test_progress_that_was_asked_for() -> None:
    """Any amount of it is reported, and the connection stays."""
    day = {"command": warm.python(), "args": [str(SERVERS / "everyday.py"), "stdio"]}
    async with (
        asyncio.timeout(PATIENCE),
        Toolbus({"servers": {"day": {**day, "limits": {"unasked": 10}}}}) as bus,
    ):
        seen: list[float] = []
        result = await bus.call(
            "day/steps", {"count": 200}, on_progress=lambda progress, total, message: seen.append(progress)
        )
        assert (result.text, len(seen)) == ("200 steps", 200)
        assert bus.servers["day"].restarts == 0


async def test_events_that_nobody_reads() -> None:
    """The listener loses the oldest, the program no memory."""
    stream = EventStream[Event](max_bytes=1_000_000)
    for number in range(100):
        stream.put(Logged(server="a", level="info", data={"n": number, "text": "x" * 100_000}))
    stream.end()
    read = [event.data["n"] async for event in stream if isinstance(event, Logged)]
    assert read == list(range(91, 100))
    small = EventStream[Event]()
    for number in range(BACKLOG + 5):
        small.put(Logged(server="a", level="info", data=number))
    small.end()
    assert [event.data async for event in small if isinstance(event, Logged)] == list(range(5, BACKLOG + 5))


async def test_one_event_larger_than_the_backlog() -> None:
    """It is still delivered."""
    stream = EventStream[Event](max_bytes=1_000)
    stream.put(Logged(server="a", level="info", data="x" * 5_000))
    stream.end()
    assert [len(json.dumps(event.data)) async for event in stream if isinstance(event, Logged)] == [5_002]


def test_a_description_beyond_the_limit() -> None:
    """It is cut, and the history of the tool says so."""
    tool = {"name": "t", "description": "x" * 500, "inputSchema": {"type": "object"}}
    spec = tool_spec("a", tool, longest=200)
    assert isinstance(spec, ToolSpec)
    assert spec.description == "x" * 200 + "..."
    assert [change.fields for change in spec.history] == [("description (beyond 200 characters)",)]


async def test_more_tasks_than_the_limit() -> None:
    """The calls beyond it fail, and the others go on."""
    state: dict[str, object] = {"taskId": "t", "status": "working", "pollIntervalMs": 50}
    done = {"content": [{"type": "text", "text": "done"}]}
    async with asyncio.timeout(PATIENCE), hostile_http("post") as server:
        server.results = modern(server.results)
        server.results["tools/call"] = {"resultType": "task", **state}
        server.results["tasks/get"] = {"resultType": "complete", **state}
        entry = {"url": server.url, "era": "modern", "limits": {"tasks": 2}}
        async with Toolbus({"servers": {"a": entry}}) as bus:
            calls = [asyncio.create_task(bus.call("a_plain")) for _ in range(2)]
            await asyncio.wait({asyncio.create_task(server.asked("tasks/get").wait())})
            with pytest.raises(ServerRejected, match=r"more than 2 calls as tasks .* \(limits.tasks\)"):
                await bus.call("a_plain")
            server.results["tasks/get"] |= {"status": "completed", "result": done}
            assert [(await call).text for call in calls] == ["done", "done"]


@pytest.mark.parametrize("kind", ["resources", "templates", "prompts"])
async def test_more_resources_and_prompts_than_the_limit(kind: str, caplog: pytest.LogCaptureFixture) -> None:
    """The others are left out, with a warning."""
    key = "prompts" if kind == "prompts" else "resources"
    async with hostile_http("post") as server:
        server.results["initialize"] |= {"capabilities": {"tools": {}, "prompts": {}, "resources": {}}}
        server.results |= {
            "resources/list": {"resources": [{"uri": f"x://{n}", "name": "r"} for n in range(9)]},
            "prompts/list": {"prompts": [{"name": f"p{n}"} for n in range(9)]},
            "resources/templates/list": {
                "resourceTemplates": [{"uriTemplate": f"x://{n}/{{a}}", "name": "t"} for n in range(9)]
            },
        }
        entry = {"url": server.url, "era": "legacy", "limits": {key: 5}}
        async with Toolbus({"servers": {"a": entry}}) as bus:
            assert len(getattr(bus.inventories["a"], kind)) == 5
    assert f"{kind}: only the first 5 are used (limits.{key})" in caplog.text


async def test_a_list_of_invalid_tools_that_changes() -> None:
    """Each list is read within its budget, and the warnings are limited."""
    events: list[Event] = []

    def tools(offset: int) -> list[dict[str, object]]:
        return [{"name": f"t{n + offset}", "inputSchema": 5} for n in range(9_000)]

    async with hostile_http("session") as server:
        server.results["initialize"] |= {"capabilities": {"tools": {"listChanged": True}}}
        server.results["tools/list"] = {"tools": tools(0)}
        config = {"servers": {"a": {"url": server.url, "era": "legacy"}}}
        async with asyncio.timeout(PATIENCE), Toolbus(config, on_event=events.append) as bus:
            server.results["tools/list"] = {"tools": [*tools(4_500), {"name": "odd", "inputSchema": {}}]}
            await server.streaming.wait()
            with measured() as steps:
                changed = bus.events()
                server.write_event(b'{"method":"notifications/tools/list_changed"}')
                async for event in changed:
                    if isinstance(event, CatalogChanged):
                        break
    assert steps.longest < BUDGET, steps.callback
    warned = [event.message for event in events if isinstance(event, Warned)]
    assert len(warned) < 300
    assert "4,400 more of its definitions were left out" in warned


async def test_arguments_that_cannot_be_checked() -> None:
    """The call is made, and a warning says so."""
    events: list[Event] = []
    async with hostile_http("post") as server:
        server.results["tools/list"]["tools"][1]["inputSchema"] = {"$ref": "#"}
        config = {"servers": {"a": {"url": server.url, "era": "legacy"}}}
        async with Toolbus(config, on_event=events.append) as bus:
            for _ in range(3):
                assert (await bus.call("a_plain", {"x": 1})).text == "seen"
    reason = "its schema cannot be used: its references are endless, or too many"
    warned = [event.message for event in events if isinstance(event, Warned)]
    assert warned == [f"its arguments are not checked: {reason}"]
