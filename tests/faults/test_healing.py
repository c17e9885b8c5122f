"""A lost link comes back by itself, and a call is never repeated unless that is safe."""

import asyncio
import os
import signal
import socket
import sys
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from tests import warm
from tests.conftest import SERVERS, plain, sampled, web_server
from tests.inside.bus import servers
from tests.inside.connect import backoff
from tests.patience import PATIENCE, until
from tests.processes import alive
from tests.servers.recording import recording
from toolbus import ConnectionLost, ServerDown, ServerRejected, Toolbus
from toolbus.events import CatalogChanged, Event, EventStream, StateChanged

pytestmark = pytest.mark.anyio
ERAS = pytest.mark.parametrize("era", ["modern", "legacy"])


def stdio(era: str, **more: Any) -> dict[str, Any]:
    return {"command": warm.python(), "args": [str(SERVERS / "everyday.py"), "stdio"], "era": era, **more}


async def reached(events: EventStream[Event], state: str, server: str = "a") -> None:
    """Wait until the link has entered a state."""
    async with asyncio.timeout(PATIENCE):
        async for event in events:
            if isinstance(event, StateChanged) and (event.server, event.state) == (server, state):
                return
    raise AssertionError(f"the bus ended before {state}")


async def kill(bus: Toolbus) -> None:
    os.kill(int((await bus.call("a_process")).text), signal.SIGKILL)


@ERAS
async def test_a_call_under_way_when_the_process_dies_has_an_unknown_outcome_and_the_next_one_works(
    era: str, tmp_path: Path
) -> None:
    async with Toolbus({"servers": {"a": stdio(era)}}) as bus:
        call = asyncio.create_task(bus.call("a_linger", {"path": str(tmp_path / "trace")}))
        await until((tmp_path / "trace").exists)
        await kill(bus)
        with pytest.raises(ConnectionLost) as caught:
            await call
        assert (await bus.call("a_echo", {"text": "back"})).text == "back"
        status = bus.servers["a"]
    assert caught.value.sent
    assert "check before you retry" in str(caught.value)
    assert (tmp_path / "trace").read_text() == "x"
    assert (status.state, status.restarts, status.error) == ("ready", 1, None)


@ERAS
async def test_a_call_of_a_tool_that_only_reads_is_made_again(era: str, tmp_path: Path) -> None:
    async with Toolbus({"servers": {"a": stdio(era)}}) as bus:
        call = asyncio.create_task(bus.call("a_linger_reading", {"path": str(tmp_path / "trace")}))
        await until((tmp_path / "trace").exists)
        await kill(bus)
        assert (await call).text == "not the first time"
    assert (tmp_path / "trace").read_text() == "xx"


@ERAS
async def test_requests_of_every_kind_wait_for_a_link_that_is_coming_back(era: str) -> None:
    async with Toolbus({"servers": {"a": stdio(era)}}) as bus:
        events = bus.events()
        await kill(bus)
        await reached(events, "retrying")
        call, resource, prompt = await asyncio.gather(
            bus.call("a_echo", {"text": "waited"}),
            bus.read_resource("a", "memo://greeting"),
            bus.get_prompt("a", "summarise", {"text": "x"}),
        )
    assert (call.text, resource[0].text, len(prompt.messages)) == ("waited", "hello", 1)


WEB = [(kind, era) for kind in ("http", "sse") for era in ("modern", "legacy")]


@pytest.mark.parametrize("place", sampled(WEB, ("http", "modern"), ("sse", "legacy")), ids="-".join)
async def test_a_web_server_that_is_restarted_is_found_again_and_listed_anew(
    place: tuple[str, str], tmp_path: Path
) -> None:
    kind, era = place
    async with AsyncExitStack() as stack:
        first = web_server(kind, tmp_path)
        port = first.__enter__()
        config = {"url": f"http://127.0.0.1:{port}/{'mcp' if kind == 'http' else 'sse'}", "era": era}
        bus = await stack.enter_async_context(Toolbus({"servers": {"a": config}}))
        events = bus.events()
        await bus.call("a_grow", {"name": "before"})
        assert (await changed(events)).added == ("a_before",)
        first.__exit__(None, None, None)
        await reached(events, "retrying")
        call = asyncio.create_task(bus.call("a_echo", {"text": "back"}))
        second = web_server(kind, tmp_path, port)
        await asyncio.to_thread(second.__enter__)
        stack.callback(second.__exit__, None, None, None)
        async with asyncio.timeout(PATIENCE):
            assert (await call).text == "back"
        assert (await changed(events)).removed == ("a_before",)
        assert (bus.servers["a"].state, bus.servers["a"].restarts) == ("ready", 1)
        await bus.stop()


async def changed(events: EventStream[Event]) -> CatalogChanged:
    async with asyncio.timeout(PATIENCE):
        async for event in events:
            if isinstance(event, CatalogChanged):
                return event
    raise AssertionError("the bus ended without a change")


@pytest.mark.parametrize("era", sampled(["modern", "legacy"], "legacy"))
async def test_a_call_to_a_process_that_is_dead_already_was_not_sent_and_is_made_once(era: str) -> None:
    """Before the loop could see the end of the process: only the broken pipe tells."""
    config = {"command": sys.executable, "args": [str(SERVERS / "everyday.py"), "stdio"], "era": era}
    async with Toolbus({"servers": {"a": config}}) as bus:
        pid = int((await bus.call("a_process")).text)
        os.kill(pid, signal.SIGKILL)
        while alive(pid):
            os.sched_yield()  # the loop must not run now
        assert (await bus.call("a_echo", {"text": "back"})).text == "back"
        assert bus.servers["a"].restarts == 1


BODIES = [b"", b'{"jsonrpc":"2.0","id":null,"error":{"code":-32001,"message":"Session not found"}}']


@pytest.mark.parametrize("body", BODIES, ids=["bare", "with a JSON-RPC body"])
async def test_a_lost_session_is_renewed_and_the_call_is_made_once(body: bytes) -> None:
    with recording() as record:
        record.session = "first"
        record.bodies[404] = body
        async with Toolbus({"servers": {"a": {"url": record.url}}}) as bus:
            record.session = "second"
            assert (await bus.call("a_look")).text == "seen"
            assert bus.servers["a"].restarts == 1
    calls = [headers["mcp-session-id"] for _, _, headers, method in record.requests if method == "tools/call"]
    assert calls == ["first", "second"]


async def test_a_lost_session_that_is_told_by_a_400_is_one_too() -> None:
    with recording() as record:
        record.session = "first"
        record.bodies[400] = b'{"error": "Bad Request: No valid session ID provided"}'
        async with Toolbus({"servers": {"a": {"url": record.url}}}) as bus:
            record.statuses["tools/call"] = 400
            call = asyncio.create_task(bus.call("a_look"))
            await until(lambda: [method for *_, method in record.requests].count("initialize") == 2)
            record.statuses.clear()
            assert (await call).text == "seen"


async def test_an_event_stream_cut_in_mid_answer_leaves_the_outcome_unknown_and_the_link_up() -> None:
    with recording() as record:
        async with Toolbus({"servers": {"a": {"url": record.url}}}) as bus:
            record.cut.add("tools/call")
            with pytest.raises(ConnectionLost) as caught:
                await bus.call("a_look")
            record.cut.clear()
            assert (await bus.call("a_look")).text == "seen"
            assert bus.servers["a"].restarts == 0
    assert caught.value.sent


async def test_refused_credentials_are_not_tried_in_a_loop_but_when_needed() -> None:
    with recording() as record:
        async with Toolbus({"servers": {"a": {"url": record.url}}}) as bus:
            events = bus.events()
            for method in ("tools/call", "initialize", "server/discover"):
                record.statuses[method] = 401
            with pytest.raises(ServerRejected, match="HTTP 401"):
                await bus.call("a_look")
            await reached(events, "auth_required")
            asked = len(record.requests)
            with pytest.raises(ServerDown, match="auth_required"):
                await bus.call("a_look")
            assert len(record.requests) <= asked + 2
            record.statuses.clear()
            async with asyncio.timeout(PATIENCE):
                while bus.servers["a"].state != "ready":  # not asked again at once
                    await bus.wait_ready()
            assert (await bus.call("a_look")).text == "seen"


async def test_a_server_that_keeps_dying_opens_the_breaker_and_comes_back_when_it_is_mended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backoff, "INITIAL_PAUSE", 0.01)
    trace, mended_file = tmp_path / "spawned", tmp_path / "mended"
    script = tmp_path / "server.py"
    script.write_text(
        f"import pathlib, runpy, sys\n"
        f"trace = pathlib.Path({str(trace)!r})\n"
        f"trace.open('a').write('x')\n"
        f"if len(trace.read_text()) > 1 and not pathlib.Path({str(mended_file)!r}).exists():\n"
        f"    sys.exit('broken')\n"
        f"sys.argv = ['plain.py', 'die_in_call'] if len(trace.read_text()) == 1 else ['plain.py']\n"
        f"runpy.run_path({str(SERVERS / 'plain.py')!r}, run_name='__main__')\n"
    )
    config = {"command": sys.executable, "args": [str(script)], "era": "legacy"}
    async with Toolbus({"servers": {"a": config}, "timeouts": {"reconnect": 0}}) as bus:
        events = bus.events()
        with pytest.raises(ConnectionLost):
            await bus.call("a_echo")
        await reached(events, "failed")
        assert len(trace.read_text()) == backoff.BREAKER_THRESHOLD
        assert bus.servers["a"].error is not None
        assert "on stderr: broken" in str(bus.servers["a"].error)
        with pytest.raises(ServerDown):
            await bus.call("a_echo")
        mended_file.touch()
        assert (await bus.call("a_echo", {"text": "mended"})).text == "mended"


async def test_a_lazy_server_is_started_by_its_first_call() -> None:
    config = {"eager": plain(), "lazy": plain(lazy=True), "other": plain(lazy=True)}
    async with Toolbus({"servers": config}) as bus:
        assert bus.catalog.names == ("eager_echo",)
        assert {alias: s.state for alias, s in bus.servers.items()} == {
            "eager": "ready",
            "lazy": "idle",
            "other": "idle",
        }
        assert (await bus.health())["lazy"].ok
        assert (await bus.call("lazy_echo", {"text": "woken"})).text == "woken"
        assert bus.servers["other"].state == "idle"
        assert (await bus.call("other/echo", {"text": "too"})).text == "too"


async def test_an_idle_link_is_closed_and_comes_back_with_the_next_call() -> None:
    async with Toolbus({"servers": {"a": stdio("legacy", idle_timeout=0.3)}}) as bus:
        events = bus.events()
        first = (await bus.call("a_process")).text
        await reached(events, "idle")
        second = (await bus.call("a_process")).text
        assert bus.servers["a"].error is None
    assert first != second


@pytest.mark.parametrize("silent", ["stdio", "http"])
async def test_the_others_can_be_used_while_one_is_silent(
    silent: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(servers, "INACTIVE_AFTER", 1)
    with socket.create_server(("127.0.0.1", 0)) as listening:  # the system connects, nobody answers
        url = f"http://127.0.0.1:{listening.getsockname()[1]}/mcp"
        config: dict[str, Any] = plain("never_answer") if silent == "stdio" else {"url": url}
        config["timeouts"] = {"connect": 600}
        async with asyncio.timeout(PATIENCE):
            async with Toolbus({"servers": {"silent": config, "good": plain()}}) as bus:
                assert (await bus.call("good_echo", {"text": "fine"})).text == "fine"
                assert bus.servers["silent"].state == "connecting"


async def test_a_server_that_is_slow_but_works_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(servers, "INACTIVE_AFTER", 1)
    script = tmp_path / "slow.py"
    script.write_text(
        "import runpy, sys, time\n"
        "end = time.monotonic() + 2\n"
        "while time.monotonic() < end: pass\n"
        f"sys.argv = ['plain.py']\nrunpy.run_path({str(SERVERS / 'plain.py')!r}, run_name='__main__')\n"
    )
    config = {"slow": {"command": sys.executable, "args": [str(script)]}, "good": plain()}
    async with Toolbus({"servers": config}) as bus:
        assert bus.catalog.names == ("slow_echo", "good_echo")


async def test_states_are_told_as_events_with_their_reason() -> None:
    heard: list[Event] = []
    async with Toolbus({"servers": {"a": stdio("legacy")}}, on_event=heard.append) as bus:
        events = bus.events()
        await kill(bus)
        await reached(events, "ready")
    told = [(e.previous, e.state, e.error) for e in heard if isinstance(e, StateChanged)]
    lost = "server 'a': the connection was lost (the server closed its output, signal 9)"
    assert told == [
        ("idle", "connecting", None),
        ("connecting", "ready", None),
        ("ready", "retrying", lost),
        ("retrying", "ready", None),
        ("ready", "closed", None),
    ]


async def test_a_server_that_was_down_at_the_start_is_tried_when_it_is_needed(tmp_path: Path) -> None:
    with web_server("http", tmp_path) as port:
        pass  # a port that was free a moment ago
    config = {"servers": {"late": {"url": f"http://127.0.0.1:{port}/mcp"}, "good": plain()}}
    async with Toolbus(config) as bus:
        assert bus.servers["late"].state == "failed"
        with web_server("http", tmp_path, port):
            assert (await bus.call("late_echo", {"text": "up"})).text == "up"
            await bus.stop()
