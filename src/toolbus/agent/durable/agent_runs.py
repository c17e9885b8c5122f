"""The durable runs of one agent: `agent.start` and `agent.runs`."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, TypeVar
from uuid import uuid4

from pydantic_ai.messages import ModelMessage

from toolbus.agent.durable.execution.execution import PROMPT, Performer
from toolbus.agent.durable.execution.model import messages_json, output_schema
from toolbus.agent.durable.runs import DurableRun, Runs
from toolbus.agent.durable.settings import Durable
from toolbus.agent.durable.worker import Worker
from toolbus.core.operation.run_errors import RunStoreError

logger = logging.getLogger("toolbus")

T = TypeVar("T")


class AgentRuns:
    """Starts runs, and makes this process a worker that executes them."""

    def __init__(self, settings: Durable, performer: Performer) -> None:
        self.settings = settings
        self._performer = performer
        self._joining: asyncio.Task[Worker] | None = None
        self._waiting: asyncio.Task[None] | None = None
        self._is_closed = False
        self.runs = _OwnRuns(settings, is_patient=True)
        """All runs of the store."""

    def begin(self) -> None:
        """Become a worker in the background, once the store can be reached; needs a running loop."""
        if self._waiting is None and not self._is_closed:
            self._waiting = asyncio.create_task(self._wait_to_join())

    def start(
        self, prompt: Any, *, key: str | None, history: Sequence[ModelMessage], output: type[T]
    ) -> DurableRun[T]:
        """Start a run, or join the one with that key; needs a running loop."""
        run = key or uuid4().hex[:12]
        message = PROMPT.dump_python(prompt, mode="json")
        earlier, schema = messages_json(history), output_schema(output)

        async def begin() -> None:
            await self._joined()
            await self.runs.start(message, key=run, history=earlier, output=schema)

        return DurableRun(run, self.runs, begin(), output)

    def join(self, run: str, output: type[T]) -> DurableRun[T]:
        """A run that is in the store; this process may execute it."""

        async def begin() -> None:
            self.begin()
            try:
                await self._joined()
            except RunStoreError as error:
                if not error.may_pass:
                    raise  # else whoever waits for the run waits for the store

        return DurableRun(run, self.runs, begin(), output)

    async def work(self, on_ready: Callable[[], None] | None = None) -> None:
        await self._joined()
        if on_ready is not None:
            on_ready()
        await asyncio.Event().wait()

    async def _wait_to_join(self) -> None:
        is_away = False
        while True:
            try:
                await self._joined()
            except RunStoreError as error:
                if not error.may_pass:
                    logger.warning("this program executes no durable runs: %s", error)
                    return
                if not is_away:
                    logger.warning("this program executes no durable runs until the store is back: %s", error)
                is_away = True
                await asyncio.sleep(self.settings.beat)
            except Exception:  # nobody waits for this task
                logger.exception("this program executes no durable runs")
                return
            else:
                if is_away:
                    logger.warning("the store of runs %s is back", self.runs.store.place)
                return

    async def _joined(self) -> Worker:
        if self._joining is None:
            self._joining = asyncio.create_task(Worker.join(self.settings, self._performer))
        joining = self._joining
        try:
            return await asyncio.shield(joining)
        except BaseException:
            if joining.done() and self._joining is joining:
                self._joining = None  # the next one may succeed
            raise

    async def close(self) -> None:
        """Leave: calls in flight end first, then others continue the runs."""
        self._is_closed = True
        if self._waiting is not None:
            self._waiting.cancel()
            await asyncio.gather(self._waiting, return_exceptions=True)
        if self._joining is not None:
            with suppress(RunStoreError):  # whoever waited for it has got the error
                await asyncio.shield(self._joining)
                if Worker.here is not None:  # not the one that it joined: that may have begun anew, or ended
                    await Worker.here.leave(self.settings.queue)
            self._joining = None
        await self.runs.close()


class _OwnRuns(Runs):
    """The runs of a store, in a process that executes some of them."""

    async def _label(self) -> str:
        assert Worker.here is not None, "it has joined before it starts a run"
        return await Worker.here.label(self._settings.queue)

    async def _pause(self, run: str) -> None:
        task = None if Worker.here is None else Worker.here.task_of(run)
        if task is None:
            await super()._pause(run)
        else:
            await asyncio.wait({task}, timeout=self._settings.poll)
