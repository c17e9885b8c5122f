"""Which workers are alive: each counts its beats in a row of the store, and all watch each other.

No clock is read: a worker is dead if its count stood still while the watcher itself beat often enough to
cover its lease. So neither a clock that is set back, nor a store that nobody reached for a while, nor a
watcher that was suspended declares anybody dead.
"""

import os
import socket
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import sqlalchemy as sa


@dataclass(frozen=True, slots=True, kw_only=True)
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
    """When its process started, as the system counts it: a process id may be used again."""
    agents: str
    version: str

    @property
    def is_alive(self) -> bool:
        """Whether it lives, as far as is known at once: on another machine, it may have ended."""
        return not self.dead and not has_ended(self)

    def takes(self, agent: str) -> bool:
        """Whether it takes runs of an agent."""
        return self.is_alive and agent in self.agents.split(", ")


class Leases:
    """The rows of all workers of one store."""

    def __init__(self, engine: sa.Engine) -> None:
        self._engine = engine

    def join(self, row: WorkerRow) -> None:
        """Add a worker."""
        with self._engine.begin() as connection:
            connection.execute(
                sa.text(
                    "INSERT INTO toolbus_workers "
                    "(worker, beats, lease, dead, host, pid, started, agents, version) "
                    "VALUES (:worker, 0, :lease, 0, :host, :pid, :started, :agents, :version)"
                ),
                {
                    "worker": row.worker,
                    "lease": row.lease,
                    "host": row.host,
                    "pid": row.pid,
                    "started": row.started,
                    "agents": row.agents,
                    "version": row.version,
                },
            )

    def beat(self, worker: str, agents: str) -> bool:
        """A sign of life; False if the worker was declared dead meanwhile."""
        with self._engine.begin() as connection:
            changed = connection.execute(
                sa.text(
                    "UPDATE toolbus_workers SET beats = beats + 1, agents = :agents "
                    "WHERE worker = :worker AND dead = 0"
                ),
                {"worker": worker, "agents": agents},
            )
            return changed.rowcount > 0

    def all(self) -> list[WorkerRow]:
        """All workers that have not left."""
        with self._engine.connect() as connection:
            rows = connection.execute(
                sa.text(
                    "SELECT worker, beats, lease, dead, host, pid, started, agents, version "
                    "FROM toolbus_workers ORDER BY worker"
                )
            ).mappings()
            return [WorkerRow(**row) for row in rows]

    def declare_dead(self, row: WorkerRow) -> bool:
        """Declare a worker dead, unless it has beaten since the row was read."""
        with self._engine.begin() as connection:
            changed = connection.execute(
                sa.text("UPDATE toolbus_workers SET dead = 1 WHERE worker = :worker AND beats = :beats"),
                {"worker": row.worker, "beats": row.beats},
            )
            return changed.rowcount > 0

    def leave(self, worker: str) -> None:
        """Remove a worker that has no runs any more."""
        with self._engine.begin() as connection:
            connection.execute(
                sa.text("DELETE FROM toolbus_workers WHERE worker = :worker"), {"worker": worker}
            )


class Watch:
    """What one worker has seen of the others."""

    def __init__(self, own_beat: float) -> None:
        self._own_beat = own_beat
        self._seen: dict[str, tuple[int, int]] = {}
        """The count of each worker, and how many own beats ago it changed."""

    def dead(self, rows: Iterable[WorkerRow]) -> list[WorkerRow]:
        """Those of the other workers that are dead; to be called after each own beat."""
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
    """When a process of this machine started; empty if there is none, or if that is not known here."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return ""
    return "" if fields[0] in "ZX" else fields[19]  # an ended process that nobody has waited for is gone


def has_ended(row: WorkerRow) -> bool:
    """Whether the process of a worker of this machine has ended: then nobody has to wait for its lease."""
    return bool(row.host) and row.host == host() and started(row.pid) != row.started
