"""Tasks: those of modern servers, whose ids are sealed, and calls of ours that clients follow as tasks.

Nothing is stored about a task of a server: its id names the server and the server's own id, and only the
principal that it was given to can use it.
"""

from dataclasses import dataclass

from toolbus.core.errors import CallRejected, ToolbusError
from toolbus.core.records import JSON, JSONObject, ToolResult
from toolbus.gateway.parked import ParkedCall, ParkedCalls
from toolbus.gateway.protocol import INVALID_PARAMS
from toolbus.gateway.protocol_error import ProtocolError
from toolbus.gateway.request import Request, Target
from toolbus.gateway.results import protocol_error
from toolbus.gateway.seal import Seal

_PURPOSE = "taskId"
_UNLIMITED = 30 * 24 * 3600.0
"""Seconds for which the id of a task works that its server keeps without limit."""
_LEEWAY = 3600.0
POLL_MS = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerTask:
    """A task of a modern server."""

    server: str
    tool: str
    id: str
    """The server's own."""


class Tasks:
    """The tasks of clients."""

    def __init__(self, seal: Seal, parked: ParkedCalls, seconds: float) -> None:
        """A task of ours is kept for so many seconds."""
        self._seal = seal
        self._parked = parked
        self._seconds = seconds

    def relayed(self, request: Request, target: Target, task: str, sent: JSONObject) -> JSONObject:
        """What a client gets for a call that became a task of its server."""
        ttl: JSON = sent.get("ttlMs")
        seconds = _UNLIMITED if not isinstance(ttl, int | float) else ttl / 1000 + _LEEWAY
        payload = {"server": target.server, "tool": target.spec.origin.tool, "id": task}
        sealed = self._seal.seal(_PURPOSE, request.exchange.principal.name, payload, seconds)
        return {**sent, "taskId": sealed}

    def started(self, request: Request, call: ParkedCall, ttl: float | None = None) -> JSONObject:
        """What a client gets for a call of ours that it follows as a task; `ttl` in milliseconds."""
        seconds = self._seconds if ttl is None else min(self._seconds, max(ttl / 1000, 1.0))
        self._parked.drop_later(call, seconds)
        call.ttl_ms = round(seconds * 1000)
        if request.is_modern:
            return {"resultType": "task", **self.state(call, modern=True)}
        return {"task": self.state(call, modern=False)}

    def find(self, request: Request) -> ServerTask | ParkedCall:
        """The task of a request; `ProtocolError` if the client has none with that id."""
        given, name = request.text("taskId"), request.exchange.principal.name
        if (call := self._parked.get(given, name)) is not None and call.is_task:
            return call
        payload = self._seal.opened(_PURPOSE, name, given) if request.is_modern else None
        if payload is None:
            raise ProtocolError(INVALID_PARAMS, "Task not found")
        return ServerTask(**payload)

    def all_of(self, request: Request) -> list[ParkedCall]:
        """The tasks of ours that a client has."""
        return [call for call in self._parked.of(request.exchange.principal.name) if call.is_task]

    def state(self, call: ParkedCall, *, modern: bool) -> dict[str, JSON]:
        """The state of a task of ours, without its result."""
        times = {"createdAt": call.created.isoformat(), "lastUpdatedAt": call.updated.isoformat()}
        message: JSONObject = {} if call.message is None else {"statusMessage": call.message}
        ttl, poll = ("ttlMs", "pollIntervalMs") if modern else ("ttl", "pollInterval")
        return {
            "taskId": call.id,
            "status": _status(call),
            **message,
            **times,
            ttl: call.ttl_ms,
            poll: POLL_MS,
        }

    def detailed(self, call: ParkedCall, shown: JSONObject | ProtocolError | None) -> JSONObject:
        """The state of a task of ours for a modern client, with its result (`shown`) or open questions."""
        state = self.state(call, modern=True)
        if isinstance(shown, ProtocolError):
            return {**state, "error": shown.json}
        if shown is not None:
            return {**state, "result": shown}
        return {**state, "inputRequests": call.requests} if call.questions else state


def outcome(call: ParkedCall) -> ToolResult | ProtocolError | None:
    """How a task of ours ended: its result, or an error; None if it runs, or was cancelled."""
    if not call.done or call.was_cancelled:
        return None
    try:
        return call.result()
    except ProtocolError as error:
        return error
    except CallRejected as error:
        return protocol_error(error)
    except ToolbusError as error:
        return ToolResult.failure(str(error))


def _status(call: ParkedCall) -> str:
    if call.was_cancelled:
        return "cancelled"
    ended = outcome(call)
    if isinstance(ended, ProtocolError):
        return "failed"
    if ended is not None:
        return "completed"
    return "input_required" if call.questions else "working"
