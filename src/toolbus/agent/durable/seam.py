"""What toolbus uses of DBOS beyond its documented interface; `tests/durable/test_seam.py` checks it."""

import threading
import time
from typing import Any

import dbos._dbos as _instances
import dbos._serialization as _serialization
import dbos._sys_db as _database
import sqlalchemy as sa
from dbos import DBOSClient
from dbos._schemas.system_database import SystemSchema
from dbos._serialization import DefaultSerializer, Serializer
from dbos._utils import GlobalParams

__all__ = [
    "Pauses",
    "Serializer",
    "add_queue",
    "executor",
    "is_used",
    "refuse_pickles",
    "requeue",
    "sent_message",
    "use_executor",
]


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


def requeue(client: DBOSClient, run: str, worker: str, queue: str) -> bool:
    """Give the run of a dead worker back to its queue, unless somebody else has taken it."""
    database = client._sys_db  # pyright: ignore[reportPrivateUsage]
    return database.reenqueue_for_recovery(run, [worker], queue)


def sent_message(client: DBOSClient, run: str, key: str) -> str | None:
    """The message that was sent to a run under an idempotency key, as it is stored; None if none was."""
    database = client._sys_db  # pyright: ignore[reportPrivateUsage]
    table = SystemSchema.notifications
    with database.engine.connect() as connection:
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
