"""This process as a worker: takes runs of its agents, shows that it lives, and reclaims runs of the dead."""

import asyncio
import logging
import os
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any, ClassVar
from uuid import uuid4

from dbos import DBOS, DBOSConfig
from dbos import error as dbos_errors
from sqlalchemy.exc import DBAPIError

from toolbus.agent.durable import seam
from toolbus.agent.durable.engines import APPLICATION
from toolbus.agent.durable.execution import Execution, Performer
from toolbus.agent.durable.lease import Leases, Watch, WorkerRow, host, started
from toolbus.agent.durable.programs import claim_name
from toolbus.agent.durable.seam import Pauses
from toolbus.agent.durable.settings import JOURNAL_VERSION, Durable
from toolbus.agent.durable.steps import Gate, Steps
from toolbus.agent.durable.store import WORKFLOW, JSONSerializer, RunStore
from toolbus.core.errors import RunDiverged, RunStoreError
from toolbus.core.version import version

logger = logging.getLogger("toolbus")
_CLOSING = 2.0
"""Seconds in which a worker that ends tells the store; then it ends without."""
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
        self._performers: dict[str, tuple[Durable, Performer]] = {}
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
        if here._performers.get(settings.agent, (settings, performer))[1] is not performer:
            problem = f"this process already has a durable agent named {settings.agent!r}"
            raise RunStoreError(here.store.place, problem, 'name one: Durable(store=..., agent="other")')
        here._performers[settings.agent] = settings, performer
        assert here._launched is not None, "it was just created"
        try:
            await asyncio.shield(here._launched)
        except BaseException:
            if here._launched.done():
                cls.here = None
            raise
        if settings.queue != here._settings.queue:
            await here._add_agent(settings, performer)
            seam.add_queue(settings.queue)
        return here

    async def _add_agent(self, settings: Durable, performer: Performer) -> None:
        """Add the queue of an agent to the store."""
        try:
            await asyncio.to_thread(claim_name, self.store, settings, performer.toolbox.names)
        except RunStoreError:
            del self._performers[settings.agent]
            raise
        await asyncio.to_thread(self.store.add_queue, settings)

    async def _launch(self) -> None:
        settings = self._settings
        await asyncio.to_thread(self.store.open)
        if seam.is_used():
            problem = "this process uses DBOS itself, which has one instance in a process"
            raise RunStoreError(self.store.place, problem, "run the durable agent in a process of its own")
        try:
            await self._add_agent(*self._performers[settings.agent])
            await asyncio.to_thread(self._new_row)
            self._launch_dbos()
        except DBAPIError as error:
            raise self.store.error(error) from None
        self._living = asyncio.create_task(self._live())

    def _launch_dbos(self) -> None:
        """Begin to take runs."""
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
        except BaseException:
            DBOS.destroy()  # or the next attempt would find an instance that is not launched
            raise

    def _new_row(self) -> None:
        """Join under a new id."""
        settings = self._settings
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
        )
        self._leases.join(row)
        self.id = worker

    @property
    def _agents(self) -> str:
        return ", ".join(sorted(self._performers))

    # Runs

    async def execute(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Execute the run of the current workflow."""
        run, task = DBOS.workflow_id, asyncio.current_task()
        assert run is not None, "a workflow calls this"
        assert task is not None, "a workflow is a task"
        self._active[task] = run
        steps = Steps(self._gate)
        try:
            _, performer = self._performers[request["agent"]]
            return await Execution(performer, run, steps).perform(request)
        except BaseException:  # some libraries put what they raise into groups
            if steps.problem is None:
                raise
        finally:
            del self._active[task]
        self._abort(run, steps.problem)
        raise steps.problem

    def _abort(self, run: str, problem: Exception) -> None:
        """Leave a run to whoever takes it next, if it cannot go on here; DBOS knows what to do otherwise."""
        if isinstance(problem, dbos_errors.DBOSUnexpectedStepError):
            raise RunDiverged(run) from problem
        if isinstance(problem, DBAPIError):
            logger.warning("run %s is interrupted: %s", run, self.store.error(problem))
            self._returned.add(run)
            raise asyncio.CancelledError  # not an error of the run, which DBOS would record

    # Signs of life

    async def _live(self) -> None:
        while True:
            try:
                lost = await asyncio.to_thread(self._beat, list(self._active.values()))
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

    def _beat(self, runs: list[str]) -> list[str]:
        """Beat, reclaim what dead workers had, and return those of the runs that are not ours any more."""
        if not self._leases.beat(self.id, self._agents):
            logger.warning(
                "worker %s was declared dead, so its runs continue elsewhere; it joins again", self.id
            )
            self._new_row()
            seam.use_executor(self.id)
            return runs
        for run in list(self._returned):
            self.store.give_back(run, self.id)
            self._returned.discard(run)
        rows = [row for row in self._leases.all() if row.worker != self.id]
        for row in self._watch.dead(rows):
            if row.dead or self._leases.declare_dead(row):
                self._reclaim(row.worker)
        if self._beats % _ORPHANS == 0:
            for worker in self.store.owners() - {row.worker for row in rows} - {self.id}:
                self._reclaim(worker)
        self._beats += 1
        return self.store.lost(runs, self.id)

    def _reclaim(self, worker: str) -> None:
        logger.warning("worker %s is dead; others take its runs over", worker)
        if self.store.requeue(worker):
            self._leases.leave(worker)

    # The end

    async def leave(self, agent: str) -> None:
        """Take no runs of an agent any more."""
        others = [one for name, one in self._performers.items() if name != agent]
        await self._close()
        # DBOS does not stop to take runs of one queue only, so the other agents begin anew.
        for settings, performer in others:
            await Worker.join(settings, performer)

    async def _close(self) -> None:
        """End within `drain` and some seconds, also if the store does not answer; at once if cancelled."""
        try:
            if not await self._gate.close(self._settings.drain):
                logger.warning("calls in flight did not end within %g s", self._settings.drain)
            tasks = [*self._active, *([] if self._living is None else [self._living])]
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
        await asyncio.wait({leaving}, timeout=5 * _CLOSING)

    def _leave(self) -> None:
        """End DBOS and give the runs back; without the store, others find out that it is gone."""
        DBOS.destroy()
        with suppress(DBAPIError, RunStoreError):
            if self.store.requeue(self.id):
                self._leases.leave(self.id)


@DBOS.workflow(name=WORKFLOW)
async def perform_run(request: dict[str, Any]) -> dict[str, Any]:
    """Execute one run; DBOS calls this in a worker."""
    assert Worker.here is not None, "only a worker takes runs"
    return await Worker.here.execute(request)
