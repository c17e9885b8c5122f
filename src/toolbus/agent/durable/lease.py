"""The liveness of workers: each increments its heartbeat in a row of the store, and all watch each other.

No clock is read. A worker is dead if its count did not change while the watcher itself beat often enough to
cover the worker's lease. So nobody is declared dead because a clock was set back, because the store was
unreachable for a while, or because the watcher was suspended.
"""

import json
import os
import socket
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path

import sqlalchemy as sa

from toolbus.agent.durable.store.engines import change


@dataclass(frozen=True, kw_only=True)  # no slots: it keeps what it has parsed
class WorkerRow:
    """One worker, as the store has it."""

    worker: str
    beats: int = 0
    lease: float
    """Seconds without a beat after which it is dead."""
    dead: int = 0
    """1 if it was declared dead."""
    host: str
    pid: int
    started: str
    """The start time of its process, as the system reports it: a process id may be reused."""
    agents: str
    """The names of its agents, for versions of toolbus that do not know `programs`."""
    version: str
    """The version of toolbus."""
    joined: int = 0
    """Grows with each worker that joins: the newest has the largest."""
    programs: str = "{}"
    """The label of its tools for each of its queues, as JSON."""
    tools: Mapping[str, Set[str]] = field(default_factory=dict[str, Set[str]])
    """Its tools by queue, as `Runs.workers` has them."""
    runs: Sequence[str] = ()
    """The runs that it has now, as `Runs.workers` has them."""

    @cached_property
    def labels(self) -> Mapping[str, str]:
        """The label of its tools by queue; empty if toolbus did not write it."""
        try:
            return {str(queue): str(label) for queue, label in json.loads(self.programs).items()}
        except (AttributeError, ValueError, RecursionError):
            return {}

    @property
    def is_alive(self) -> bool:
        """Whether it lives, as far as is known at once: on another machine, it may have ended."""
        return not self.dead and not has_ended(self)

    def takes(self, queue: str) -> bool:
        return self.is_alive and queue in self.labels


_COLUMNS = "worker, beats, lease, dead, host, pid, started, agents, version, joined, programs"


class Leases:
    """The rows of all workers of one store."""

    def __init__(self, engine: sa.Engine) -> None:
        self._engine = engine

    def join(self, row: WorkerRow) -> int:
        """Add a worker as the newest, unless its row says when it joined; returns that."""
        with self._engine.begin() as connection:
            connection.execute(
                sa.text(
                    f"INSERT INTO toolbus_workers ({_COLUMNS}) "
                    "SELECT :worker, 0, :lease, 0, :host, :pid, :started, :agents, :version, "
                    "CASE WHEN :joined > 0 THEN :joined ELSE COALESCE(MAX(joined), 0) + 1 END, :programs "
                    "FROM toolbus_workers"
                ),
                asdict(row),
            )
            found = connection.scalar(
                sa.text("SELECT joined FROM toolbus_workers WHERE worker = :worker"), {"worker": row.worker}
            )
            assert found is not None, "it was just added"
            return found

    def beat(self, worker: str, agents: str, programs: str) -> bool:
        """Send a heartbeat; False if the worker was declared dead meanwhile."""
        statement = (
            "UPDATE toolbus_workers SET beats = beats + 1, agents = :agents, programs = :programs "
            "WHERE worker = :worker AND dead = 0"
        )
        return change(self._engine, statement, worker=worker, agents=agents, programs=programs) > 0

    def all(self) -> list[WorkerRow]:
        """All workers that have not left, the newest first."""
        with self._engine.connect() as connection:
            rows = connection.execute(
                sa.text(f"SELECT {_COLUMNS} FROM toolbus_workers ORDER BY joined DESC, worker")
            ).mappings()
            return [WorkerRow(**row) for row in rows]

    def declare_dead(self, row: WorkerRow) -> bool:
        """Declare a worker dead, unless it has beaten since the row was read."""
        statement = "UPDATE toolbus_workers SET dead = 1 WHERE worker = :worker AND beats = :beats"
        return change(self._engine, statement, worker=row.worker, beats=row.beats) > 0

    def leave(self, worker: str) -> None:
        change(self._engine, "DELETE FROM toolbus_workers WHERE worker = :worker", worker=worker)


class Watch:
    """One worker's observations of the others."""

    def __init__(self, own_beat: float) -> None:
        self._own_beat = own_beat
        self._seen: dict[str, tuple[int, int]] = {}
        """The count of each worker, and how many own beats ago it changed."""

    def dead(self, rows: Iterable[WorkerRow]) -> list[WorkerRow]:
        """The other workers that are dead; to be called after each own beat."""
        now: dict[str, tuple[int, int]] = {}
        found: list[WorkerRow] = []
        for row in rows:
            beats, ago = self._seen.get(row.worker, (-1, 0))
            ago = ago + 1 if beats == row.beats else 0
            now[row.worker] = row.beats, ago
            if row.dead or ago * self._own_beat >= row.lease or has_ended(row):
                found.append(row)
        self._seen = now
        return found


def host() -> str:
    """This machine since its last start, and its process ids; empty if that is not known here."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{socket.gethostname()} {boot} {os.stat('/proc/self/ns/pid').st_ino}"
    except OSError:
        return ""


def started(pid: int) -> str:
    """The start time of a local process; empty if there is none, or if it is not known here."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return ""
    return "" if fields[0] in "ZX" else fields[19]  # an ended process that nobody has waited for is gone


def has_ended(row: WorkerRow) -> bool:
    """Whether the process of a worker of this machine has ended: then nobody has to wait for its lease."""
    return bool(row.host) and row.host == host() and started(row.pid) != row.started
