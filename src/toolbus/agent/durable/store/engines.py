"""Connections to the two kinds of stores; a temporary failure is an error that DBOS waits for."""

import os
import socket
import sqlite3
import time
from contextlib import suppress
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary, WeakSet

import psycopg
import sqlalchemy as sa
from sqlalchemy import event
from sqlalchemy.exc import DBAPIError, OperationalError

from toolbus.core.operation.run_errors import RunStoreError
from toolbus.state.files import FileExposed, Foreign, make_private

APPLICATION = "toolbus"
_CONNECTIONS = 20
_CONNECT = 5
"""Seconds to connect to a server; also what a program may wait for at its end."""
_IDLE = 10_000
"""Milliseconds after which Postgres ends an idle transaction of a process, and releases its locks."""
_BUSY = 30_000
"""Milliseconds that SQLite waits for another writer."""
_SUBSECONDS = (3, 42)
"""The first SQLite with `unixepoch('subsec')`, a default of DBOS's columns from Python 3.12 on."""
_open: WeakKeyDictionary[sa.Engine, WeakSet[psycopg.Connection[Any]]] = WeakKeyDictionary()
"""The connections of each engine that was not closed."""
_PASSING_STATES = ("08", "53", "57")
"""The classes of Postgres' codes for lost connections, missing resources, and a server that restarts."""
_REFUSALS = ("authentication failed", "does not exist", "pg_hba.conf", "no password supplied")
"""Refused connections, which have no code: waiting does not help."""


def new_engine(url: str) -> sa.Engine:
    """An engine for a SQLite file or a Postgres server; connects to nothing yet."""
    engine = _sqlite(url) if url.startswith("sqlite") else _postgres(url)
    connections = _open[engine] = WeakSet[psycopg.Connection[Any]]()

    @event.listens_for(engine, "do_connect", insert=True)
    def refuse(*_: object) -> None:  # pyright: ignore[reportUnusedFunction]
        if engine not in _open:
            raise RunStoreError("of this process", "it was closed", "create another Agent or Runs")

    @event.listens_for(engine, "connect")
    def note(connection: object, _: object) -> None:  # pyright: ignore[reportUnusedFunction]
        if isinstance(connection, psycopg.Connection):
            connections.add(connection)  # pyright: ignore[reportUnknownArgumentType]  of which rows, does not matter
            try:
                connection.execute(b"SET idle_in_transaction_session_timeout = %d" % _IDLE)
                connection.commit()
            except psycopg.Error:
                connection.close()  # the pool forgets it, but does not close it
                raise

    @event.listens_for(engine, "checkin")
    def end(connection: Any, _: object) -> None:  # pyright: ignore[reportUnusedFunction]
        if engine not in _open and connection is not None:  # it was in use when the engine was closed
            connection.close()

    return engine


def close_engine(engine: sa.Engine) -> None:
    """Close all connections, and stop waiting for a server that does not respond."""
    for connection in list(_open.pop(engine, ())):
        with suppress(psycopg.OperationalError, OSError):  # it is closed already
            own = socket.socket(fileno=os.dup(connection.fileno()))
            own.shutdown(socket.SHUT_RDWR)  # who waits for an answer reads that the connection has ended
            own.close()
    engine.dispose()


def _seconds(_: object) -> float:
    return round(time.time(), 3)


def change(engine: sa.Engine, statement: str, **values: object) -> int:
    """Change rows in a transaction of their own; returns how many were changed."""
    with engine.begin() as connection:
        return connection.execute(sa.text(statement), values).rowcount


def stored_value(engine: sa.Engine, statement: str, **values: object) -> Any:
    """The value that a query finds; None if it finds no row."""
    with engine.connect() as connection:
        return connection.scalar(sa.text(statement), values)


def may_pass(error: DBAPIError) -> bool:
    """Whether an error passes by itself: the store is out of reach, locked, or full."""
    if isinstance(error.orig, sqlite3.Error):
        return "is locked" in str(error.orig)
    state: str | None = getattr(error.orig, "sqlstate", None)
    if state is not None:
        return error.connection_invalidated or state[:2] in _PASSING_STATES
    is_refused = any(words in str(error.orig) for words in _REFUSALS)
    return not is_refused and isinstance(error.orig, psycopg.OperationalError)


def _postgres(url: str) -> sa.Engine:
    engine = sa.create_engine(
        url,
        pool_pre_ping=True,
        pool_size=_CONNECTIONS,
        max_overflow=_CONNECTIONS,
        connect_args={"connect_timeout": _CONNECT, "application_name": APPLICATION},
    )

    @event.listens_for(engine, "handle_error")
    def wait_for_server(context: Any) -> None:  # pyright: ignore[reportUnusedFunction]
        # DBOS waits for a server that is down, but knows only some of the messages that say so. An error
        # without a code is not from the server, but from the way to it.
        error = context.original_exception
        is_late = isinstance(error, psycopg.errors.IdleInTransactionSessionTimeout)
        if is_late or (isinstance(error, psycopg.OperationalError) and error.sqlstate is None):
            context.is_disconnect = True

    return engine


def _sqlite(url: str) -> sa.Engine:
    engine = sa.create_engine(url)

    @event.listens_for(engine, "do_connect")
    def create(_: object, __: object, arguments: list[Any], ___: object) -> None:  # pyright: ignore[reportUnusedFunction]
        # Before SQLite does it, so that only this user can read it: its other files get the mode of this one.
        try:
            make_private(Path(arguments[0]))
        except FileExposed as error:
            problem = "other users can write it" if error.what == "written" else "other users can read it"
            raise RunStoreError(arguments[0], problem, f"protect it: {error.remedy}") from error
        except Foreign as error:
            raise RunStoreError(arguments[0], "it belongs to another user", "choose another file") from error
        except OSError:
            pass  # SQLite tells why it cannot be created

    @event.listens_for(engine, "connect")
    def prepare(connection: sqlite3.Connection, _: object) -> None:  # pyright: ignore[reportUnusedFunction]
        if sqlite3.sqlite_version_info < _SUBSECONDS:
            connection.create_function("unixepoch", 1, _seconds)
        connection.isolation_level = "IMMEDIATE"  # as DBOS does: a transaction that reads first may write
        connection.execute(f"PRAGMA busy_timeout={_BUSY}")
        connection.execute("PRAGMA foreign_keys=ON")
        connection.execute("PRAGMA journal_mode=WAL")

    @event.listens_for(engine, "handle_error")
    def wait_for_space(context: Any) -> None:  # pyright: ignore[reportUnusedFunction]
        # DBOS waits until a locked database is free, but would fail the run for a full disk: with a call
        # made, and no record of its result. So it waits for space as well.
        problem = str(context.original_exception)
        if any(full in problem for full in ("disk is full", "disk I/O error")):
            locked = sqlite3.OperationalError(f"database is locked: {problem}")
            raise OperationalError(context.statement, context.parameters, locked) from None

    return engine
