"""What toolbus uses of DBOS beyond its documented interface; `tests/durable/test_seam.py` checks it."""

import copy
from collections.abc import Callable, Container, Generator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar

import dbos._context as _context
import dbos._dbos as _instances
import dbos._serialization as _serialization
import sqlalchemy as sa
from dbos import DBOSClient
from dbos._schemas.system_database import SystemSchema
from dbos._serialization import DefaultSerializer, Serializer
from dbos._sys_db import db_retry
from dbos._utils import GlobalParams

__all__ = [
    "Serializer",
    "add_queue",
    "executor",
    "is_used",
    "next_number",
    "numbered_from",
    "owned",
    "refuse_pickles",
    "requeue",
    "reserve_numbers",
    "sent_message",
    "status_of",
    "step_names",
    "steps_beyond",
    "use_executor",
]
T = TypeVar("T")


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


# The steps of a run


def next_number() -> int:
    """The number of the next step of this run; within a step, of that one."""
    return _workflow().function_id + (not _workflow().is_step())


def reserve_numbers(count: int) -> int:
    """Keep numbers for steps that begin in any order; the first of them is one more than what is returned."""
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
    """The names of the recorded steps, by number."""
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
