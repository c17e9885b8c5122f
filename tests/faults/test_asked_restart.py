"""`bus.restart`: a new connection, a new process, and no failure of the old one."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import SERVERS, web_server
from tests.faults.test_healing import stdio
from tests.patience import until
from tests.processes import alive
from toolbus import ConnectionLost, ServerDown, ServerNotFound, Toolbus
from toolbus.events import Event, StateChanged

pytestmark = pytest.mark.anyio
ERAS = pytest.mark.parametrize("era", ["modern", "legacy"])


@ERAS
async def test_the_process_is_another_one_and_nothing_counts_as_a_failure(era: str) -> None:
    seen: list[Event] = []
    async with Toolbus({"servers": {"a": stdio(era)}}, on_event=seen.append) as bus:
        before = int((await bus.call("a_process")).text)
        seen.clear()
        await bus.restart("a")
        after = int((await bus.call("a_process")).text)
        status = bus.servers["a"]
    states = [(event.state, event.error) for event in seen if isinstance(event, StateChanged)]
    assert states[:2] == [("retrying", None), ("ready", None)]
    assert before != after
    await until(lambda: not alive(before))
    assert (status.state, status.restarts, status.error) == ("ready", 1, None)


async def test_a_call_in_flight_fails_and_later_ones_wait(tmp_path: Path) -> None:
    async with Toolbus({"servers": {"a": stdio("modern")}}) as bus:
        call = asyncio.create_task(bus.call("a_linger", {"path": str(tmp_path / "trace")}))
        await until((tmp_path / "trace").exists)
        restarting = asyncio.create_task(bus.restart("a"))
        with pytest.raises(ConnectionLost) as caught:
            await call
        assert caught.value.sent
        assert (await bus.call("a_echo", {"text": "back"})).text == "back"
        await restarting
        assert bus.servers["a"].restarts == 1


async def test_a_server_over_http_gets_a_new_session(tmp_path: Path) -> None:
    with web_server("http", tmp_path) as port:
        config = {"servers": {"a": {"url": f"http://127.0.0.1:{port}/mcp", "era": "legacy"}}}
        async with Toolbus(config) as bus:
            await bus.restart("a")
            assert (await bus.call("a_echo", {"text": "back"})).text == "back"
            assert bus.servers["a"].restarts == 1


async def test_restarts_at_the_same_time_are_all_over_in_the_end() -> None:
    async with Toolbus({"servers": {"a": stdio("legacy")}}) as bus:
        await asyncio.gather(*(bus.restart("a") for _ in range(5)))
        assert bus.servers["a"].state == "ready"
        assert (await bus.call("a_echo", {"text": "back"})).text == "back"


async def test_a_lazy_server_is_connected_and_an_impossible_one_says_why() -> None:
    servers: dict[str, Any] = {"a": stdio("modern", lazy=True), "gone": {"command": "no-such-command-at-all"}}
    async with Toolbus({"servers": servers}) as bus:
        await bus.restart("a")
        assert (bus.servers["a"].state, bus.servers["a"].restarts) == ("ready", 0)
        with pytest.raises(ServerDown, match="no-such-command-at-all"):
            await bus.restart("gone")
        with pytest.raises(ServerNotFound):
            await bus.restart("b")


async def test_what_processes_wrote_to_stderr_is_kept_over_restarts_and_bounded() -> None:
    flood = {"command": "python", "args": [str(SERVERS / "plain.py"), "stderr_flood"]}
    async with Toolbus({"servers": {"a": flood, "b": stdio("modern", lazy=True)}}) as bus:
        for _ in range(2):
            await until(lambda: bus.stderr("a")[-1:] == ("the end of the flood",))
            await bus.restart("a")
        await until(lambda: bus.stderr("a").count("the end of the flood") == 3)
        lines = bus.stderr("a")
        assert bus.stderr("b") == ()
    assert len(lines) == 6
    assert all(len(line) <= 500 for line in lines)
