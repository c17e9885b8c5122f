"""This process as a worker: takes runs of its agents, shows that it lives, and reclaims runs of the dead."""

import asyncio
import json
import logging
import os
from collections.abc import Mapping, Sequence, Set
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import Any, ClassVar
from uuid import uuid4

from dbos import DBOS, DBOSConfig
from dbos import error as dbos_errors
from sqlalchemy.exc import DBAPIError

from toolbus.agent.durable.execution.execution import Execution, Performer
from toolbus.agent.durable.execution.steps import Gate, Steps
from toolbus.agent.durable.lease import Leases, Watch, WorkerRow, host, started
from toolbus.agent.durable.programs import Member, Programs, any_suited, better, claim_name, label_of, lacking
from toolbus.agent.durable.settings import JOURNAL_VERSION, Durable, named, queue_of
from toolbus.agent.durable.store import dbos_private as seam
from toolbus.agent.durable.store.dbos_private import Pauses
from toolbus.agent.durable.store.engines import APPLICATION
from toolbus.agent.durable.store.store import WORKFLOW, JSONSerializer, RunStore
from toolbus.core import version
from toolbus.core.operation.run_errors import RunDiverged, RunStoreError
from toolbus.core.values.errors import ToolbusError
from toolbus.telemetry.runs import traced_run

logger = logging.getLogger("toolbus")
_CLOSING = 4.0
"""Seconds in which a worker that ends tells the store; then it ends without."""
_DIVERGED = (RunDiverged, dbos_errors.DBOSUnexpectedStepError)
_ORPHANS = 12
"""Every so many beats, runs are looked for whose worker left no row."""


class Worker:
    """The one worker of a process; agents with the same store share it."""

    here: ClassVar["Worker | None"] = None

    def __init__(self, settings: Durable) -> None:
        self.store = RunStore(settings.url)
        self.id = ""
        self._settings = settings
        self._loop = asyncio.get_running_loop()
        self._gate = Gate()
        self._leases = Leases(self.store.engine)
        self._watch = Watch(settings.beat)
        self._watched: list[WorkerRow] = []
        """All workers, as of the last beat."""
        self._programs = Programs(self.store)
        self._performers: dict[str, tuple[Durable, Performer]] = {}
        """The settings and performers, by queue."""
        self._queues: set[str] = set()
        """Those that are in the store, so that runs are taken from them."""
        self._labels: dict[str, str] = {}
        """The labels of the runs that it takes, by queue."""
        self._joined = 0
        self._starting: dict[str, asyncio.Task[None]] = {}
        """The tasks that start the servers of agents, by queue; once done, their tools are known."""
        self._active: dict[asyncio.Task[Any], str] = {}
        self._returned: set[str] = set()
        """Runs that this worker has to give back."""
        self._beats = 0
        self._is_reachable = True
        self._launched: asyncio.Task[None] | None = None
        self._living: asyncio.Task[None] | None = None

    @classmethod
    async def join(cls, settings: Durable, performer: Performer) -> "Worker":
        """Take the runs of an agent; `RunStoreError` if the store cannot be used from here."""
        here = cls.here
        if here is None:
            here = cls.here = cls(settings)
            here._launched = asyncio.create_task(here._launch())
        elif here.store.url != settings.url:
            problem = f"this process already has durable runs in {here.store.place}"
            raise RunStoreError(RunStore(settings.url).place, problem, "use one store in a process")
        elif here._loop is not asyncio.get_running_loop():
            problem = "another event loop of this process has its durable runs"
            raise RunStoreError(here.store.place, problem, "use one event loop, or close the other agent")
        if here._performers.get(settings.queue, (settings, performer))[1] is not performer:
            problem = f"this process already has a durable agent named {named(settings.queue)!r}"
            raise RunStoreError(here.store.place, problem, 'name one: Durable(store=..., agent="other")')
        here._performers[settings.queue] = settings, performer
        assert here._launched is not None, "it was just created"
        try:
            await asyncio.shield(here._launched)
        except BaseException as error:
            if here._launched.done() and cls.here is here:
                cls.here = None
            if isinstance(error, RunStoreError) and here._settings.queue != settings.queue:
                return await cls.join(settings, performer)  # another agent could not; this one may
            raise
        await here._take(settings, performer)
        return here

    async def _take(self, settings: Durable, performer: Performer) -> None:
        """Take the runs of another agent, and start its servers."""
        if settings.queue not in self._queues:
            try:
                await self._add_agent(settings, performer)
                await asyncio.to_thread(self._announce, self._offered())
            except DBAPIError as error:
                raise self.store.error(error) from None
            seam.add_queue(settings.queue)
        if settings.queue not in self._starting:
            self._starting[settings.queue] = asyncio.create_task(self._start_servers(performer))

    async def _add_agent(self, settings: Durable, performer: Performer) -> None:
        try:
            await asyncio.to_thread(claim_name, self.store, settings, performer.toolbox.names)
        except RunStoreError:
            del self._performers[settings.queue]
            raise
        await asyncio.to_thread(self.store.add_queue, settings)
        self._queues.add(settings.queue)

    async def _start_servers(self, performer: Performer) -> None:
        """Start the servers of an agent, and let the others know its tools."""
        try:
            await performer.start_servers()
        except ToolbusError as error:  # a run that needs them fails with it
            logger.warning("a durable agent could not start its servers: %s", error)
        with suppress(DBAPIError):  # or at the next beat
            await asyncio.to_thread(self._announce, self._offered())

    async def _launch(self) -> None:
        settings = self._settings
        await asyncio.to_thread(self.store.open)
        if seam.is_used():
            problem = "this process uses DBOS itself, which has one instance in a process"
            raise RunStoreError(self.store.place, problem, "run the durable agent in a process of its own")
        try:
            await self._add_agent(*self._performers[settings.queue])
            await asyncio.to_thread(self._new_row, self._offered())
            self._launch_dbos()
        except DBAPIError as error:
            raise self.store.error(error) from None
        self._living = asyncio.create_task(self._live())

    def _launch_dbos(self) -> None:
        settings = self._settings
        Pauses.begin()
        config: DBOSConfig = {
            "name": APPLICATION,
            "system_database_url": settings.url.replace("+psycopg", "", 1),
            "system_database_engine": self.store.engine,
            "serializer": JSONSerializer(),
            "executor_id": self.id,
            "application_version": JOURNAL_VERSION,
            "run_migrations": False,
            "enable_otlp": False,
            "log_level": "WARNING",
            "notification_listener_polling_interval_sec": settings.poll,
        }
        DBOS(config=config)
        try:
            DBOS.listen_queues([settings.queue])
            # Not in a thread: async workflows run in the loop of the thread that launches.
            DBOS.launch()
            seam.use_labels(self._labels)
        except BaseException:
            DBOS.destroy()  # or the next attempt would find an instance that is not launched
            raise

    def _new_row(self, offered: Mapping[str, Set[str]]) -> None:
        """Join under a new id."""
        settings = self._settings
        labels = self._published(offered)
        worker = (
            f"{os.uname().nodename if hasattr(os, 'uname') else 'worker'}-{os.getpid()}-{uuid4().hex[:8]}"
        )
        row = WorkerRow(
            worker=worker,
            lease=settings.beat * settings.missed,
            host=host(),
            pid=os.getpid(),
            started=started(os.getpid()),
            agents=self._agents,
            version=version(),
            joined=self._joined,
            programs=json.dumps(labels),
        )
        self._joined = self._leases.join(row)
        self.id = worker
        self._labels.update(labels)
        self._watched = self._leases.all()

    @property
    def _agents(self) -> str:
        return ", ".join(sorted({self._performers[queue][0].agent for queue in self._queues}))

    # Tools

    def _offered(self) -> dict[str, Set[str]]:
        """The tools of the agents, by queue; in the thread of the loop, as buses change there."""
        return {queue: self._performers[queue][1].toolbox.offered for queue in self._queues}

    def _published(self, offered: Mapping[str, Set[str]]) -> dict[str, str]:
        """The labels of these tools, by queue, once the others can find out what they stand for."""
        labels = {queue: label_of(tools) for queue, tools in offered.items()}
        if labels != self._labels:
            self._programs.publish(offered.values())
        return labels

    def _announce(self, offered: Mapping[str, Set[str]]) -> bool:
        """Let the others know the tools that this worker has now; False if it was declared dead."""
        labels = self._published(offered)
        if not self._leases.beat(self.id, self._agents, json.dumps(labels)):
            return False
        if labels != self._labels:
            self._labels.update(labels)
            self._programs.adopt(set(labels), [])
        return True

    async def label(self, queue: str) -> str:
        """The label of a run that this process starts: of any live worker that has all its tools."""
        assert self._launched is not None, "it has joined"
        await asyncio.shield(self._launched)  # it may begin anew, as another agent has left
        own = self._performers[queue][1].toolbox.offered
        members = await asyncio.to_thread(self._programs.members, self._watched, queue)
        suited = any_suited(members, own)
        return self._labels.get(queue, JOURNAL_VERSION) if suited is None else suited.label

    async def _elsewhere(self, run: str, queue: str, missing: Sequence[str]) -> Exception | None:
        """The reason why a run with tools missing here belongs elsewhere; None if it has to run here."""
        offered = self._offered()

        def find() -> _NeededElsewhere | None:
            if label_of(offered[queue]) != self._labels[queue]:
                self._announce(offered)  # or it would take the run again
            needed = self.store.called(run) | set(missing)
            members = self._programs.members(self._leases.all(), queue)
            others = [member for member in members if member.worker != self.id]
            found = better(others, offered[queue], set(missing), needed)
            return None if found is None else _NeededElsewhere(found, missing)

        try:
            return await asyncio.to_thread(find)
        except DBAPIError as error:
            return error

    # Runs

    def task_of(self, run: str) -> asyncio.Task[Any] | None:
        """The task that executes a run here, if this worker has it."""
        return next((task for task, active in self._active.items() if active == run), None)

    async def execute(self, request: Mapping[str, Any]) -> dict[str, Any]:
        run, task = DBOS.workflow_id, asyncio.current_task()
        assert run is not None, "a workflow calls this"
        assert task is not None, "a workflow is a task"
        self._active[task] = run
        steps = Steps(self._gate)
        queue = queue_of(request["agent"], request.get("version"))
        try:
            settings, performer = self._performers[queue]
            elsewhere = partial(self._elsewhere, run, queue)
            execution = Execution(performer, run, steps, elsewhere, settings.answer_within)
            buses = performer.toolbox.all_buses
            is_shown = not buses or any(view.config.telemetry is not None for view in buses)
            with traced_run(run, request["agent"], request.get("trace"), is_shown=is_shown):
                return await execution.perform(request)
        except BaseException:  # some libraries put what they raise into groups
            if steps.problem is None:
                raise
        finally:
            del self._active[task]
        await self._abort(run, queue, steps.problem)
        raise steps.problem

    async def _abort(self, run: str, queue: str, problem: Exception) -> None:
        """Leave a run to the next worker if it cannot go on here; otherwise DBOS decides."""
        missing: list[str] = []
        try:
            if isinstance(problem, _DIVERGED):
                missing = await self._missing(run, queue)
                problem = await self._elsewhere(run, queue, missing) or problem
            if isinstance(problem, _NeededElsewhere):
                logger.warning("run %s %s", run, problem)
                await asyncio.to_thread(self.store.hand_over, run, self.id, problem.label)
                raise asyncio.CancelledError  # not an error of the run, which DBOS would record
        except DBAPIError as error:
            problem = error
        if isinstance(problem, _DIVERGED):
            raise RunDiverged(run, missing) from problem
        if isinstance(problem, DBAPIError):
            logger.warning("run %s is interrupted: %s", run, self.store.error(problem))
            self._returned.add(run)
            raise asyncio.CancelledError

    async def _missing(self, run: str, queue: str) -> list[str]:
        """The tools that a run has called, and that this worker lacks."""
        made = await asyncio.to_thread(self.store.called, run, made=True)
        called = await asyncio.to_thread(self.store.called, run)
        own = self._offered()[queue]
        return sorted(lacking(own, made) or lacking(own, called))

    # Signs of life

    async def _live(self) -> None:
        while True:
            try:
                lost = await asyncio.to_thread(self._beat, list(self._active.values()), self._offered())
            except DBAPIError as error:
                if self._is_reachable:
                    logger.warning("%s; runs wait until it is back", self.store.error(error))
                self._is_reachable, lost = False, []
            except Exception:  # a worker that stops to beat would lose its runs, and not know it
                logger.exception("worker %s could not look after its runs", self.id)
                lost = []
            else:
                if not self._is_reachable:
                    logger.warning("the store of runs %s is back", self.store.place)
                self._is_reachable = True
            for task, run in list(self._active.items()):
                if run in lost:
                    task.cancel()
            await asyncio.sleep(self._settings.beat)

    def _beat(self, runs: list[str], offered: Mapping[str, Set[str]]) -> list[str]:
        """Beat, reclaim the runs of dead workers, and return the given runs that this worker has lost."""
        if not self._announce(offered):
            logger.warning(
                "worker %s was declared dead, so its runs continue elsewhere; it joins again", self.id
            )
            self._new_row(offered)
            seam.use_executor(self.id)
            return runs
        for run in list(self._returned):
            self.store.give_back(run, self.id)
            self._returned.discard(run)
        self._watched = self._leases.all()
        rows = [row for row in self._watched if row.worker != self.id]
        dead = self._watch.dead(rows)
        for row in dead:
            if row.dead or self._leases.declare_dead(row):
                self._reclaim(row.worker)
        if self._beats % _ORPHANS == 0:
            for worker in set(self.store.owners().values()) - {row.worker for row in self._watched}:
                self._reclaim(worker)
            self._programs.forget(self._watched)
            self._programs.publish(offered.values())  # another worker may have deleted it at the same time
        self._beats += 1
        self._programs.adopt(set(self._labels), [row for row in self._watched if row not in dead])
        return self.store.lost(runs, self.id)

    def _reclaim(self, worker: str) -> None:
        logger.warning("worker %s is dead; others take its runs over", worker)
        if self.store.requeue(worker):
            self._leases.leave(worker)

    # The end

    async def leave(self, left: str) -> None:
        """Take no runs of a queue any more."""
        others = [one for queue, one in self._performers.items() if queue != left]
        await self._close()
        # DBOS does not stop to take runs of one queue only, so the other agents begin anew.
        for settings, performer in others:
            await Worker.join(settings, performer)

    async def _close(self) -> None:
        """End within `drain` and some seconds, even if the store does not respond; at once if cancelled."""
        try:
            if not await self._gate.close(self._settings.drain):
                logger.warning("calls in flight did not end within %g s", self._settings.drain)
            living = [] if self._living is None else [self._living]
            tasks = [*self._active, *self._starting.values(), *living]
            for task in tasks:
                task.cancel()
            if tasks:
                await asyncio.wait(tasks, timeout=_CLOSING)
            # DBOS made its own pool the default of the loop, and ends it.
            self._loop.set_default_executor(ThreadPoolExecutor(thread_name_prefix="asyncio"))
            own = ThreadPoolExecutor(1, "toolbus-close")
            leaving = self._loop.run_in_executor(own, self._leave)
            own.shutdown(wait=False)
            if not (await asyncio.wait({leaving}, timeout=_CLOSING))[0]:
                logger.warning("the store of runs %s does not answer at the end", self.store.place)
        finally:
            Pauses.end()
            self.store.close()
            Worker.here = None
        await asyncio.wait({leaving}, timeout=2 * _CLOSING)

    def _leave(self) -> None:
        """End DBOS and give the runs back; without the store, others find out that it is gone."""
        DBOS.destroy()
        with suppress(DBAPIError, RunStoreError):
            if self.store.requeue(self.id):
                self._leases.leave(self.id)
            self._programs.adopt(set(self._labels), [])


class _NeededElsewhere(Exception):
    """A run calls tools that this worker lacks, and another one has."""

    def __init__(self, member: Member, missing: Sequence[str]) -> None:
        self.label = member.label
        names = ", ".join(repr(name) for name in missing)
        super().__init__(f"needs {names}, which this worker lacks; worker {member.worker} continues it")


@DBOS.workflow(name=WORKFLOW)
async def perform_run(request: dict[str, Any]) -> dict[str, Any]:
    """Execute one run; DBOS calls this in a worker."""
    assert Worker.here is not None, "only a worker takes runs"
    return await Worker.here.execute(request)
