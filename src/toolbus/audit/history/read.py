"""Read the history of a config. These functions wait for the disk: call them in a thread, not in a loop.

Each raises `HistoryUnreadable` if there is a file that cannot be read; without a file, nothing is found.
"""

import json
import sqlite3
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import fields
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

from toolbus.audit.history.record import FAILED, FINE, CallFilter, CallProgress, HistoryCall, like
from toolbus.core.operation.phases import CallPhase
from toolbus.core.values.errors import ToolbusError
from toolbus.state.files import config_place, state_folder

VERSION = 1
"""Of the tables, in `user_version` of the file."""
COLUMNS = tuple(field.name for field in fields(HistoryCall))
LISTS: dict[str, type[CallPhase | CallProgress]] = {"phases": CallPhase, "progress": CallProgress}
"""The columns that are lists of tuples, written as JSON."""
CONTENT = ("arguments", "result")
EVERY_CALL = CallFilter()
_PAGE = 500
"""The most calls that are read at a time."""
_WAIT_SECONDS = 2.0


class HistoryUnreadable(ToolbusError):
    """The history of a config cannot be read."""

    def __init__(self, file: Path, reason: str) -> None:
        self.file = file
        self.reason = reason
        super().__init__(
            f"the history of calls, {file}, cannot be read: {reason}; delete it to begin a new one"
        )


class CallPosition(NamedTuple):
    """The end of a page of calls; the next page begins behind it."""

    ended: float
    id: str


def history_file(config_file: str | Path) -> Path:
    """The path of the history of a config; `NoStateFolder` if the user has no state folder."""
    return state_folder().base / "history" / f"{config_place(config_file)[1][:32]}.db"


def recorded_calls(file: Path, wanted: CallFilter = EVERY_CALL) -> Iterator[HistoryCall]:
    """The calls that match, newest first, without arguments and results; they are read page by page."""
    position: CallPosition | None = None
    while calls := read_calls(file, wanted, limit=_PAGE, before=position):
        yield from calls
        last = calls[-1]
        position = CallPosition(last.ended or last.at, last.id)


def read_calls(
    file: Path,
    wanted: CallFilter,
    *,
    limit: int,
    before: CallPosition | None = None,
    with_content: bool = False,
) -> list[HistoryCall]:
    """The newest calls that match, and ended before a position."""
    columns = COLUMNS if with_content else tuple(name for name in COLUMNS if name not in CONTENT)
    where, values = _where(wanted, before)
    statement = f"SELECT {', '.join(columns)} FROM calls{where} ORDER BY ended DESC, id DESC LIMIT ?"
    with _opened(file) as connection:
        return [_call(columns, row) for row in _rows(connection, statement, *values, limit)]


def read_call(file: Path, id_: str) -> HistoryCall | None:
    """A call by its id, with its arguments and its result if they are kept."""
    statement = f"SELECT {', '.join(COLUMNS)} FROM calls WHERE id = ?"
    with _opened(file) as connection:
        return next((_call(COLUMNS, row) for row in _rows(connection, statement, id_)), None)


class StepCount(NamedTuple):
    """The calls of one step of time that took about as long as each other."""

    step: int
    """The number of the step: its time, divided by its seconds."""
    bucket: int | None
    """See `bucket_of`; None if nothing was sent."""
    calls: int
    errors: int


def step_counts(file: Path, server: str, since: float, seconds: int) -> list[StepCount]:
    """The calls of one server or of all, counted in steps of this many seconds."""
    failed = f"sum(outcome NOT IN {FINE})"
    statement = (
        f"SELECT CAST(ended / ? AS INTEGER) AS step, bucket, count(*), {failed} FROM calls WHERE ended >= ?"
        f"{' AND server = ?' if server else ''} GROUP BY step, bucket"
    )
    values = (seconds, since, server) if server else (seconds, since)
    with _opened(file) as connection:
        return [StepCount(*row) for row in _rows(connection, statement, *values)]


class RecordedState(NamedTuple):
    """A server entered a state."""

    at: float
    server: str
    state: str
    """A state of a link; empty if nobody watched it any more."""
    error: str


def recorded_states(file: Path, since: float) -> list[RecordedState]:
    """The states of all servers since then, and the one that each was in, oldest first."""
    before = "SELECT max(at), server, state, error FROM states WHERE at < ? GROUP BY server"
    after = "SELECT at, server, state, error FROM states WHERE at >= ? ORDER BY at"
    with _opened(file) as connection:
        found = chain(_rows(connection, before, since), _rows(connection, after, since))
        return [RecordedState(*row) for row in found]


def _where(wanted: CallFilter, before: CallPosition | None) -> tuple[str, list[Any]]:
    conditions: list[tuple[str, tuple[Any, ...]]] = []
    if before is not None:
        conditions.append(("(ended, id) < (?, ?)", tuple(before)))
    if wanted.server:
        conditions.append(("server = ?", (wanted.server,)))
    if wanted.outcome == FAILED:
        conditions.append((f"outcome NOT IN {FINE}", ()))
    elif wanted.outcome:
        conditions.append(("outcome = ?", (wanted.outcome,)))
    if wanted.since is not None:
        conditions.append(("ended >= ?", (wanted.since,)))
    if wanted.until is not None:
        conditions.append(("ended < ?", (wanted.until,)))
    for text, columns in (
        (wanted.tool, ("name", "server || '/' || tool")),
        (wanted.caller, ("user", "face", "run", "session")),
    ):
        if text:
            either = " OR ".join(rf"{column} LIKE ? ESCAPE '\'" for column in columns)
            conditions.append((f"({either})", (like(text),) * len(columns)))
    where = " AND ".join(condition for condition, _ in conditions)
    return f" WHERE {where}" if where else "", [value for _, values in conditions for value in values]


def _call(columns: tuple[str, ...], row: tuple[Any, ...]) -> HistoryCall:
    values = dict(zip(columns, row, strict=True))
    for name, kind in LISTS.items():
        values[name] = tuple(kind(*one) for one in json.loads(values[name]))
    return HistoryCall(**values)


@contextmanager
def _opened(file: Path) -> Generator[sqlite3.Connection | None]:
    """The file, to be read only; None if there is none."""
    if not file.exists():
        yield None
        return
    try:
        connection = sqlite3.connect(
            f"file:{quote(str(file))}?mode=ro", uri=True, timeout=_WAIT_SECONDS, isolation_level=None
        )
        try:
            [[version]] = connection.execute("PRAGMA user_version")
            if version > VERSION:
                raise HistoryUnreadable(file, "it was written by a newer version of toolbus")
            yield connection if version else None  # 0: its tables are being created
        finally:
            connection.close()
    except sqlite3.Error as error:
        raise HistoryUnreadable(file, str(error)) from error


def _rows(connection: sqlite3.Connection | None, statement: str, *values: Any) -> list[tuple[Any, ...]]:
    return [] if connection is None else connection.execute(statement, values).fetchall()
