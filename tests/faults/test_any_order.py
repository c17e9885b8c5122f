"""Start, add, remove, reload, stop, health, call and kill in any order, also two at a time.

After every step the states are true; at the end no process, task or descriptor is left.
"""

import asyncio
import gc
import os
import signal
import sys
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from mcp.server.mcpserver import MCPServer

from tests.conftest import SERVERS
from tests.patience import PATIENCE, until
from tests.processes import children
from toolbus import BusClosed, ConnectionLost, Toolbus, ToolNotFound

ALIASES = ("a", "b", "c")
KINDS = st.sampled_from(["process", "memory", "lazy", "broken"])
CONFIGS = st.dictionaries(st.sampled_from(ALIASES), KINDS, max_size=3)
UP = {"process": {"ready"}, "memory": {"ready"}, "lazy": {"idle", "ready"}, "broken": {"failed"}}
"""The states that a server of each kind may have once all is quiet."""

memory = MCPServer("memory")


@memory.tool(structured_output=False)
def echo(text: str) -> str:
    return text


def entry(kind: str) -> dict[str, Any]:
    match kind:
        case "memory":
            return {"server": memory}
        case "broken":
            return {"command": "no-such-program"}
        case _:
            process = {"command": sys.executable, "args": [str(SERVERS / "plain.py")], "era": "legacy"}
            return process | {"lazy": kind == "lazy"}


def descriptors() -> int:
    gc.collect()
    return len(os.listdir("/proc/self/fd"))


class AnyOrder(RuleBasedStateMachine):
    """A bus, and what should be true of it."""

    def __init__(self) -> None:
        super().__init__()
        self.children = children()
        self.runner = asyncio.Runner()
        self.runner.get_loop()
        self.descriptors = descriptors()
        self.kinds: dict[str, str] = {}
        self.started = self.stopped = False

    @initialize(kinds=CONFIGS, starts=st.booleans())
    def make(self, kinds: dict[str, str], starts: bool) -> None:
        self.kinds, self.started, self.stopped = dict(kinds), False, False
        self.bus = Toolbus(self._config(kinds))
        if starts:
            self.start()

    @precondition(lambda self: self.stopped)
    @rule(kinds=CONFIGS)
    def make_another(self, kinds: dict[str, str]) -> None:
        self.make(kinds, True)

    def _config(self, kinds: dict[str, str]) -> dict[str, Any]:
        return {"servers": {alias: entry(kind) for alias, kind in kinds.items()}}

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        return self.runner.run(asyncio.wait_for(work, PATIENCE))

    @property
    def running(self) -> bool:
        return self.started and not self.stopped

    # Steps

    @rule()
    def start(self) -> None:
        if self.stopped:
            with pytest.raises(BusClosed):
                self.run(self.bus.start())
        else:
            self.run(self.bus.start())
            self.started = True

    @precondition(lambda self: self.started)
    @rule()
    def stop(self) -> None:
        self.run(self.bus.stop())
        self.stopped = True

    @rule(alias=st.sampled_from(ALIASES), kind=KINDS)
    def add(self, alias: str, kind: str) -> None:
        if not self.running:
            with pytest.raises(BusClosed):
                self.run(self.bus.add_server("new", entry(kind)))
        elif alias not in self.kinds:
            self.run(self.bus.add_server(alias, entry(kind)))
            self.kinds[alias] = kind

    @precondition(lambda self: self.running)
    @rule(alias=st.sampled_from(ALIASES))
    def remove(self, alias: str) -> None:
        if alias in self.kinds:
            self.run(self.bus.remove_server(alias))
            del self.kinds[alias]

    @precondition(lambda self: self.running)
    @rule(kinds=CONFIGS)
    def reload(self, kinds: dict[str, str]) -> None:
        self.run(self.bus.reload(self._config(kinds)))
        self.kinds = dict(kinds)

    @precondition(lambda self: self.running)
    @rule()
    def health(self) -> None:
        states = {alias: status.state for alias, status in self.bus.servers.items()}
        healths = self.run(self.bus.health())
        assert {alias: health.ok for alias, health in healths.items()} == {
            alias: state in ("ready", "idle") for alias, state in states.items()
        }

    @rule(alias=st.sampled_from(ALIASES))
    def call(self, alias: str) -> None:
        if not self.running:
            with pytest.raises(BusClosed):
                self.run(self.bus.call(f"{alias}_echo"))
        elif self.kinds.get(alias, "broken") == "broken":
            with pytest.raises(ToolNotFound):
                self.run(self.bus.call(f"{alias}/echo"))
        else:
            assert self.run(self.bus.call(f"{alias}/echo", {"text": "x"})).text == "x"

    @precondition(lambda self: self.running)
    @rule(calls=st.booleans())
    def kill(self, calls: bool) -> None:
        self.run(self._killed(calls))

    async def _killed(self, calls: bool) -> None:
        before = {alias: status.restarts for alias, status in self.bus.servers.items()}
        hit = [alias for alias in self._processes() if self.bus.servers[alias].state == "ready"]
        for pid in children() - self.children:
            os.kill(pid, signal.SIGKILL)
        if calls:
            # Under way when its server dies, a call has its result or an unknown outcome; the next one works.
            for alias in hit:
                with suppress(ConnectionLost):
                    await self.bus.call(f"{alias}/echo", {"text": "x"})
                assert (await self.bus.call(f"{alias}/echo", {"text": "y"})).text == "y"
        await until(lambda: all(self.bus.servers[a].restarts > before[a] for a in hit))

    @precondition(lambda self: self.running)
    @rule(alias=st.sampled_from(ALIASES), kind=KINDS)
    def health_while_one_is_added(self, alias: str, kind: str) -> None:
        async def both() -> None:
            await asyncio.gather(
                self.bus.health(), self.bus.add_server(alias, entry(kind)), self.bus.health()
            )

        if alias not in self.kinds:
            self.run(both())
            self.kinds[alias] = kind

    @precondition(lambda self: self.running)
    @rule(alias=st.sampled_from(ALIASES))
    def health_while_one_is_removed(self, alias: str) -> None:
        async def both() -> None:
            await asyncio.gather(self.bus.health(), self.bus.remove_server(alias), self.bus.health())

        if alias in self.kinds:
            self.run(both())
            del self.kinds[alias]

    @precondition(lambda self: self.running)
    @rule(kinds=CONFIGS)
    def stop_while_it_is_reloaded(self, kinds: dict[str, str]) -> None:
        async def both() -> None:
            reloading = asyncio.create_task(self.bus.reload(self._config(kinds)))
            await asyncio.sleep(0)
            await self.bus.stop()
            with suppress(BusClosed):
                await reloading
                self.kinds = dict(kinds)

        self.run(both())
        self.stopped = True

    # What is true after each

    def _processes(self) -> list[str]:
        return [alias for alias, kind in self.kinds.items() if kind in ("process", "lazy")]

    @invariant()
    def the_states_are_true(self) -> None:
        if not hasattr(self, "bus"):
            return
        states = {alias: status.state for alias, status in self.bus.servers.items()}
        if self.stopped:
            assert set(states.values()) <= {"closed"}
            self.runner.run(until(lambda: children() == self.children))
            assert self.runner.run(_tasks()) == set()
            return
        assert set(states) == set(self.kinds)
        if not self.started:
            assert set(states.values()) <= {"idle"}
            return
        assert all(states[alias] in UP[kind] for alias, kind in self.kinds.items()), states
        up = [alias for alias in self._processes() if states[alias] == "ready"]
        self.runner.run(until(lambda: len(children() - self.children) == len(up)))

    def teardown(self) -> None:
        if hasattr(self, "bus"):
            self.run(self.bus.stop())
            self.stopped = True
            if self.started:
                self.the_states_are_true()
        left = descriptors() - self.descriptors
        self.runner.close()
        assert left <= 0, f"{left} descriptors left"


async def _tasks() -> set[asyncio.Task[Any]]:
    """The tasks that are left."""
    return {task for task in asyncio.all_tasks() if task is not asyncio.current_task()}


def test_in_any_order(request: pytest.FixtureRequest) -> None:
    many = request.config.getoption("--full")
    AnyOrder.TestCase.settings = settings(
        max_examples=300 if many else 15,
        stateful_step_count=20,
        deadline=None,
        derandomize=True,
        phases=[Phase.generate],  # making a failure smaller takes minutes
        suppress_health_check=[HealthCheck.too_slow],
    )
    AnyOrder.TestCase().runTest()
