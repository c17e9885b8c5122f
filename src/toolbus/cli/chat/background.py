"""An event loop in a background thread for the servers and the agent; the terminal keeps the main thread.

Ctrl-C and readline need the main thread, and servers must be served while the user thinks. Open context
managers are closed in reverse order at the end, within the bus's timeouts.
"""

import asyncio
import signal
from collections.abc import Callable, Coroutine, Generator, Iterator
from concurrent.futures import Future, InvalidStateError, wait
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    ExitStack,
    contextmanager,
    suppress,
)
from contextvars import copy_context
from functools import partial
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any, Generic, TypeVar

from toolbus.agent import Agent, ApprovalAsked, RunEvent, RunResult
from toolbus.cli.terminal import TERMINAL, OwnTerminal
from toolbus.core.ask.approval import ApprovalAnswer, ApprovalRequest
from toolbus.core.values.elicitation import Answer, Elicitation

T = TypeVar("T")
Q = TypeVar("Q")
A = TypeVar("A")
BETWEEN_TURNS = "nobody can be asked between the turns of a chat"
POLL_SECONDS = 0.5
"""The time between checks for signals, which do not interrupt a wait on Windows."""
END_SIGNALS = OwnTerminal.ending


@contextmanager
def background_loop() -> Generator["BackgroundLoop"]:
    """Run a loop until the block ends; Ctrl-C, SIGTERM and SIGHUP end the block."""
    terminal = TERMINAL.get()
    with ExitStack() as stack:
        for number in END_SIGNALS:
            stack.enter_context(terminal.handling(number, None))
        loop = BackgroundLoop()
        try:
            yield loop
        finally:
            # Closing has time limits; a second Ctrl-C would leave processes behind.
            for number in (signal.SIGINT, *END_SIGNALS):
                stack.enter_context(terminal.handling(number, lambda: None))
            loop.close()


class BackgroundLoop:
    """The loop, and how the main thread runs code in it."""

    def __init__(self) -> None:
        loop: Future[asyncio.AbstractEventLoop] = Future()
        self._halt = asyncio.Event()
        self._forever = asyncio.Event()  # referenced here, or the waiting tasks would be garbage-collected
        self._tasks: list[asyncio.Task[None]] = []
        self._turn: ChatTurn | None = None
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
        """Close the entered contexts, last first, and end the loop."""
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

    def set_turn(self, turn: "ChatTurn") -> None:
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


class ThreadQuestion(Generic[Q, A]):
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


class PendingQuestion(ThreadQuestion[Elicitation, Answer]):
    """A server's question."""


class PendingApproval(ThreadQuestion[ApprovalRequest, ApprovalAnswer]):
    """A call that the policy asks about, other than those that the agent asks about itself."""


class ChatTurn:
    """One run of an agent, observed from the main thread; without a prompt, the agent continues."""

    def __init__(
        self,
        loop: BackgroundLoop,
        agent: Agent,
        prompt: str | None,
        prepare: Coroutine[Any, Any, None] | None = None,
    ) -> None:
        """`prepare` runs before it, and may ask the user."""
        self._loop = loop
        self._events: SimpleQueue[RunEvent | ThreadQuestion[Any, Any] | None] = SimpleQueue()
        self._questions: set[ThreadQuestion[Any, Any]] = set()
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

    async def ask(self, asked: ThreadQuestion[Q, A]) -> A:
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

    def ctrl_c_ends_waiting(self) -> AbstractContextManager[None]:
        """Make Ctrl-C end only the wait for the next event; a spinner interrupted at its start hangs."""

        def interrupt() -> None:
            self._interrupted = True
            self._events.put(None)

        return TERMINAL.get().handling(signal.SIGINT, interrupt)

    def ctrl_c_raises(self) -> AbstractContextManager[None]:
        """Make Ctrl-C raise KeyboardInterrupt, while the user is asked."""
        return TERMINAL.get().handling(signal.SIGINT, None)

    def __iter__(self) -> Iterator[RunEvent | ThreadQuestion[Any, Any]]:
        """Events and questions until the run ends."""
        while True:
            if self._interrupted:
                raise KeyboardInterrupt
            try:
                event = self._events.get(timeout=POLL_SECONDS)
            except Empty:
                TERMINAL.get().check_signals()
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


def _result_of(future: "Future[T]") -> T:
    while not future.done():
        wait([future], POLL_SECONDS)
        TERMINAL.get().check_signals()
    return future.result()
