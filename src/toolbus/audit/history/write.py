"""Write the history of a config: in batches, in a thread, so that no call waits for a disk."""

import json
import logging
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path
from threading import Condition, Thread
from typing import TypeAlias

from toolbus.audit.history.read import COLUMNS, VERSION
from toolbus.audit.history.record import HistoryCall, bucket_of
from toolbus.config.settings.audit import History
from toolbus.core.text.display import counted
from toolbus.state.files import PrivateFolder, make_private

logger = logging.getLogger("toolbus")

PAUSE = 0.5
"""Seconds between two batches."""
MOST_WAITING = 5_000
"""The most calls that wait for the disk; further ones are left out."""
_BUSY_SECONDS = 10.0
"""The most seconds to wait for other processes that write."""
_CLOSE_SECONDS = 5.0
_PAGE_BYTES = 4096
_TABLES = (
    f"CREATE TABLE calls (id PRIMARY KEY, {', '.join(COLUMNS[1:])}, bucket)",
    "CREATE INDEX calls_ended ON calls (ended, id)",
    "CREATE TABLE states (at, server, state, error)",
    "CREATE INDEX states_at ON states (at)",
    f"PRAGMA user_version = {VERSION}",
)
_PUT_CALL = (
    f"INSERT OR REPLACE INTO calls ({', '.join(COLUMNS)}, bucket)"
    f" VALUES ({', '.join('?' * (len(COLUMNS) + 1))})"
)
_PUT_STATE = "INSERT INTO states VALUES (?, ?, ?, ?)"

Finish: TypeAlias = Callable[[], HistoryCall]
"""Makes the record of a call; it runs in the thread that writes."""
_State: TypeAlias = tuple[float, str, str, str]


class HistoryWriter:
    """Keeps calls and the states of servers; for any thread. Other processes may write the same file."""

    def __init__(self, file: Path, setting: History) -> None:
        self.file = file
        self.setting = setting
        self._calls: list[Finish] = []
        self._states: list[_State] = []
        self._left_out = 0
        self._changed = Condition()
        """Guards the waiting calls, and tells of batches that were written."""
        self._thread: Thread | None = None
        self._is_closing = False
        self._connection: sqlite3.Connection | None = None
        """Used by the thread alone."""
        self._trim_at = 0.0
        self._is_failing = False

    def put_call(self, finish: Finish) -> None:
        """Keep a call; it is left out if too many wait."""
        with self._changed:
            if len(self._calls) >= MOST_WAITING:
                self._left_out += 1
                return
            self._calls.append(finish)
            self._start()

    def put_state(self, at: float, server: str, state: str, error: str) -> None:
        """Keep that a server entered a state."""
        with self._changed:
            if len(self._states) < MOST_WAITING:
                self._states.append((at, server, state, error))
                self._start()

    def flush(self, seconds: float = _CLOSE_SECONDS) -> bool:
        """Wait until all calls that were put are written; False if that takes longer."""
        with self._changed:
            return self._changed.wait_for(lambda: self._thread is None, seconds)

    def close(self) -> None:
        """Write the waiting calls, and release the file."""
        with self._changed:
            self._is_closing = True
            self._changed.notify_all()
        if self.flush() and self._connection is not None:
            self._connection.close()
            self._connection = None

    def _start(self) -> None:
        if self._thread is None:
            # Daemon: a disk that hangs must not keep the program running.
            self._thread = Thread(target=self._run, name="toolbus history", daemon=True)
            self._thread.start()

    def _run(self) -> None:
        """Write batches until nothing waits."""
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._is_closing, PAUSE)
                calls, states, left_out = self._calls, self._states, self._left_out
                self._calls, self._states, self._left_out = [], [], 0
                if not calls and not states:
                    self._thread = None
                    self._changed.notify_all()
                    return
            if left_out:
                logger.warning("the history has no room for %s: its disk is slow", counted(left_out, "call"))
            try:
                self._write(calls, states)
                self._is_failing = False
            except Exception as error:  # whatever it is, calls go on
                self._report(error)

    def _report(self, error: Exception) -> None:
        """Log a failure, unless the batch before it failed."""
        if not self._is_failing:
            reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
            step = getattr(error, "remedy", "free some space, or delete the file")
            logger.warning("calls are not kept in %s: %s; %s", self.file, reason, step)
        self._is_failing = True

    def _write(self, calls: list[Finish], states: list[_State]) -> None:
        connection = self._connected()
        self._transaction(connection, _PUT_STATE, states)
        rows, size = list[tuple[object, ...]](), 0
        for finish in calls:
            rows.append(_row(finish()))
            size += len(str(rows[-1]))
            if size > self.setting.size // 16:  # what is written at once does not fit in a cache
                self._transaction(connection, _PUT_CALL, rows)
                rows, size = [], 0
        self._transaction(connection, _PUT_CALL, rows)

    def _transaction(
        self, connection: sqlite3.Connection, statement: str, rows: "list[tuple[object, ...]] | list[_State]"
    ) -> None:
        if not rows:
            return
        self._trim(connection)
        try:
            self._insert(connection, statement, rows)
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_FULL:
                raise
            self._make_room(connection)
            self._insert(connection, statement, rows)

    @staticmethod
    def _insert(
        connection: sqlite3.Connection, statement: str, rows: "list[tuple[object, ...]] | list[_State]"
    ) -> None:
        connection.execute("BEGIN IMMEDIATE")
        try:
            connection.executemany(statement, rows)
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise

    # Bounds

    def _trim(self, connection: sqlite3.Connection) -> None:
        """Delete old calls once a minute, and the oldest ones if the file is nearly full."""
        now = time.time()
        if now >= self._trim_at:
            self._trim_at = now + 60
            oldest = now - self.setting.days * 86_400
            connection.execute("DELETE FROM calls WHERE ended < ?", (oldest,))
            connection.execute("DELETE FROM states WHERE at < ?", (oldest,))
        [[pages]], [[free]] = (
            connection.execute("PRAGMA page_count").fetchall(),
            connection.execute("PRAGMA freelist_count").fetchall(),
        )
        if pages - free > self._most_pages * 0.9:
            self._make_room(connection)

    @staticmethod
    def _make_room(connection: sqlite3.Connection) -> None:
        """Delete the oldest eighth; of the states, which are small, only if there are many."""
        for table, column, least in (("calls", "ended", 0), ("states", "at", 1000)):
            eighth = f"(SELECT count(*) / 8 FROM {table})"
            last = f"(SELECT {column} FROM {table} ORDER BY {column} LIMIT 1 OFFSET {eighth})"
            many = f"(SELECT count(*) FROM {table}) > {least}"
            connection.execute(f"DELETE FROM {table} WHERE {many} AND {column} <= {last}")

    @property
    def _most_pages(self) -> int:
        """The most pages of the file itself; the write-ahead log gets the rest."""
        return self.setting.size * 3 // 4 // _PAGE_BYTES

    def _connected(self) -> sqlite3.Connection:
        if self._connection is None:
            folder = self.file.parent
            PrivateFolder(folder.parent, protects=True).make_folders(f"{folder.name}/{self.file.name}")
            make_private(self.file)  # before SQLite does it: its own files get the mode of this one
            made = sqlite3.connect(
                self.file, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False
            )
            try:
                self._prepare(made)
            except BaseException:
                made.close()
                raise
            self._connection = made
        return self._connection

    def _prepare(self, made: sqlite3.Connection) -> None:
        made.execute(f"PRAGMA page_size = {_PAGE_BYTES}")
        made.execute("PRAGMA journal_mode = WAL")
        made.execute("PRAGMA synchronous = NORMAL")  # the last calls before a power failure may be lost
        behind = max(16, self.setting.size // 16 // _PAGE_BYTES)
        made.execute(f"PRAGMA wal_autocheckpoint = {min(behind, 1000)}")
        made.execute(f"PRAGMA journal_size_limit = {min(behind, 1000) * _PAGE_BYTES}")
        made.execute(f"PRAGMA max_page_count = {self._most_pages}")
        made.execute("BEGIN IMMEDIATE")
        [[version]] = made.execute("PRAGMA user_version")
        if version == 0:
            for statement in _TABLES:
                made.execute(statement)
        made.execute("COMMIT")
        if version > VERSION:
            raise sqlite3.DatabaseError("it was written by a newer version of toolbus")


def _row(call: HistoryCall) -> tuple[object, ...]:
    values = [getattr(call, name) for name in COLUMNS]
    values = [json.dumps(one, separators=(",", ":")) if type(one) is tuple else one for one in values]
    return (*values, None if call.server_seconds is None else bucket_of(call.server_seconds))
