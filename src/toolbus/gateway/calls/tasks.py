"""Tasks: tasks of modern servers, whose ids are sealed, and our own calls that clients follow as tasks.

Nothing is stored about a task of a server. Its id names the server and the server's own id, and only the
principal that it was given to can use it.
"""

import asyncio
import logging
from dataclasses import dataclass

from toolbus.core.text.encoding import as_sent
from toolbus.core.values.errors import ServerRejected, StoreError, ToolbusError
from toolbus.core.values.records import JSON, JSONObject, ToolResult
from toolbus.gateway.calls.parked import ParkedCall, ParkedCalls
from toolbus.gateway.protocol.request import ClientRequest, RequestTarget
from toolbus.gateway.protocol.words import INVALID_PARAMS, ProtocolError, over_quota, protocol_error
from toolbus.gateway.replicas.sessions import SharedTasks, StoredTask
from toolbus.state.seal import Seal
from toolbus.state.store.store import Allowance

logger = logging.getLogger("toolbus")

_PURPOSE = "taskId"
_UNLIMITED = 30 * 24 * 3600.0
"""Seconds for which the id of a task works that its server keeps without limit."""
_LEEWAY = 3600.0
_CLOSING = 3.0
POLL_MS = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerTask:
    """A task of a modern server."""

    server: str
    tool: str
    id: str
    """The server's own."""


class ClientTasks:
    """The tasks of clients."""

    def __init__(
        self, seal: Seal, parked: ParkedCalls, seconds: float, shared: SharedTasks | None = None
    ) -> None:
        """A task of ours is kept for `seconds`; other replicas find it in `shared`."""
        self._seal = seal
        self._parked = parked
        self._seconds = seconds
        self._shared = shared
        self._writing: set[asyncio.Task[None]] = set()
        self._has_closed = False

    def relayed(
        self, request: ClientRequest, target: RequestTarget, task: str, sent: JSONObject
    ) -> JSONObject:
        """The response for a call that became a task of its server."""
        ttl: JSON = sent.get("ttlMs")
        seconds = _UNLIMITED if not isinstance(ttl, int | float) else ttl / 1000 + _LEEWAY
        payload = {"server": target.server, "tool": target.spec.origin.tool, "id": task}
        sealed = self._seal.seal(_PURPOSE, request.exchange.principal.owner, payload, seconds)
        return {**sent, "taskId": sealed}

    async def prepare(self, call: ParkedCall, ttl: float | None = None) -> None:
        """Keep a call that a client will follow as a task, before it is made; `ttl` in milliseconds."""
        seconds = self._seconds if ttl is None else min(self._seconds, max(ttl / 1000, 1.0))
        self._parked.drop_later(call, seconds)
        call.ttl_ms = round(seconds * 1000)
        if self._shared is not None:
            await self._shared.put(_stored(call))
            call.on_end = lambda: self._ended(call)

    async def adopt(self, call: ParkedCall) -> None:
        """Make a task of a call that has begun: its client comes back for it."""
        if not self._parked.keep(call):
            call.cancel()
            raise over_quota("max_tasks", "you have too many tasks and calls that wait for an answer")
        call.is_task = True
        try:
            await self.prepare(call)
        except BaseException:
            call.cancel()
            self._parked.drop(call)
            raise
        if call.done:  # before others could know of it
            call.on_end()

    async def end(self, call: ParkedCall | StoredTask) -> None:
        """End a task for good: nobody can ask for it any more, and its client has room for another one."""
        if isinstance(call, ParkedCall):
            call.cancel()
            self._parked.drop(call)
        if self._shared is not None:
            await self._shared.remove(call.id)

    def _ended(self, call: ParkedCall) -> None:
        if not self._has_closed:  # else it was ended by us, and not by its client
            task = asyncio.get_running_loop().create_task(self._write(call))
            self._writing.add(task)
            task.add_done_callback(self._writing.discard)

    async def _write(self, call: ParkedCall) -> None:
        assert self._shared is not None, "it was stored before"
        Allowance.leave()
        own = _stored(call)
        try:
            if await self._shared.end(own) is not own:  # others believed that this replica had ended
                self._parked.drop(call)
        except StoreError as error:
            logger.warning("the result of a task is only known here: %s", error)

    def doubt(self) -> None:
        """Others may have ended tasks of ours."""
        for call in self._parked:
            call.is_doubtful = True

    async def check(self) -> None:
        """End those that others have."""
        for call in self._parked:
            if call.is_task and call.is_doubtful:
                await self._check(call)

    async def _check(self, call: ParkedCall) -> None:
        if self._shared is not None and (stored := await self._shared.get(call.id, call.owner)) is not None:
            if stored.was_cancelled:
                call.cancel()
            if stored.was_cancelled or stored.ended is not None:
                self._parked.drop(call)
        call.is_doubtful = False

    async def close(self) -> None:
        """Wait until the results of tasks are stored, or not much longer; those that still run have none."""
        self._has_closed = True
        if self._writing:
            await asyncio.wait(tuple(self._writing), timeout=_CLOSING)

    def started(self, request: ClientRequest, call: ParkedCall) -> JSONObject:
        """The response for a call of ours that the client follows as a task."""
        if request.is_modern:
            return {"resultType": "task", **self.state(call, modern=True)}
        return {"task": self.state(call, modern=False)}

    async def find(self, request: ClientRequest) -> ServerTask | ParkedCall | StoredTask:
        """The task of a request; `ProtocolError` if the client has none with that id.

        `WrongReplica` if another replica runs it.
        """
        given, name = request.text("taskId"), request.exchange.principal.owner
        if (call := await self._parked.find(given, name)) is not None and call.is_task:
            if call.is_doubtful:
                await self._check(call)
            if self._parked.get(given, name) is call:
                return call
        if self._shared is not None and (stored := await self._shared.get(given, name)) is not None:
            return await self._shared.settled(stored)
        payload = self._seal.opened(_PURPOSE, name, given) if request.is_modern else None
        if payload is None:
            raise ProtocolError(INVALID_PARAMS, "Task not found")
        return ServerTask(**payload)

    async def all_of(self, request: ClientRequest) -> list[ParkedCall | StoredTask]:
        """The tasks of ours that a client has."""
        name = request.exchange.principal.owner
        own: list[ParkedCall | StoredTask] = [call for call in self._parked.of(name) if call.is_task]
        if self._shared is None:
            return own
        known = {call.id for call in own}
        return [*own, *(task for task in await self._shared.of(name) if task.id not in known)]

    async def cancel(self, task: ParkedCall | StoredTask) -> ParkedCall | StoredTask:
        """End a task; returns it as it is then."""
        if isinstance(task, ParkedCall):
            task.cancel()
            return task
        assert self._shared is not None, "it is from there"
        return await self._shared.cancelled(task)

    def state(self, call: ParkedCall | StoredTask, *, modern: bool) -> dict[str, JSON]:
        """The state of a task of ours, without its result."""
        message: JSONObject = {} if call.message is None else {"statusMessage": call.message}
        ttl, poll = ("ttlMs", "pollIntervalMs") if modern else ("ttl", "pollInterval")
        return {
            "taskId": call.id,
            "status": _status(call),
            **message,
            "createdAt": call.created.isoformat(),
            "lastUpdatedAt": call.updated.isoformat(),
            ttl: call.ttl_ms,
            poll: POLL_MS,
        }

    def detailed(self, call: ParkedCall | StoredTask) -> JSONObject:
        """The state of a task of ours for a modern client, with its result or open questions."""
        state, shown = self.state(call, modern=True), outcome(call)
        if isinstance(shown, ProtocolError):
            return {**state, "error": shown.json}
        if shown is not None:
            return {**state, "result": shown}
        return {**state, "inputRequests": call.requests} if call.questions else state


def outcome(call: ParkedCall | StoredTask) -> JSONObject | ProtocolError | None:
    """The outcome of a task of ours: its result, or an error; None if it runs, or was cancelled."""
    if isinstance(call, StoredTask):
        return call.outcome()
    if not call.done or call.was_cancelled:
        return None
    try:
        return as_sent(call.result())
    except ProtocolError as error:
        return error
    except ServerRejected as error:
        return protocol_error(error)
    except ToolbusError as error:
        return as_sent(ToolResult.failure(error.public))


def _stored(call: ParkedCall) -> StoredTask:
    """The record of a task for other replicas."""
    how = outcome(call)
    if isinstance(how, ProtocolError):
        ended: JSONObject | None = {"error": how.json}
    else:
        ended = None if how is None else {"result": how}
    return StoredTask(
        id=call.id,
        principal=call.owner,
        created=call.created,
        updated=call.updated,
        message=call.message,
        ttl_ms=call.ttl_ms,
        was_cancelled=call.was_cancelled,
        ended=ended,
    )


def _status(call: ParkedCall | StoredTask) -> str:
    if call.was_cancelled:
        return "cancelled"
    ended = outcome(call)
    if isinstance(ended, ProtocolError):
        return "failed"
    if ended is not None:
        return "completed"
    return "input_required" if call.questions else "working"
