"""The background bus as its clients use it: each borrows it for the time of one command."""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Coroutine, Iterator, Mapping
from concurrent.futures import Future
from contextlib import ExitStack, asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

from toolbus.cli.listing_cache import CachedListing
from toolbus.cli.options import SharedOptions
from toolbus.cli.output.screen import Screen
from toolbus.config import BusConfig
from toolbus.core.ask.approval import ApprovalAnswer, ApprovalRequest
from toolbus.core.ask.interactions import Interactions, QuestionRouting
from toolbus.core.ask.question_router import QuestionRouter
from toolbus.core.operation.events import Event, StateChanged, Warned
from toolbus.core.values.elicitation import Answer, Elicitation
from toolbus.core.values.errors import ToolbusError
from toolbus.gateway.serve.follow import ConfigFollower

if TYPE_CHECKING:
    from toolbus.bus.toolbus import Toolbus
    from toolbus.state.tokens.tokens import TokenSource

T = TypeVar("T")
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
        """The folder in which `up` was run; servers that name no folder run there."""
        self.board = QuestionRouter()
        self.started: Future[Toolbus] = Future()
        """The bus, once its servers have started."""
        self.started.set_running_or_notify_cancel()  # no command that is cancelled cancels it
        self._loop = loop
        self._startups: dict[str, deque[Event]] = {}

    @property
    def interactions(self) -> Interactions:
        """The handlers of the bus: they ask the client whose call it is."""
        asking = Interactions(declares_elicitation=True, _routing=QuestionRouting(approver="terminal"))
        return replace(self.board.interactions(asking), sample=None)

    def keep(self, event: Event) -> None:
        """Keep what happens to a server from its start on, in the loop of the bus."""
        if isinstance(event, StateChanged) and event.state == "connecting":
            self._startups[event.server] = deque(maxlen=MAX_KEPT)
        if isinstance(event, StateChanged | Warned):
            self._startups.setdefault(event.server, deque(maxlen=MAX_KEPT)).append(event)

    def startups(self, servers: Collection[str]) -> Iterator[Event]:
        """The events of these servers since they were started."""
        for alias in servers:
            yield from tuple(self._startups.get(alias, ()))

    def tell(self, work: Callable[[], None]) -> None:
        """Do some work in the loop of the bus."""
        self._loop.call_soon_threadsafe(work)


class LentBus:
    """A `BusSource`: the background bus, for one command in an event loop of its own."""

    def __init__(self, shared: SharedBus, session: str) -> None:
        self.shared = shared
        self.session = session

    def config(self, settings: SharedOptions) -> BusConfig:
        return self.shared.follower.config

    def tokens(self, config: BusConfig) -> "TokenSource":
        return self.shared.tokens

    def listings(self, config: BusConfig) -> Mapping[str, CachedListing]:
        """Nothing: what the bus lists need not be looked up."""
        return {}

    def startups(self, servers: Collection[str]) -> Iterator[Event]:
        return self.shared.startups(servers)

    @asynccontextmanager
    async def opened(
        self,
        screen: Screen,
        config: BusConfig,
        servers: Collection[str],
        on_event: Callable[[Event], None] | None,
        interactions: Interactions,
        wait: float,
        tokens: "TokenSource | None",
    ) -> "AsyncGenerator[Toolbus]":
        """The bus, which stays open; starts the given servers that are down."""
        loop, shared = asyncio.get_running_loop(), self.shared
        if not shared.started.done():
            with screen.spinner("starting " + ", ".join(servers)):
                await asyncio.wrap_future(shared.started)
        bus = shared.started.result()
        stack = ExitStack()

        def enter() -> None:
            stack.enter_context(shared.board.session(self.session, _hopping(interactions, loop)))
            if on_event is not None:
                stack.callback(bus.on_event(_hopping_event(on_event, loop)))

        shared.tell(enter)
        try:
            states = bus.servers.items()
            down = [alias for alias, status in states if alias in servers and status.state != "ready"]
            if down:
                with screen.spinner("starting " + ", ".join(down)):
                    await self.start_others(bus, config, down)
                    if wait > 0:
                        await bus.wait_ready(down, timeout=wait)
            yield bus
        finally:
            shared.tell(stack.close)

    async def start_others(self, bus: "Toolbus", config: BusConfig, servers: Collection[str]) -> None:
        """Try to connect these servers; a failure shows in the server's state."""

        async def connect(alias: str) -> None:
            with suppress(ToolbusError):
                await bus.connect(alias)

        await asyncio.gather(*map(connect, servers))


def _hopping(interactions: Interactions, loop: asyncio.AbstractEventLoop) -> Interactions:
    """The handlers, run in the loop of the command: the bus's own loop must not wait for a terminal."""

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
