"""What toolbus uses of DBOS beyond its documented interface; `tests/durable/test_seam.py` checks it."""

import threading
import time
from collections.abc import Iterable, Mapping
from typing import Any

import dbos._dbos as _instances
import dbos._serialization as _serialization
import dbos._sys_db as _database
import sqlalchemy as sa
from dbos import DBOSClient
from dbos._schemas.system_database import SystemSchema
from dbos._serialization import DefaultSerializer, Serializer
from dbos._sys_db import SystemDatabase
from dbos._utils import GlobalParams

__all__ = [
    "Pauses",
    "Serializer",
    "add_queue",
    "executor",
    "hand_over",
    "is_used",
    "open_labels",
    "queued_runs",
    "refuse_pickles",
    "relabel",
    "requeue",
    "sent_message",
    "use_executor",
    "use_labels",
]
_RUN = SystemSchema.workflow_status.c


def is_used() -> bool:
    """Whether the program uses DBOS itself: there is one instance in a process."""
    return _instances._dbos_global_instance is not None  # pyright: ignore[reportPrivateUsage]


def add_queue(name: str) -> None:
    """Take runs of another queue as well; DBOS allows that only before it is launched."""
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
    change = (
        sa.update(SystemSchema.workflow_status)
        .where(_RUN.workflow_uuid == run, _RUN.status == "PENDING", _RUN.executor_id == worker)
        .values(status="ENQUEUED", owner_xid=None, started_at_epoch_ms=None, application_version=label)
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
        """Pause."""
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


def refuse_pickles() -> None:
    """Read no row that is marked as a pickle, so that nobody who can write to a store can run code here.

    toolbus writes JSON alone. A program that already uses DBOS itself keeps its pickles.
    """
    if not is_used():
        _serialization.DBOSDefaultSerializer = _NoPickles()


class _NoPickles(DefaultSerializer):
    def deserialize(self, serialized_data: str) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        raise ValueError("a row of the store is a pickle, which toolbus never wrote; it is not read")
