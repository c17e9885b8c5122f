"""A store in Postgres: for the replicas of several machines. A few connections, opened when needed."""

import asyncio
import os
import socket
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeVar

from toolbus.core.values.errors import ExtraMissing
from toolbus.state.store.database import Done, NoTables, Parameters, Unavailable, Unusable
from toolbus.state.store.sql import Dialect

if TYPE_CHECKING:
    from psycopg import AsyncConnection

T = TypeVar("T")
_MOST = 4
"""Connections of a process."""
_CONNECT_SECONDS = 5
_STATEMENT_SECONDS = 10.0
_LOCK = 7_400_201_607
"""The advisory lock of those who create the tables."""
_DIALECT = Dialect(now="extract(epoch FROM clock_timestamp())", bytes="BYTEA", is_pyformat=True)


class PostgresDatabase:
    """A database of Postgres."""

    def __init__(self, url: str) -> None:
        """`ExtraMissing` if the driver is not installed."""
        try:
            import psycopg
        except ImportError as error:
            raise ExtraMissing("a store in Postgres", "postgres", str(error)) from error
        self._psycopg = psycopg
        self._url = url
        self._idle: list[AsyncConnection[Any]] = []
        self._room = asyncio.Semaphore(_MOST)

    async def run(self, statement: str, values: Parameters) -> Done:
        async def work(connection: "AsyncConnection[Any]") -> Done:
            cursor = await connection.execute(_text(statement), values)
            rows = [] if cursor.description is None else await cursor.fetchall()
            return Done(rows, cursor.rowcount)

        return await self._used(work)

    async def create(self, statements: Sequence[str], values: Parameters) -> None:
        async def work(connection: "AsyncConnection[Any]") -> None:
            async with connection.transaction():
                await connection.execute("SELECT pg_advisory_xact_lock(%s)", (_LOCK,))
                for statement in statements:
                    await connection.execute(_text(statement), values)

        await self._used(work)

    async def local_address(self) -> str | None:
        async def work(connection: "AsyncConnection[Any]") -> str | None:
            used = socket.socket(fileno=connection.pgconn.socket)
            try:
                is_network = used.family in (socket.AF_INET, socket.AF_INET6)
                return used.getsockname()[0] if is_network else None
            finally:
                used.detach()  # it is libpq's

        return await self._used(work)

    async def close(self) -> None:
        while self._idle:
            await self._idle.pop().close()

    async def _used(self, work: "Callable[[AsyncConnection[Any]], Awaitable[T]]") -> T:
        """Do one piece of work with a connection, which is kept only if that went well."""
        errors = self._psycopg.errors
        async with self._room:
            connection: AsyncConnection[Any] | None = None
            try:
                async with asyncio.timeout(_STATEMENT_SECONDS):
                    connection = self._idle.pop() if self._idle else await self._connect()
                    done = await _interruptible(connection, work(connection))
                self._idle.append(connection)
                connection = None
            except TimeoutError:
                raise Unavailable(f"it did not respond within {_STATEMENT_SECONDS:g} s") from None
            except errors.UndefinedTable:
                raise NoTables from None
            except (errors.OperationalError, errors.InterfaceError) as error:
                raise self._reason(error) from error
            except self._psycopg.Error as error:
                raise Unusable(first_line(error)) from error
            finally:
                if connection is not None:
                    await connection.close()
            return done

    async def _connect(self) -> "AsyncConnection[Any]":
        if not _is_readable(self._url):
            raise Unusable("its URL cannot be read; encode special characters: %25 for %")
        return await self._psycopg.AsyncConnection.connect(
            self._url, autocommit=True, connect_timeout=_CONNECT_SECONDS, application_name="toolbus"
        )

    def _reason(self, error: Exception) -> Unavailable | Unusable:
        errors = self._psycopg.errors
        text = first_line(error)
        refused = (
            errors.InvalidPassword,
            errors.InvalidAuthorizationSpecification,
            errors.InvalidCatalogName,
        )
        # A connection that fails has no code of its own.
        if isinstance(error, refused) or "authentication failed" in text or "does not exist" in text:
            return Unusable(text)
        return Unavailable(text)


async def _interruptible(connection: "AsyncConnection[Any]", work: Awaitable[T]) -> T:
    """Wait for work; if that is cancelled, disconnect.

    The driver itself would ask the server to cancel the statement, and wait for ten seconds for one that
    does not respond.
    """
    working = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(working)
    except asyncio.CancelledError:
        with suppress(OSError), socket.socket(fileno=os.dup(connection.pgconn.socket)) as used:
            used.shutdown(socket.SHUT_RDWR)
        await asyncio.wait({working})
        with suppress(Exception):  # of the connection that was cut
            working.result()
        raise


def _is_readable(url: str) -> bool:
    """Whether it can be used to connect; otherwise the error would quote parts of it, even the password."""
    from psycopg import ProgrammingError
    from psycopg.conninfo import conninfo_to_dict

    try:
        conninfo_to_dict(url)
    except ProgrammingError:
        return False
    return True


@lru_cache(maxsize=64)
def _text(statement: str) -> bytes:
    return _DIALECT.text(statement).encode()


def first_line(error: Exception) -> str:
    """The server's message; libpq quotes host and user, never the password."""
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__
