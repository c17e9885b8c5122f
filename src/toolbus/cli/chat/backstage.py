"""The servers and the agent on a loop in a thread of their own, so that the terminal keeps the main one.

Ctrl-C and readline belong to the main thread, and whoever thinks about an answer must not make the servers
wait: they are heard, and kept up, all the time. What is open when the block ends is closed in order, within
the bounds that the bus sets.
"""

import asyncio
import signal
from collections.abc import Callable, Coroutine, Generator, Iterator
from concurrent.futures import Future, InvalidStateError, wait
from contextlib import AbstractAsyncContextManager, contextmanager, suppress
from queue import Empty, SimpleQueue
from threading import Thread
from types import FrameType
from typing import Any, TypeVar

from toolbus.adapters.approval import Decision
from toolbus.agent import Agent, ApprovalAsked, RunEvent, RunResult
from toolbus.core.elicitation import Answer, Elicitation

T = TypeVar("T")
HEARING = 0.5
"""Seconds between two looks for a signal, where a wait is not ended by one (Windows)."""
ENDING = ("SIGTERM", "SIGHUP")


@contextmanager
def backstage() -> Generator["Backstage"]:
    """A loop until the block ends; Ctrl-C, SIGTERM and a closed terminal end the block."""

    def end(number: int, frame: FrameType | None) -> None:
        raise SystemExit(128 + number)

    numbers = [getattr(signal, name) for name in ENDING if hasattr(signal, name)]
    before = {number: signal.signal(number, end) for number in numbers}
    stage = Backstage()
    try:
        yield stage
    finally:
        # From here on everything is bounded, and an impatient second Ctrl-C would leave processes behind.
        ignored = {number: signal.signal(number, signal.SIG_IGN) for number in (signal.SIGINT, *numbers)}
        stage.close()
        for number, handler in {**ignored, **before}.items():
            signal.signal(number, handler)


class Backstage:
    """The loop, and how the main thread has things done there."""

    def __init__(self) -> None:
        loop: Future[asyncio.AbstractEventLoop] = Future()
        self._halt = asyncio.Event()
        self._forever = asyncio.Event()  # kept here: a task that waits for what nobody knows is garbage
        self._holding: list[asyncio.Task[None]] = []
        self._turn: Turn | None = None
        self._thread = Thread(target=lambda: asyncio.run(self._live(loop)), name="toolbus", daemon=True)
        self._thread.start()
        self._loop = loop.result()

    async def _live(self, loop: "Future[asyncio.AbstractEventLoop]") -> None:
        loop.set_result(asyncio.get_running_loop())
        await self._halt.wait()
        # One after another, and before asyncio.run cancels all there is: a bus stops its own tasks in order.
        for task in reversed(self._holding):
            task.cancel()
            await asyncio.wait([task])

    def close(self) -> None:
        """Leave what is held, the last first, and end the loop."""
        self._loop.call_soon_threadsafe(self._halt.set)
        self._thread.join()

    def held(self, manager: AbstractAsyncContextManager[T]) -> T:
        """Enter it; it is left, by the task that entered, when the loop ends."""
        entered: Future[T] = Future()

        async def hold() -> None:
            if (task := asyncio.current_task()) is not None:
                self._holding.append(task)
            try:
                async with manager as value:
                    entered.set_result(value)
                    await self._forever.wait()
            except Exception as error:  # the edge of a task: whoever waits is told
                if entered.done():
                    raise
                entered.set_exception(error)

        self.soon(hold())
        return _waited(entered)

    def wait(self, work: Coroutine[Any, Any, T]) -> T:
        """Have work done, and wait for what comes of it."""
        return _waited(self.soon(work))

    def turn(self, agent: Agent, prompt: str | None) -> "Turn":
        """Say something to the agent, or have it go on from what it was given."""
        return Turn(self, agent, prompt)

    def attend(self, turn: "Turn") -> None:
        """Let this turn have the questions of the servers."""
        self._turn = turn

    async def elicit(self, question: Elicitation) -> Answer:
        """Have the main thread put a server's question to the person; between two turns nobody is asked."""
        return question.cancel() if self._turn is None else await self._turn.put(question)

    def soon(self, work: Coroutine[Any, Any, T]) -> "Future[T]":
        """Have work begun."""
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def tell(self, what: Callable[[], None]) -> None:
        """Have something done there that takes no time."""
        self._loop.call_soon_threadsafe(what)


class Asked:
    """A question of a server on its way to the main thread, and the answer on its way back."""

    def __init__(self, question: Elicitation) -> None:
        self.question = question
        self.answer: Future[Answer] = Future()

    def settle(self, answer: Answer) -> None:
        """Say it, unless nobody waits any more; from any thread."""
        with suppress(InvalidStateError):
            self.answer.set_result(answer)


class Turn:
    """One run of an agent, followed from the main thread."""

    def __init__(self, stage: Backstage, agent: Agent, prompt: str | None) -> None:
        self._stage = stage
        self._events: SimpleQueue[RunEvent | Asked | None] = SimpleQueue()
        self._open: set[Asked] = set()
        self._is_over = False
        self._interrupted = False
        stage.attend(self)
        self._work = stage.soon(self._heard(agent, prompt))
        self._work.add_done_callback(lambda _: self._end())

    def _end(self) -> None:
        self._is_over = True
        self._events.put(None)
        self._stage.tell(self._leave_open)

    def _leave_open(self) -> None:
        for asked in self._open:
            asked.settle(asked.question.cancel())

    async def put(self, question: Elicitation) -> Answer:
        """Have a question asked in the course of the turn; no answer once it is over."""
        if self._is_over:
            return question.cancel()
        asked = Asked(question)
        self._open.add(asked)
        self._events.put(asked)
        try:
            return await asyncio.wrap_future(asked.answer)
        finally:
            self._open.discard(asked)

    async def _heard(self, agent: Agent, prompt: str | None) -> RunResult[str]:
        run = agent.send(prompt)
        async for event in run:
            self._events.put(event)
        assert run.result is not None, "a run that raised nothing has a result"
        return run.result

    @contextmanager
    def interrupts_waiting(self) -> Generator[None]:
        """Ctrl-C ends the wait for what happens next, and nothing else: a line that moves, half begun, would
        move for ever."""

        def interrupt(number: int, frame: FrameType | None) -> None:
            self._interrupted = True
            self._events.put(None)

        with _handling(signal.SIGINT, interrupt):
            yield

    @contextmanager
    def interrupts_all(self) -> Generator[None]:
        """Ctrl-C as everywhere else, for a person who is asked."""
        with _handling(signal.SIGINT, signal.default_int_handler):
            yield

    def __iter__(self) -> Iterator[RunEvent | Asked]:
        """What happens, and what is to be asked, until the run ends, well or not."""
        while True:
            if self._interrupted:
                raise KeyboardInterrupt
            try:
                event = self._events.get(timeout=HEARING)
            except Empty:
                continue
            if event is not None:
                yield event
            elif not self._interrupted:
                return

    @property
    def result(self) -> RunResult[str]:
        """What came out; raises what ended the run."""
        return _waited(self._work)

    def settle(self, asked: ApprovalAsked, decision: Decision) -> None:
        """Allow a call (True), or deny it, with the reason for the model."""
        self._stage.tell(asked.approve if decision is True else lambda: asked.deny(decision or ""))

    def stop(self) -> None:
        """End it; calls under way are cancelled on their servers."""
        self._work.cancel()


@contextmanager
def _handling(number: int, handler: Callable[[int, FrameType | None], None]) -> Generator[None]:
    before = signal.signal(number, handler)
    try:
        yield
    finally:
        signal.signal(number, before)


def _waited(future: "Future[T]") -> T:
    while not future.done():
        wait([future], HEARING)
    return future.result()
