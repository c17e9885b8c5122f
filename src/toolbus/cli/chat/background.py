"""An event loop in a background thread for the servers and the agent; the terminal keeps the main thread.

Ctrl-C and readline need the main thread, and servers must be served while the user thinks. Open context
managers are closed in reverse order at the end, within the bus's timeouts.
"""

import asyncio
import signal
from collections.abc import Callable, Coroutine, Generator, Iterator
from concurrent.futures import Future, InvalidStateError, wait
from contextlib import AbstractAsyncContextManager, contextmanager, suppress
from contextvars import copy_context
from functools import partial
from queue import Empty, SimpleQueue
from threading import Thread
from types import FrameType
from typing import Any, Generic, TypeVar

from toolbus.agent import Agent, ApprovalAsked, RunEvent, RunResult
from toolbus.cli.terminal import client_terminal
from toolbus.core.ask.approval import ApprovalAnswer, ApprovalRequest
from toolbus.core.values.elicitation import Answer, Elicitation

T = TypeVar("T")
Q = TypeVar("Q")
A = TypeVar("A")
BETWEEN_TURNS = "nobody can be asked between the turns of a chat"
POLL_SECONDS = 0.5
"""How often to check for signals, which do not interrupt a wait on Windows."""
END_SIGNALS = ("SIGTERM", "SIGHUP")


@contextmanager
def background_loop() -> Generator["BackgroundLoop"]:
    """Run a loop until the block ends; Ctrl-C, SIGTERM and SIGHUP end the block."""

    client = client_terminal()
    if client is not None:
        loop = BackgroundLoop()
        try:
            yield loop
        finally:
            loop.close()
        return

    def end(number: int, frame: FrameType | None) -> None:
        raise SystemExit(128 + number)

    numbers = [getattr(signal, name) for name in END_SIGNALS if hasattr(signal, name)]
    before = {number: signal.signal(number, end) for number in numbers}
    loop = BackgroundLoop()
    try:
        yield loop
    finally:
        # Closing has time limits; a second Ctrl-C would leave processes behind.
        ignored = {number: signal.signal(number, signal.SIG_IGN) for number in (signal.SIGINT, *numbers)}
        loop.close()
        for number, handler in {**ignored, **before}.items():
            signal.signal(number, handler)


class BackgroundLoop:
    """The loop, and how the main thread runs code in it."""

    def __init__(self) -> None:
        loop: Future[asyncio.AbstractEventLoop] = Future()
        self._halt = asyncio.Event()
        self._forever = asyncio.Event()  # referenced here, or the waiting tasks would be garbage-collected
        self._tasks: list[asyncio.Task[None]] = []
        self._turn: Turn | None = None
        # In our context, so that it knows whose terminal it is.
        run = partial(copy_context().run, lambda: asyncio.run(self._run_loop(loop)))
        self._thread = Thread(target=run, name="toolbus", daemon=True)
        self._thread.start()
        self._loop = loop.result()

    async def _run_loop(self, loop: "Future[asyncio.AbstractEventLoop]") -> None:
        loop.set_result(asyncio.get_running_loop())
        await self._halt.wait()
        # One by one, before asyncio.run cancels everything: a bus must stop its own tasks in order.
        for task in reversed(self._tasks):
            task.cancel()
            await asyncio.wait([task])

    def close(self) -> None:
        """Close what was entered, last first, and end the loop."""
        self._loop.call_soon_threadsafe(self._halt.set)
        self._thread.join()

    def enter(self, manager: AbstractAsyncContextManager[T]) -> T:
        """Enter a context manager; the same task exits it when the loop ends."""
        entered: Future[T] = Future()

        async def enter_and_wait() -> None:
            if (task := asyncio.current_task()) is not None:
                self._tasks.append(task)
            try:
                async with manager as value:
                    entered.set_result(value)
                    await self._forever.wait()
            except Exception as error:  # top of a task: pass it to the waiting thread
                if entered.done():
                    raise
                entered.set_exception(error)

        self.submit(enter_and_wait())
        return _result_of(entered)

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine and return its result."""
        return _result_of(self.submit(work))

    def set_turn(self, turn: "Turn") -> None:
        """Send questions to this turn."""
        self._turn = turn

    async def elicit(self, question: Elicitation) -> Answer:
        """Have the main thread ask the user; cancels the question between turns."""
        asked = PendingQuestion(question, question.cancel())
        return asked.unanswered if self._turn is None else await self._turn.ask(asked)

    async def approve(self, request: ApprovalRequest) -> ApprovalAnswer:
        """Have the main thread ask the user about a call; denies it between turns."""
        asked = PendingApproval(request, BETWEEN_TURNS)
        return asked.unanswered if self._turn is None else await self._turn.ask(asked)

    def submit(self, work: Coroutine[Any, Any, T]) -> "Future[T]":
        """Start a coroutine."""
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def call_soon(self, what: Callable[[], None]) -> None:
        """Call a function in the loop."""
        self._loop.call_soon_threadsafe(what)


class Asked(Generic[Q, A]):
    """A question for the main thread, and its answer."""

    def __init__(self, question: Q, unanswered: A) -> None:
        self.question = question
        self.unanswered = unanswered
        """The answer if nobody is asked."""
        self.answer: Future[A] = Future()

    def settle(self, answer: A) -> None:
        """Set the answer, if it is still open; from any thread."""
        with suppress(InvalidStateError):
            self.answer.set_result(answer)


class PendingQuestion(Asked[Elicitation, Answer]):
    """A server's question."""


class PendingApproval(Asked[ApprovalRequest, ApprovalAnswer]):
    """A call that the policy asks about, other than those that the agent asks about itself."""


class Turn:
    """One run of an agent, observed from the main thread; without a prompt, the agent continues."""

    def __init__(
        self,
        loop: BackgroundLoop,
        agent: Agent,
        prompt: str | None,
        prepare: Coroutine[Any, Any, None] | None = None,
    ) -> None:
        """`prepare` runs before it, and may ask, too."""
        self._loop = loop
        self._events: SimpleQueue[RunEvent | Asked[Any, Any] | None] = SimpleQueue()
        self._questions: set[Asked[Any, Any]] = set()
        self._is_over = False
        self._interrupted = False
        loop.set_turn(self)
        self._work = loop.submit(self._collect(agent, prompt, prepare))
        self._work.add_done_callback(lambda _: self._end())

    def _end(self) -> None:
        self._is_over = True
        self._events.put(None)
        self._loop.call_soon(self._cancel_questions)

    def _cancel_questions(self) -> None:
        for asked in self._questions:
            asked.settle(asked.unanswered)

    async def ask(self, asked: Asked[Q, A]) -> A:
        """Ask the user during the turn; once it is over, the question stays unanswered."""
        if self._is_over:
            return asked.unanswered
        self._questions.add(asked)
        self._events.put(asked)
        try:
            return await asyncio.wrap_future(asked.answer)
        finally:
            self._questions.discard(asked)

    async def _collect(
        self, agent: Agent, prompt: str | None, prepare: Coroutine[Any, Any, None] | None
    ) -> RunResult[str]:
        if prepare is not None:
            await prepare
        run = agent.send(prompt)
        async for event in run:
            self._events.put(event)
        assert run.result is not None, "a run that raised nothing has a result"
        return run.result

    @contextmanager
    def ctrl_c_ends_waiting(self) -> Generator[None]:
        """Make Ctrl-C end only the wait for the next event; a spinner interrupted at its start hangs."""

        def interrupt(number: int, frame: FrameType | None) -> None:
            self._interrupted = True
            self._events.put(None)

        with _signal_handler(signal.SIGINT, interrupt):
            yield

    @contextmanager
    def ctrl_c_raises(self) -> Generator[None]:
        """Make Ctrl-C raise KeyboardInterrupt, while the user is asked."""
        with _signal_handler(signal.SIGINT, signal.default_int_handler):
            yield

    def __iter__(self) -> Iterator[RunEvent | Asked[Any, Any]]:
        """Events and questions until the run ends."""
        while True:
            if self._interrupted:
                raise KeyboardInterrupt
            try:
                event = self._events.get(timeout=POLL_SECONDS)
            except Empty:
                _check_signals()
                continue
            if event is not None:
                yield event
            elif not self._interrupted:
                return

    @property
    def result(self) -> RunResult[str]:
        """The result; raises the run's error."""
        return _result_of(self._work)

    def settle(self, asked: ApprovalAsked, decision: ApprovalAnswer) -> None:
        """Answer a question about a call, and those that a lasting answer settles with it."""

        async def settle() -> None:
            asked.settle(decision)
            await asyncio.sleep(0)  # the run settles the others

        self._loop.run(settle())

    def stop(self) -> None:
        """Stop the run; pending calls are cancelled on their servers."""
        self._work.cancel()


@contextmanager
def _signal_handler(number: int, handler: Callable[[int, FrameType | None], None]) -> Generator[None]:
    client = client_terminal()
    if client is not None:
        raises = handler is signal.default_int_handler
        with client.handling(number, None if raises else partial(handler, number, None)):
            yield
        return
    before = signal.signal(number, handler)
    try:
        yield
    finally:
        signal.signal(number, before)


def _result_of(future: "Future[T]") -> T:
    while not future.done():
        wait([future], POLL_SECONDS)
        _check_signals()
    return future.result()


def _check_signals() -> None:
    """Raise for a signal of a client: there is no other way to interrupt this thread."""
    if (client := client_terminal()) is not None:
        client.check_signals()
