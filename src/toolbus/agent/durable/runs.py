"""The runs of a store: start, list, watch, answer and cancel them, from any process with its URL."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import replace
from typing import Any, Generic, TypeVar, cast
from uuid import uuid4

from dbos import WorkflowStatus
from pydantic import TypeAdapter
from sqlalchemy.exc import DBAPIError

from toolbus.agent.durable.execution.timeline import events_of
from toolbus.agent.durable.info import UNREADABLE, RunInfo, Status, Step, run_info, unreadable_info
from toolbus.agent.durable.lease import Leases, WorkerRow
from toolbus.agent.durable.programs import Programs, best
from toolbus.agent.durable.questions import ACCEPTED, DurableEvent, answers_json
from toolbus.agent.durable.settings import JOURNAL_VERSION, Durable, named
from toolbus.agent.durable.store.store import UNFINISHED, WORKFLOW, RunStore
from toolbus.core.operation.operation import Resumed
from toolbus.core.operation.run_errors import (
    NotWaiting,
    RunCancelled,
    RunFailed,
    RunNotFound,
    RunStoreError,
)
from toolbus.core.values.elicitation import Answer
from toolbus.core.values.errors import ToolbusError
from toolbus.telemetry.runs import caller_trace

logger = logging.getLogger("toolbus")
T = TypeVar("T")
_PAUSE = 1.0


class Runs:
    """The durable runs of one store; those that it starts are of one agent."""

    def __init__(self, settings: Durable, *, is_patient: bool = False) -> None:
        """Connect to nothing yet; `is_patient` if it waits for a store that cannot be reached."""
        self._settings = settings
        self._is_patient = is_patient
        self.store = RunStore(settings.url)
        self._is_open = False
        self._is_away = False

    # Start

    async def start(
        self,
        prompt: Any,
        *,
        key: str | None = None,
        history: Sequence[Any] = (),
        output: Mapping[str, Any] | None = None,
    ) -> str:
        """Add a run for the workers, and return its id; with the key of an existing run, that run.

        `prompt` and `history` are JSON, in the form of Pydantic AI. `output` is the JSON Schema of the run's
        output, None for a text.
        """
        await self._open()
        agent, version, run = self._settings.agent, self._settings.version, key or uuid4().hex[:12]
        request: dict[str, Any] = {"agent": agent, "prompt": prompt, "history": list(history)}
        more = {"output": output, "version": version, "trace": caller_trace(run)}
        request |= {name: value for name, value in more.items() if value is not None}
        label = await self._label()

        def enqueue() -> None:
            self.store.client.enqueue(
                {
                    "workflow_name": WORKFLOW,
                    "queue_name": self._settings.queue,
                    "workflow_id": run,
                    "app_version": label,
                },
                request,
            )

        await self._do(enqueue)
        existing = await self.get(run) if key is not None else None
        if existing is not None and existing.queue != self._settings.queue:
            raise ToolbusError(
                f"run {run!r} belongs to the agent {named(existing.queue)!r}; choose another key"
            )
        return run

    async def _label(self) -> str:
        """The label of the runs that it starts: of the newest live worker."""
        return await self._do(lambda: self._best(self._settings.queue, set()))

    def _best(self, queue: str, needed: Set[str]) -> str:
        """The label of the live workers that suit a run best; if there are none, the first to join does."""
        programs = Programs(self.store)
        members = programs.members(Leases(self.store.engine).all(), queue)
        return best(members, needed).label if members else JOURNAL_VERSION

    # Look

    async def recent(self, *, ended: bool = False, limit: int = 100) -> list[RunInfo]:
        """The newest runs that have not ended, the newest first; with `ended`, all runs."""

        def load() -> list[RunInfo]:
            found = self.store.client.list_workflows(
                name=WORKFLOW, status=None if ended else UNFINISHED, limit=limit, sort_desc=True
            )
            return [self._info(one) for one in found]

        return await self._do(load)

    async def get(self, run: str) -> RunInfo:
        """One run; `RunNotFound` if there is none of that id."""

        def load() -> RunInfo:
            found = self.store.client.list_workflows(workflow_ids=[run], name=WORKFLOW)
            if not found:
                raise RunNotFound(run, self.store.place)
            return self._info(found[0])

        return await self._do(load)

    async def steps(self, run: str) -> list[Step]:
        """The recorded steps of a run, without their contents."""

        def load() -> list[Step]:
            try:
                return self.store.steps(run)
            except UNREADABLE:
                raise self._unreadable(run) from None

        return await self._do(load)

    async def workers(self) -> list[WorkerRow]:
        """The workers of the store, the newest first, with their tools and runs."""

        def load() -> list[WorkerRow]:
            rows, owners, programs = (
                Leases(self.store.engine).all(),
                self.store.owners(),
                Programs(self.store),
            )
            return [
                replace(
                    row,
                    tools={queue: programs.tools(label) for queue, label in row.labels.items()},
                    runs=[run for run, worker in owners.items() if worker == row.worker],
                )
                for row in rows
            ]

        return await self._do(load)

    async def events(self, run: str) -> AsyncGenerator[DurableEvent]:
        """All events of a run from the beginning, until it ends; late subscribers miss nothing."""
        known: set[int] = set()
        while True:
            is_open = await self._is_open_run(run)  # before the steps, or the last ones could be missed
            rows, asked = await self._do(lambda: self.store.new_steps(run, known))
            for row in rows:
                try:
                    events = events_of(row, asked)
                except UNREADABLE:
                    raise self._unreadable(run) from None
                if events is not None or not is_open:
                    known.add(row["function_id"])
                for event in events or ():
                    yield event
            if not is_open:
                return
            await self._pause(run)

    async def wait(self, run: str) -> RunInfo:
        while True:
            if not await self._is_open_run(run):
                return await self.get(run)
            await self._pause(run)

    # Change

    async def answer(
        self, run: str, answers: Mapping[str, Answer] | Answer, *, question: str | None = None
    ) -> None:
        """Answer what a run waits for; `NotWaiting` if somebody else has, ValueError if an answer is invalid.

        With `question`, its id, the answer is for no other question.
        """
        info = await self.get(run)
        asked = info.question
        if info.answered:
            raise _answered(run)
        if asked is None or (question is not None and asked.id != question):
            raise NotWaiting(
                f"run {run!r} does not wait for an answer" + (f" to {question}" if question else "")
            )
        given = answers_json(Resumed.of(asked.pending, answers).answers)
        if await self._do(lambda: self.store.answer(run, asked.id, given)) != given:
            raise _answered(run)  # by somebody else at the same time

    async def cancel(self, run: str) -> None:
        """Cancel a run: its worker stops it, and calls in flight are cancelled on their servers."""
        if not (await self.get(run)).is_open:
            raise NotWaiting(f"run {run!r} has ended already")
        await self._do(lambda: self.store.client.cancel_workflow(run))

    async def accept_changes(self, run: str) -> list[str]:
        """Accept the changed tool that a run waits for, and return its name; `NotWaiting` if it has ended."""
        info = await self.get(run)
        if not info.is_open:
            raise NotWaiting(f"run {run!r} is {info.status}; none of its tools waits to be accepted")
        if info.answered:
            raise _answered(run)
        if info.question is not None and info.held:
            await self.answer(run, ACCEPTED, question=info.question.id)
        return sorted(info.held)

    async def retry(self, run: str) -> None:
        """Continue a run that failed or was cancelled, from the step that failed."""
        info = await self.get(run)
        if info.is_open or info.status == "done":
            raise NotWaiting(f"run {run!r} is {info.status}; only a failed or cancelled one is continued")

        def rewind() -> None:
            steps = self.store.client.list_workflow_steps(run)
            failed = next((one["function_id"] for one in steps if one["error"] is not None), None)
            after = steps[-1]["function_id"] + 1 if steps else 1
            label = f"{info.journal}+{info.program}"
            if not info.is_foreign:
                label = self._best(info.queue, self.store.called(run))
            self.store.client.rewind_workflow(
                run, start_step=failed or after, queue_name=info.queue, application_version=label
            )

        await self._do(rewind)

    async def delete(self, run: str) -> None:
        """Delete a run that has ended, with all that is recorded of it; its key can be used again."""
        if (info := await self.get(run)).is_open:
            raise NotWaiting(f"run {run!r} is {info.status}; cancel it first: toolbus runs cancel {run}")
        await self._do(lambda: self.store.delete(run))

    async def close(self) -> None:
        """Close the connections to the store."""
        await asyncio.to_thread(self.store.close)

    # The store

    async def _pause(self, run: str) -> None:
        """Wait until it is time to look at a run again."""
        await asyncio.sleep(self._settings.poll)

    async def _is_open_run(self, run: str) -> bool:
        """Whether a run has not ended; `RunNotFound` if there is none of that id."""

        def look() -> bool:
            status = self.store.status(run)
            if status is None:
                raise RunNotFound(run, self.store.place)
            return status in UNFINISHED

        return await self._do(look)

    async def _open(self) -> None:
        if not self._is_open:
            await self._do(self.store.open)
            self._is_open = True

    async def _do(self, work: Callable[[], T]) -> T:
        """Work with the store; waits for one that cannot be reached if it is patient."""
        while True:
            try:
                result = await asyncio.to_thread(work)
            except (DBAPIError, RunStoreError) as error:
                await self._wait_for_store(error)
            else:
                self._reached()
                return result

    async def _wait_for_store(self, error: DBAPIError | RunStoreError) -> None:
        """Wait a moment before the next attempt; raises `RunStoreError` if there must not be one."""
        problem = error if isinstance(error, RunStoreError) else self.store.error(error)
        if isinstance(error, DBAPIError) and not problem.may_pass and not self._is_open:
            await self._open()  # it may lack tables, or columns of them
            return
        if not self._is_patient or not problem.may_pass:
            raise problem from None
        if not self._is_away:
            logger.warning("%s; waiting for it", problem)
        self._is_away = True
        await asyncio.sleep(_PAUSE)

    def _reached(self) -> None:
        if self._is_away:
            logger.warning("the store of runs %s is back", self.store.place)
        self._is_away = False

    def _unreadable(self, run: str) -> RunStoreError:
        step = f"delete the run: toolbus runs delete {run}"
        return RunStoreError(self.store.place, f"rows of run {run!r} were not written by toolbus", step)

    def _info(self, row: WorkflowStatus) -> RunInfo:
        run, is_open = row.workflow_id, row.status in UNFINISHED
        try:
            asked, answered = self.store.question(run) if is_open else (None, False)
            return run_info(row, asked, answered=answered)
        except UNREADABLE:
            return unreadable_info(row)  # the other runs can be read


def _answered(run: str) -> NotWaiting:
    return NotWaiting(f"run {run!r} was answered already, and waits for a worker")


class DurableRun(Generic[T]):
    """A run that outlives this process. Iterate over its events, or just await `final`."""

    def __init__(self, run: str, runs: Runs, begin: Awaitable[object], output: type[T]) -> None:
        """`begin` adds the run to the store; the agent calls this."""
        self._output: type[Any] = output
        self.id = run
        """Its id in the store: the key, if it has one."""
        self._all = runs
        self._begun = asyncio.ensure_future(begin)
        self._begun.add_done_callback(_retrieve)

    @property
    def recorded(self) -> Awaitable[None]:
        """Awaits that the run is in the store: from then on, no crash loses it."""
        return self._recorded()

    @property
    def status(self) -> Awaitable[Status]:
        """Awaits what it does now: queued, running, waiting for a person, done, failed or cancelled."""
        return self._status()

    def __await__(self) -> Generator[Any, None, T]:
        return self._final().__await__()

    @property
    def final(self) -> Awaitable[T]:
        """Awaits the output; raises `RunFailed` or `RunCancelled`. Cancelling the wait leaves it as it is."""
        return self._final()

    async def info(self) -> RunInfo:
        """All that the store has of it, and the question that it waits for."""
        return await (await self._runs()).get(self.id)

    async def __aiter__(self) -> AsyncGenerator[DurableEvent]:
        """All events from the beginning, in any process, for any number of listeners."""
        events = (await self._runs()).events(self.id)
        try:
            async for event in events:
                yield event
        finally:
            await events.aclose()

    async def answer(self, answers: Mapping[str, Answer] | Answer, *, question: str | None = None) -> None:
        """Answer what it waits for: of several people, the first one does."""
        await (await self._runs()).answer(self.id, answers, question=question)

    async def cancel(self) -> None:
        """Cancel it, wherever it runs."""
        await (await self._runs()).cancel(self.id)

    async def _recorded(self) -> None:
        await asyncio.shield(self._begun)

    async def _runs(self) -> Runs:
        await self._recorded()
        return self._all

    async def _status(self) -> Status:
        return (await self.info()).status

    async def _final(self) -> T:
        info = await (await self._runs()).wait(self.id)
        match info.status:
            case "done":
                if self._output is str:
                    return cast(T, info.output or "")
                return TypeAdapter[Any](self._output).validate_python(info.structured)
            case "cancelled":
                raise RunCancelled(self.id)
            case _:
                raise RunFailed(self.id, info.error_kind, info.error or "")


def _retrieve(begun: "asyncio.Future[object]") -> None:
    """Mark the error as retrieved: a program that never awaits the run gets no warning at its end."""
    with suppress(asyncio.CancelledError):
        begun.exception()
