"""The background bus as its clients use it: each borrows it for the time of one command."""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Coroutine, Iterable, Iterator
from concurrent.futures import Future
from contextlib import AbstractContextManager, ExitStack, asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, cast

from toolbus.core.ask.approval import ApprovalAnswer, ApprovalRequest
from toolbus.core.ask.interactions import Interactions
from toolbus.core.ask.question_router import QuestionRouter
from toolbus.core.operation.events import Event, StateChanged, Warned
from toolbus.core.values.elicitation import Answer, Elicitation
from toolbus.core.values.errors import ToolbusError
from toolbus.gateway.serve.follow import ConfigFollower

if TYPE_CHECKING:
    from toolbus.bus.toolbus import Toolbus
    from toolbus.state.tokens.tokens import TokenSource

T = TypeVar("T")
Spinner: TypeAlias = Callable[[str], AbstractContextManager[object]]
"""Shows a text while something is waited for."""
MAX_KEPT = 100
"""Events of a server that are kept from its last start."""


class SharedBus:
    """A bus, whom its calls ask, and what commands have to know of it."""

    def __init__(
        self, follower: ConfigFollower, tokens: "TokenSource", loop: asyncio.AbstractEventLoop
    ) -> None:
        self.follower = follower
        """The config in use, as the user wrote it."""
        self.tokens = tokens
        self.folder = Path.cwd()
        """Where `up` was run, and with it the servers that name no folder."""
        self.board = QuestionRouter()
        self.started: Future[Toolbus] = Future()
        """The bus, once its servers have started."""
        self.started.set_running_or_notify_cancel()  # no command that is cancelled cancels it
        self._loop = loop
        self._startups: dict[str, deque[Event]] = {}

    @property
    def interactions(self) -> Interactions:
        """The handlers of the bus: they ask the client whose call it is."""
        asking = Interactions(declares_elicitation=True, approver="terminal")
        return replace(self.board.interactions(asking), sample=None)

    def keep(self, event: Event) -> None:
        """Keep what happens to a server from its start on, in the loop of the bus."""
        if isinstance(event, StateChanged) and event.state == "connecting":
            self._startups[event.server] = deque(maxlen=MAX_KEPT)
        if isinstance(event, StateChanged | Warned):
            self._startups.setdefault(event.server, deque(maxlen=MAX_KEPT)).append(event)

    def startups(self, servers: Collection[str]) -> Iterator[Event]:
        """What happened to these servers since they were started."""
        for alias in servers:
            yield from tuple(self._startups.get(alias, ()))

    async def connect(self, servers: Iterable[str]) -> None:
        """Try to connect these servers; what fails shows in their states."""
        bus = self.started.result()

        async def connect(alias: str) -> None:
            with suppress(ToolbusError):
                await bus.connect(alias)

        await asyncio.gather(*map(connect, servers))

    @asynccontextmanager
    async def lent(
        self,
        session: str,
        spinner: Spinner,
        servers: Collection[str],
        on_event: Callable[[Event], None] | None,
        interactions: Interactions,
        wait: float,
    ) -> "AsyncGenerator[Toolbus]":
        """The bus, for a command in an event loop of its own; starts those of the servers that are down."""
        loop = asyncio.get_running_loop()
        if not self.started.done():
            with spinner("starting " + ", ".join(servers)):
                await asyncio.wrap_future(self.started)
        bus = self.started.result()
        stack = ExitStack()

        def enter() -> None:
            stack.enter_context(self.board.session(session, _hopping(interactions, loop)))
            if on_event is not None:
                stack.callback(bus.on_event(_hopping_event(on_event, loop)))

        self._loop.call_soon_threadsafe(enter)
        try:
            down = [
                alias for alias, status in bus.servers.items() if alias in servers and status.state != "ready"
            ]
            if down:
                with spinner("starting " + ", ".join(down)):
                    await self.connect(down)
                    if wait > 0:
                        await bus.wait_ready(down, timeout=wait)
            yield bus
        finally:
            self._loop.call_soon_threadsafe(stack.close)


def _hopping(interactions: Interactions, loop: asyncio.AbstractEventLoop) -> Interactions:
    """The handlers, run in the loop of the command: that of the bus must not wait for a terminal."""

    async def elicit(question: Elicitation) -> Answer:
        assert interactions.elicit is not None
        return await _in_loop(loop, cast("Awaitable[Answer]", interactions.elicit(question)))

    async def approve(request: ApprovalRequest) -> ApprovalAnswer:
        assert interactions.approve is not None
        return await _in_loop(loop, cast("Awaitable[ApprovalAnswer]", interactions.approve(request)))

    return replace(
        interactions,
        elicit=elicit if interactions.elicit else None,
        approve=approve if interactions.approve else None,
    )


async def _in_loop(loop: asyncio.AbstractEventLoop, work: Awaitable[T]) -> T:
    done = asyncio.run_coroutine_threadsafe(cast("Coroutine[Any, Any, T]", work), loop)
    return await asyncio.wrap_future(done)


def _hopping_event(
    on_event: Callable[[Event], None], loop: asyncio.AbstractEventLoop
) -> Callable[[Event], None]:
    def hop(event: Event) -> None:
        with suppress(RuntimeError):  # the command is over
            loop.call_soon_threadsafe(on_event, event)

    return hop
