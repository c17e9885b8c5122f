"""What toolbus uses of DBOS beyond its documented interface; `tests/durable/test_seam.py` checks it."""

import dbos._dbos as _instances
from dbos import DBOSClient
from dbos._serialization import Serializer
from dbos._utils import GlobalParams

__all__ = ["Serializer", "add_queue", "executor", "is_used", "requeue", "use_executor"]


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
