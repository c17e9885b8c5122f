"""What the pages of a console read and change; nothing about HTML or HTTP."""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping, Set
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from toolbus.bus.toolbus import Toolbus
from toolbus.config.settings.serve import Serve
from toolbus.console.state.calls import CallLog
from toolbus.console.state.costs import Costs
from toolbus.console.state.held import HeldParts
from toolbus.console.state.presence import Presence
from toolbus.console.state.runs import ConsoleRuns
from toolbus.console.state.sign_ins import SignIns
from toolbus.console.state.trail_check import TrailCheck
from toolbus.console.state.trials import Trials
from toolbus.core.ask.question_router import Switchboard
from toolbus.core.operation.events import CatalogChanged, Event, LoginNeeded, StateChanged, ToolHeld
from toolbus.core.values.errors import ToolbusError
from toolbus.gateway.access.shared_keys import SharedKeys
from toolbus.gateway.access.stored_keys import StoredKeys

logger = logging.getLogger("toolbus")

Topic: TypeAlias = Literal["servers", "catalog", "calls", "held", "questions", "audit", "keys", "trials"]
"""What may change on a page."""
APPROVED_WITHIN = 2.0
"""Seconds for the bus to use what was approved, before the page is shown again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsoleKeys:
    """The keys of a gateway, and the views that they may give."""

    stored: StoredKeys | SharedKeys
    serve: Serve


class Console:
    """One bus, as its pages see it; used from the bus's loop alone. It is closed before the bus stops."""

    def __init__(self, bus: Toolbus, board: Switchboard | None = None) -> None:
        """`board` has the questions that wait for a person; its interactions must be those of the bus."""
        self.bus = bus
        self.board = board or Switchboard()
        self.held = HeldParts(bus)
        self.keys: ConsoleKeys | None = None
        """None if keys do not let clients in."""
        self.runs: ConsoleRuns | None = None
        """The durable runs of agents, if there is a store of them."""
        self.sign_ins = SignIns(bus, lambda: self.changed("servers"))
        self.calls = CallLog()
        self.trail_check = TrailCheck(lambda: self.changed("audit"))
        self.presence = Presence(self.board)
        self.trials = Trials(bus, self.begin, lambda: self.changed("trials"))
        self.costs = Costs()
        self.drafts: dict[int, Mapping[str, list[str]]] = {}
        """The answers to questions that were invalid, by number: people do not type them twice."""
        self._watchers: list[tuple[Set[Topic], Callable[[], None]]] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._endings = [
            bus.on_event(self._on_event, calls=False),
            bus.observe(self.calls),
            self.board.watch(lambda: self.changed("questions")),
        ]

    def changed(self, *topics: Topic) -> None:
        """Have the pages that show one of these rendered again."""
        for watched, wake in tuple(self._watchers):
            if not watched.isdisjoint(topics):
                wake()

    def watch(self, topics: Set[Topic], wake: Callable[[], None]) -> Callable[[], None]:
        """Call `wake` when one of the topics changes; returns a function that ends it."""
        watcher = topics, wake
        self._watchers.append(watcher)
        return lambda: self._watchers.remove(watcher)

    def begin(self, work: Coroutine[Any, Any, Any], what: str) -> asyncio.Task[None]:
        """Let something go on after its action; its error is logged, the state of the bus shows the rest."""
        task = asyncio.create_task(_logged(work, what), name=f"toolbus console: {what}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def use_approved(self) -> None:
        """Have the bus use what was approved; a server that may be started now is not waited for."""
        task = self.begin(self._reload_lock(), "use the lockfile")
        await asyncio.wait((task,), timeout=APPROVED_WITHIN)

    async def _reload_lock(self) -> None:
        await self.bus.reload_lock()
        self.changed("held", "servers", "catalog")

    async def close(self) -> None:
        """End what it has begun."""
        for end in self._endings:
            end()
        self._endings.clear()
        self.presence.close()
        await self.sign_ins.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _on_event(self, event: Event) -> None:
        match event:
            case StateChanged() | LoginNeeded():
                self.changed("servers")
            case CatalogChanged():
                self.changed("servers", "catalog", "held")
            case ToolHeld():
                self.changed("held")
            case _:
                pass


async def _logged(work: Coroutine[Any, Any, Any], what: str) -> None:
    try:
        await work
    except ToolbusError as error:
        logger.info("%s: %s", what, error)
    except Exception:  # a task's edge
        logger.exception("could not %s", what)
