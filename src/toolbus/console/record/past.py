"""The history of calls as pages read it: in a thread, and the same question at most every two seconds."""

import asyncio
import logging
import time
from collections.abc import Callable, Hashable, Sequence
from typing import Any, TypeVar, cast

from toolbus.audit.history.read import (
    CallPosition,
    HistoryUnreadable,
    RecordedState,
    StepCount,
    history_file,
    read_call,
    read_calls,
    recorded_states,
    step_counts,
)
from toolbus.audit.history.record import CallFilter, HistoryCall
from toolbus.audit.history.write import HistoryWriter
from toolbus.config import BusConfig
from toolbus.config.secrets.literals import literal_secrets
from toolbus.config.secrets.redact import Redactor
from toolbus.console.record.counts import RANGES

logger = logging.getLogger("toolbus")
T = TypeVar("T")

KNOWN_SECONDS = 2.0
MOST_KNOWN = 64
MOST_ROWS = 1_000
FLUSHED_WITHIN = 2.0
"""Seconds to wait until calls that just ended are written."""


class PastCalls:
    """The history of a config; this process writes it, and pages read it."""

    def __init__(self, writer: HistoryWriter, redactor: Redactor | None = None) -> None:
        """`redactor` knows secrets that no connection knows yet, or any more."""
        self.writer = writer
        self._redactor = redactor  # held: all that exist are asked
        self.keeps_content = writer.setting.keep == "everything"
        """Whether arguments and results are kept."""
        self.problem = ""
        """The reason why it could not be read the last time; empty if it could."""
        self._known: dict[Hashable, tuple[float, Any]] = {}

    @classmethod
    def of(cls, config: BusConfig) -> "PastCalls | None":
        """The history of a config; None if it wants none, or has no file by which it would be found again."""
        if config.history is None or config.file is None:
            return None
        literals = (secret.value for server in config.servers.values() for secret in literal_secrets(server))
        try:
            return cls(HistoryWriter(history_file(config.file), config.history), Redactor(literals))
        except OSError as error:
            logger.warning("calls are not kept: %s", error.strerror or type(error).__name__)
            return None

    async def calls(self, wanted: CallFilter, limit: int, before: CallPosition | None) -> list[HistoryCall]:
        """The newest calls that match, and ended before a position."""
        file = self.writer.file
        key = (wanted, limit, before) if limit <= MOST_ROWS else None  # a long answer is not remembered
        return await self._read(key, lambda: read_calls(file, wanted, limit=limit, before=before), [])

    async def call(self, id_: str) -> HistoryCall | None:
        """A call by its id, with its content if that is kept."""

        def read() -> HistoryCall | None:
            self.writer.flush(FLUSHED_WITHIN)
            return read_call(self.writer.file, id_)

        return await self._read(id_, read, None)

    async def steps(self, key: str, server: str) -> Sequence[StepCount]:
        """The counts of the steps of a range, for one server or for all."""
        range_, file = RANGES[key], self.writer.file
        since = time.time() - range_.seconds
        return await self._read((key, server), lambda: step_counts(file, server, since, range_.step), [])

    async def states(self, since: float) -> list[RecordedState]:
        """The states of all servers since then."""
        return await self._read("states", lambda: recorded_states(self.writer.file, since), [])

    async def close(self) -> None:
        await asyncio.to_thread(self.writer.close)

    async def _read(self, key: Hashable, read: Callable[[], T], nothing: T) -> T:
        at, found = self._known.get(key, (0.0, None))
        if time.monotonic() < at + KNOWN_SECONDS:
            return cast("T", found)
        try:
            value, self.problem = await asyncio.to_thread(read), ""
        except HistoryUnreadable as problem:
            value, self.problem = nothing, str(problem)
        if len(self._known) >= MOST_KNOWN:
            self._known.clear()
        if key is not None:
            self._known[key] = time.monotonic(), value
        return value
