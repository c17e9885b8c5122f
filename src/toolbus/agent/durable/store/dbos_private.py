"""The parts of DBOS used beyond its documented interface; `tests/durable/test_seam.py` checks them."""

import copy
import threading
import time
from collections.abc import Callable, Container, Generator, Iterable, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar

import dbos._context as _context
import dbos._dbos as _instances
import dbos._serialization as _serialization
import dbos._sys_db as _database
import sqlalchemy as sa
from dbos import DBOSClient
from dbos._schemas.system_database import SystemSchema
from dbos._serialization import DefaultSerializer
from dbos._serialization import Serializer as Serializer
from dbos._sys_db import SystemDatabase, db_retry
from dbos._utils import GlobalParams

T = TypeVar("T")
_RUN = SystemSchema.workflow_status.c


def is_used() -> bool:
    """Whether the program uses DBOS itself: there is one instance in a process."""
    return _instances._dbos_global_instance is not None  # pyright: ignore[reportPrivateUsage]


def add_queue(name: str) -> None:
    """Take runs of another queue; DBOS allows that only before it is launched."""
    instance = _instances._dbos_global_instance  # pyright: ignore[reportPrivateUsage]
    assert instance is not None, "it is launched"
    queues = instance._listening_queues  # pyright: ignore[reportPrivateUsage]
    if queues is not None and name not in queues:
        queues.append(name)


def executor() -> str:
    """The id under which this process takes runs."""
    return GlobalParams.executor_id


def use_executor(worker: str) -> None:
    """Take runs under another id from now on."""
    GlobalParams.executor_id = worker


def use_labels(labels: Mapping[str, str]) -> None:
    """Take only runs of these labels from now on, by queue.

    DBOS takes the runs of one application version from all queues. Agents of one process have tools of their
    own, so each queue gets a version of its own here.
    """
    instance = _instances._dbos_global_instance  # pyright: ignore[reportPrivateUsage]
    assert instance is not None, "it is launched"
    database: Any = instance._sys_db  # pyright: ignore[reportPrivateUsage]
    take = SystemDatabase.start_queued_workflows

    def start_queued_workflows(queue: Any, executor: str, version: str, *arguments: Any, **more: Any) -> Any:
        return take(database, queue, executor, labels.get(queue.name, version), *arguments, **more)

    database.start_queued_workflows = start_queued_workflows


def open_labels(client: DBOSClient, statuses: Iterable[str]) -> set[tuple[str, str]]:
    """The queues that have runs of these statuses, with the labels of the runs."""
    query = sa.select(_RUN.queue_name, _RUN.application_version).where(_RUN.status.in_(list(statuses)))
    with _engine(client).connect() as connection:
        return {(queue or "", label or "") for queue, label in connection.execute(query.distinct())}


def queued_runs(client: DBOSClient, queue: str, label: str, limit: int) -> list[str]:
    """The queued runs of a label that have recorded something."""
    steps = SystemSchema.operation_outputs.c.workflow_uuid
    query = sa.select(_RUN.workflow_uuid).where(
        _RUN.queue_name == queue,
        _RUN.status == "ENQUEUED",
        _RUN.application_version == label,
        sa.exists().where(steps == _RUN.workflow_uuid),
    )
    with _engine(client).connect() as connection:
        return list(connection.scalars(query.limit(limit)))


def relabel(client: DBOSClient, queue: str, old: str, new: str, run: str | None = None) -> int:
    """Give a queued run another label, or all that have recorded nothing; returns how many were."""
    steps = SystemSchema.operation_outputs.c.workflow_uuid
    which = ~sa.exists().where(steps == _RUN.workflow_uuid) if run is None else _RUN.workflow_uuid == run
    change = (
        sa.update(SystemSchema.workflow_status)
        .where(_RUN.queue_name == queue, _RUN.status == "ENQUEUED", _RUN.application_version == old, which)
        .values(application_version=new)
    )
    with _engine(client).begin() as connection:
        return connection.execute(change).rowcount


def hand_over(client: DBOSClient, run: str, worker: str, label: str) -> bool:
    """Give a run of this worker back to its queue under another label, unless it has lost the run."""
    now = client._sys_db._now_ms_sql()  # pyright: ignore[reportPrivateUsage]
    given_back = {"status": "ENQUEUED", "owner_xid": None, "started_at_epoch_ms": None, "updated_at": now}
    change = (
        sa.update(SystemSchema.workflow_status)
        .where(_RUN.workflow_uuid == run, _RUN.status == "PENDING", _RUN.executor_id == worker)
        .values(**given_back, application_version=label)
    )
    with _engine(client).begin() as connection:
        return connection.execute(change).rowcount > 0


def _engine(client: DBOSClient) -> sa.Engine:
    return client._sys_db.engine  # pyright: ignore[reportPrivateUsage]


def requeue(client: DBOSClient, run: str, worker: str, queue: str) -> bool:
    """Give the run of a dead worker back to its queue, unless somebody else has taken it."""
    database = client._sys_db  # pyright: ignore[reportPrivateUsage]
    return database.reenqueue_for_recovery(run, [worker], queue)


def sent_message(client: DBOSClient, run: str, key: str) -> str | None:
    """The message that was sent to a run under an idempotency key, as it is stored; None if none was."""
    table = SystemSchema.notifications
    with _engine(client).connect() as connection:
        return connection.scalar(sa.select(table.c.message).where(table.c.message_uuid == f"{key}::{run}"))


class Pauses:
    """The pauses of DBOS before it tries again to reach its database: bounded, and cut short at the end.

    It would sleep for up to 90 s, in threads that a program waits for when it ends.
    """

    LONGEST = 5.0
    _SHORT = 0.1
    _is_ending = threading.Event()

    def __getattr__(self, name: str) -> Any:
        return getattr(time, name)

    def sleep(self, seconds: float) -> None:
        if self._is_ending.wait(min(seconds, self.LONGEST)):
            time.sleep(self._SHORT)

    @classmethod
    def begin(cls) -> None:
        """From now on, DBOS pauses this way."""
        cls._is_ending.clear()
        _database.time = cls()  # pyright: ignore[reportPrivateImportUsage]  what it sleeps with

    @classmethod
    def end(cls) -> None:
        """Let everybody try again at once: a store that is closed says so."""
        cls._is_ending.set()


# The steps of a run


def next_number() -> int:
    """The number of the next step of this run; within a step, of that one."""
    return _workflow().function_id + (not _workflow().is_step())


def reserve_numbers(count: int) -> int:
    """Keep numbers for steps that begin in any order; the first is one more than the returned number."""
    current = _workflow()
    current.function_id += count
    return current.function_id - count


@contextmanager
def numbered_from(number: int) -> Generator[Callable[[], int]]:
    """Number the steps that this task begins from here on; gives what returns the last number."""
    own = copy.copy(_workflow())
    own.function_id = number
    token = _context._dbos_context_var.set(own)  # pyright: ignore[reportPrivateUsage]
    try:
        yield lambda: own.function_id
    finally:
        _context._dbos_context_var.reset(token)  # pyright: ignore[reportPrivateUsage]


def _workflow() -> _context.DBOSContext:
    return _context.assert_current_dbos_context()


def owned(run: str, work: Callable[[sa.Connection], T]) -> T:
    """Do something in one transaction, as the owner of a run; waits for the store, as DBOS does."""
    instance = _instances._dbos_global_instance  # pyright: ignore[reportPrivateUsage]
    owner = _context.current_owner_xid(run)
    assert instance is not None, "it is launched"
    assert owner is not None, "only the worker of a run does this"
    database = instance._sys_db  # pyright: ignore[reportPrivateUsage]

    @db_retry(sys_db=database)
    def attempt() -> T:
        with database.engine.begin() as connection:
            database._check_owner_txn(connection, run, owner)  # pyright: ignore[reportPrivateUsage]
            return work(connection)

    return attempt()


def step_names(connection: sa.Connection, run: str) -> dict[int, str]:
    table = SystemSchema.operation_outputs
    rows = connection.execute(
        sa.select(table.c.function_id, table.c.function_name).where(table.c.workflow_uuid == run)
    )
    return {number: name for number, name in rows}  # noqa: C416  # rows are no tuples for the type checker


def status_of(client: DBOSClient, run: str, workflow: str) -> str | None:
    """The status of a run, None if there is none; a query of the client would load all of it."""
    database, table = client._sys_db, SystemSchema.workflow_status  # pyright: ignore[reportPrivateUsage]
    with database.engine.connect() as connection:
        return connection.scalar(
            sa.select(table.c.status).where(table.c.workflow_uuid == run, table.c.name == workflow)
        )


def steps_beyond(client: DBOSClient, run: str, known: Container[int]) -> list[Mapping[str, Any]]:
    """The recorded steps that are not known yet, by number."""
    database = client._sys_db  # pyright: ignore[reportPrivateUsage]
    with database.engine.connect() as connection:
        numbers = sorted(step_names(connection, run))
    first = next((at for at, number in enumerate(numbers) if number not in known), None)
    if first is None:
        return []
    steps = client.list_workflow_steps(run, offset=first)
    return [one for one in steps if one["function_id"] not in known]


def refuse_pickles() -> None:
    """Read no row that is marked as a pickle, so that nobody who can write to a store can run code here.

    toolbus writes JSON alone. A program that already uses DBOS itself keeps its pickles.
    """
    if not is_used():
        _serialization.DBOSDefaultSerializer = _NoPickles()


class _NoPickles(DefaultSerializer):
    def deserialize(self, serialized_data: str) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        raise ValueError("a row of the store is a pickle, which toolbus never wrote; it is not read")
