"""The tasks of ours, for all replicas: that one was started, and how it ended.

A task runs in one replica. If that one ends before the task does, its client learns that the outcome is not
known; the call is not made again.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from toolbus.core.values.records import JSONObject
from toolbus.gateway.protocol.words import INTERNAL_ERROR, ProtocolError
from toolbus.gateway.replicas.peers import Peers
from toolbus.state.store.store import Store

TASK = "task"
UNKNOWN = "the replica that ran this task has ended; whether the call took effect is not known"


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredTask:
    """A task of ours that this replica does not run."""

    id: str
    principal: str
    created: datetime
    updated: datetime
    message: str | None = None
    ttl_ms: int
    was_cancelled: bool = False
    ended: JSONObject | None = None
    """Its result, or `{"error": ...}`; None while it runs."""
    questions: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """None: nobody waits for the answers."""
    is_task = True

    @property
    def done(self) -> bool:
        """Whether the task has ended."""
        return self.ended is not None or self.was_cancelled

    @property
    def requests(self) -> JSONObject:
        """The open questions."""
        return {}

    @property
    def unknown(self) -> "StoredTask":
        """The task, as one whose replica has ended."""
        error = {"error": ProtocolError(INTERNAL_ERROR, UNKNOWN).json}
        return replace(self, ended=error, updated=datetime.now(UTC))

    def outcome(self) -> JSONObject | ProtocolError | None:
        """How it ended; None if it was cancelled, or if another replica runs it."""
        if self.was_cancelled or self.ended is None:
            return None
        if (error := self.ended.get("error")) is not None:
            return ProtocolError(error["code"], error["message"], error.get("data"))
        return self.ended["result"]


class SharedTasks:
    """The tasks in the store."""

    def __init__(self, store: Store, peers: Peers) -> None:
        self._store = store
        self._peers = peers

    async def put(self, task: StoredTask) -> None:
        """Store a task, for as long as its client may ask for it."""
        await self._store.put(TASK, task.id, _value(task), _left(task))

    async def end(self, task: StoredTask) -> StoredTask:
        """Store how a task ended; returns it as others have ended it, if they did before."""
        while True:
            value, mark = await self._store.marked(TASK, task.id)
            before = None if value is None else _read(value)
            if before is None:  # it has expired
                return task
            if before.done:
                return before
            if await self._store.replace(TASK, task.id, mark, _value(task), _left(task)):
                return task

    async def settled(self, task: StoredTask) -> StoredTask:
        """The task; one that runs in a replica which has ended has failed, for good."""
        replica = task.id.partition(".")[0]
        if task.done or await self._peers.find(replica) is not None:
            return task
        # One that is known, and cannot be reached, may be back soon.
        return task.unknown if self._peers.has(replica) else await self.end(task.unknown)

    async def get(self, name: str, principal: str) -> StoredTask | None:
        """The task of that id, if it is this principal's."""
        value = await self._store.get(TASK, name)
        task = None if value is None else _read(value)
        return task if task is not None and task.principal == principal else None

    async def of(self, principal: str) -> list[StoredTask]:
        """The tasks of a principal, in the order of their start."""
        found = map(_read, (await self._store.items(TASK)).values())
        own = [task for task in found if task is not None and task.principal == principal]
        return [await self.settled(task) for task in sorted(own, key=lambda task: task.created)]

    async def cancelled(self, task: StoredTask) -> StoredTask:
        """The task, cancelled: one whose replica has ended."""
        return await self.end(replace(task, was_cancelled=True, updated=datetime.now(UTC)))


def _value(task: StoredTask) -> bytes:
    values = {**asdict(task), "created": task.created.isoformat(), "updated": task.updated.isoformat()}
    del values["questions"]
    return json.dumps(values).encode()


def _left(task: StoredTask) -> float:
    """Seconds for which it is kept."""
    return max(task.ttl_ms / 1000 - (datetime.now(UTC) - task.created).total_seconds(), 1.0)


def _read(value: bytes) -> StoredTask | None:
    """The task; None if it is not one that this version knows."""
    try:
        fields: dict[str, Any] = json.loads(value)
        known: dict[str, Any] = {
            name: fields[name] for name in StoredTask.__dataclass_fields__ if name in fields
        }
        for name in ("created", "updated"):
            known[name] = datetime.fromisoformat(fields[name])
        return StoredTask(**known)
    except (KeyError, TypeError, ValueError):
        return None
