"""The durable runs of one agent: `agent.start` and `agent.runs`."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, TypeVar
from uuid import uuid4

from pydantic_ai.messages import ModelMessage

from toolbus.agent.durable.execution import PROMPT, Performer
from toolbus.agent.durable.model import messages_json
from toolbus.agent.durable.output import output_schema
from toolbus.agent.durable.run import DurableRun
from toolbus.agent.durable.runs import Runs
from toolbus.agent.durable.settings import Durable
from toolbus.agent.durable.worker import Worker

T = TypeVar("T")


class AgentRuns:
    """Starts runs, and makes this process a worker that executes them."""

    def __init__(self, settings: Durable, performer: Performer) -> None:
        self.settings = settings
        self._performer = performer
        self._joining: asyncio.Task[Worker] | None = None
        self.runs = Runs(settings, is_patient=True)
        """All runs of the store."""

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
        return DurableRun(run, self.runs, self._joined(), output)

    async def work(self, on_ready: Callable[[], None] | None = None) -> None:
        """Be a worker until cancelled."""
        await self._joined()
        if on_ready is not None:
            on_ready()
        await asyncio.Event().wait()

    async def _joined(self) -> Worker:
        if self._joining is None:
            self._joining = asyncio.create_task(Worker.join(self.settings, self._performer))
        try:
            return await asyncio.shield(self._joining)
        except BaseException:
            if self._joining.done():
                self._joining = None  # the next one may succeed
            raise

    async def close(self) -> None:
        """Leave: calls in flight end first, then others continue the runs."""
        if self._joining is not None:
            await asyncio.shield(self._joining)
            self._joining = None
            assert Worker.here is not None, "it joined"
            await Worker.here.leave(
                self.settings.agent
            )  # not the one that it joined: that may have begun anew
        await self.runs.close()
