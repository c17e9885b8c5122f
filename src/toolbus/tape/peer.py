"""A link to a tape: the dispatcher of a connection that has no server at its other end.

It speaks the modern protocol, in which a call ends with a question and is sent again with the answer. The
state of such a call is `CALL.EVENTS`: the recorded call, and the number of events that were played. So a call
that waits takes no memory. The gateway translates for clients of the other era, as it does for any server.
"""

from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from itertools import count
from typing import Any, cast

import anyio
import anyio.abc
from mcp.shared.dispatcher import CallOptions, OnNotify, OnNotifyIntercept, OnRequest, run_notify_intercept
from mcp.shared.exceptions import MCPError
from mcp.shared.subscriptions import SUBSCRIPTION_ID_META_KEY
from mcp.shared.transport_context import TransportContext
from mcp_types import (
    CLIENT_CAPABILITIES_META_KEY,
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    RequestId,
)
from mcp_types.version import LATEST_MODERN_VERSION

from toolbus.connect.in_flight import CURRENT
from toolbus.connect.sdk.input_required import TASKS
from toolbus.connect.transports.wire.incoming import MessageContext
from toolbus.core import version
from toolbus.core.operation.tracing import ConnectionFacts
from toolbus.core.values.elicitation import ELICITATION
from toolbus.core.values.errors import ConnectionLost
from toolbus.core.values.records import JSON, JSONObject
from toolbus.core.values.skills import SKILLS
from toolbus.tape.content import CANCELLED, error_in, request_in
from toolbus.tape.format import ListName, RecordedCall, RecordedUpdate
from toolbus.tape.live import STATE
from toolbus.tape.matching import CallTarget
from toolbus.tape.player import TapePlayer

_LISTS: dict[str, tuple[str, ListName]] = {
    "tools/list": ("tools", "tools"),
    "resources/list": ("resources", "resources"),
    "resources/templates/list": ("resourceTemplates", "templates"),
    "prompts/list": ("prompts", "prompts"),
    "skills/list": ("skills", "skills"),
}
"""The key of each list in a page, and its name on a tape."""
_CHANGED: dict[ListName, str] = {
    "tools": "tools",
    "resources": "resources",
    "templates": "resources",
    "skills": "resources",
    "prompts": "prompts",
}
_QUESTION = "question"
"""The key of a question."""
_TASK = "tape-"
"""The beginning of the id of a task that is played from the events of a call."""
_POLL_MS = 20
_MOST_TASKS = 10_000
_numbers = count(1)


class TapeServer:
    """A server on a tape, in place of a connection: the `server` of a config with the transport `memory`."""

    def __init__(self, player: TapePlayer, alias: str) -> None:
        self.player = player
        self.alias = alias
        self.server = str(player.privacy.recorded(alias))
        """Its name on the tape."""
        self.played = 0
        """The id of the last call that was played, which decides what the server offers."""
        changes = (*player.tape.listings.get(self.server, ()), *player.tape.updates.get(self.server, ()))
        self.changes = sorted((one for one in changes if one.after), key=lambda one: one.after)
        """The changes between its calls."""

    def __repr__(self) -> str:
        return f"<TapeServer {self.server!r} of {self.player.tape.path}>"

    def connector(self, lost: Callable[[str], None], /) -> Any:
        """Open a dispatcher; `lost` ends the connection."""

        async def connect(stack: AsyncExitStack, mode: str, raise_exceptions: bool) -> TapePeer:
            return TapePeer(self, lost)

        return connect


class TapePeer:
    """Answers requests from a tape."""

    def __init__(self, server: TapeServer, lost: Callable[[str], None]) -> None:
        self._server = server
        self._player = server.player
        self._lost = lost
        self.connection = ConnectionFacts()
        self._on_notify: OnNotify | None = None
        self._intercept: OnNotifyIntercept | None = None
        self._listening: dict[RequestId, JSONObject] = {}
        """The open streams of changes, and what they are about."""
        self._tasks: dict[str, tuple[int, int]] = {}
        """The call of each task, and how many of its events have been played."""
        self._context = MessageContext(self, TransportContext(kind="tape", can_send_request=False), None)

    async def run(
        self,
        on_request: OnRequest,
        on_notify: OnNotify,
        on_notify_intercept: OnNotifyIntercept | None = None,
        *,
        task_status: anyio.abc.TaskStatus[None] = anyio.TASK_STATUS_IGNORED,
    ) -> None:
        """Wait until the client leaves."""
        self._on_notify, self._intercept = on_notify, on_notify_intercept
        task_status.started()
        await anyio.sleep_forever()

    async def notify(
        self, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None = None
    ) -> None:
        """Ignore a notification."""

    async def send_raw_request(
        self, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None = None
    ) -> dict[str, Any]:
        """The recorded answer to a request."""
        given: Mapping[str, Any] = params or {}
        if method in _LISTS:
            key, name = _LISTS[method]
            # Changes are announced, so no list is fresh for longer than that.
            return {key: self._list(name), "ttlMs": 0, "cacheScope": "private", "resultType": "complete"}
        match method:
            case "server/discover":
                return self._discovered()
            case "skills/get":
                return self._skill(given)
            case "subscriptions/listen":
                return await self._listen(given, opts or {})
            case "tasks/get" | "tasks/update" | "tasks/cancel" if given["taskId"].startswith(_TASK):
                return await self._about_task(method, given, opts or {})
            case "initialize" | "ping":
                raise MCPError(METHOD_NOT_FOUND, "a tape speaks the modern protocol")
            case _:
                return await self._call(method, given, opts or {})

    # What the server offers

    def _list(self, name: ListName) -> list[JSON]:
        listed = self._player.tape.latest(self._server.server, self._server.played).get(name, [])
        shown: list[JSON] = self._player.shown(listed)
        return shown

    def _discovered(self) -> dict[str, Any]:
        instructions = self._list("instructions")
        changes: JSONObject = {"listChanged": True}
        capabilities: dict[str, JSON] = {
            "tools": changes,
            "resources": {**changes, "subscribe": True},
            "prompts": changes,
            "completions": {},
            "logging": {},
            "extensions": {TASKS: {}, **({SKILLS: {}} if self._list("skills") else {})},
        }
        return {
            "supportedVersions": [LATEST_MODERN_VERSION],
            "capabilities": capabilities,
            "serverInfo": {"name": self._server.server, "version": version()},
            "resultType": "complete",
            **({"instructions": instructions[0]} if instructions else {}),
        }

    def _skill(self, params: Mapping[str, Any]) -> dict[str, Any]:
        for entry in cast("list[JSONObject]", self._list("skills")):
            if entry.get("uri") == params.get("uri"):
                return {"skill": entry, "resultType": "complete"}
        raise MCPError(INVALID_PARAMS, "the tape has no such skill")

    # Changes

    async def _listen(self, params: Mapping[str, Any], options: CallOptions) -> dict[str, Any]:
        stream = options.get("request_id", "")
        wanted = self._listening[stream] = params.get("notifications") or {}
        try:
            await self._tell("notifications/subscriptions/acknowledged", {"notifications": wanted}, stream)
            await anyio.sleep_forever()
        finally:
            del self._listening[stream]
        return {}

    async def _tell(self, method: str, params: JSONObject, stream: RequestId | None = None) -> None:
        sent = params if stream is None else {**params, "_meta": {SUBSCRIPTION_ID_META_KEY: stream}}
        if not run_notify_intercept(self._intercept, method, sent) and self._on_notify is not None:
            await self._on_notify(self._context, method, sent)

    async def _advance(self, call: RecordedCall) -> None:
        """Repeat the changes that followed a call."""
        server = self._server
        if call.id <= server.played:
            return
        before, server.played = server.played, call.id
        for one in server.changes:
            if not before < one.after <= call.id:
                continue
            if isinstance(one, RecordedUpdate):
                uri = self._player.shown(one.uri)
                await self._tell_all("resourceSubscriptions", "resources/updated", {"uri": uri}, uri)
            elif (kind := _CHANGED.get(one.kind)) is not None:
                await self._tell_all(f"{kind}ListChanged", f"{kind}/list_changed", {})

    async def _tell_all(self, key: str, method: str, params: JSONObject, uri: str | None = None) -> None:
        for stream, wanted in tuple(self._listening.items()):
            about: Any = wanted.get(key)
            if about and (uri is None or uri in about):
                await self._tell(f"notifications/{method}", params, stream)

    # Calls

    async def _call(self, method: str, params: Mapping[str, Any], options: CallOptions) -> dict[str, Any]:
        name, arguments = request_in(method, params)
        target, player = CallTarget(self._server.server, method, name), self._player
        state: str | None = params.get("requestState")
        answers: JSONObject = params.get("inputResponses") or {}
        if state is None and answers and (asking := player.find(target, arguments)) is not None:
            state = f"{asking.id}.{_first_question(asking)}"  # a server that keeps no state needs none
        if state is not None:
            if player.live is not None and state.startswith(STATE):
                return _complete(await player.live.go_on(state, answers))
            call, played = self._resumed(target, state, answers)
            return await self._play(call, played, target, params, options)
        if (found := player.find(target, arguments)) is not None:
            return await self._play(found, 0, target, params, options)
        if player.live is None:
            raise player.miss(target, arguments)

        async def log(message: Mapping[str, JSON]) -> None:
            await self._tell("notifications/message", dict(message))

        return _complete(await player.live.send(self._server.alias, target, arguments, options, log))

    def _resumed(
        self, target: CallTarget, state: str, answers: Mapping[str, JSON]
    ) -> tuple[RecordedCall, int]:
        """The recorded call that goes on with these answers, and how many of its events were played."""
        try:
            id_, _, events = state.partition(".")
            call, played = self._player.tape.call(int(id_)), int(events)
        except (ValueError, KeyError):
            raise MCPError(INVALID_PARAMS, "the state of this call is not of this tape") from None
        asked = [cast("JSONObject", event) for event in call.events[played:][:1]]
        if not asked or "ask" not in asked[0]:
            return self._gone_on(call, target, answers), 0
        recorded = asked[0]["ask"]
        if _QUESTION not in answers:
            return call, played  # it is asked again
        given = answers[_QUESTION]
        if recorded["method"] != ELICITATION or self._player.is_same_answer(recorded.get("answer"), given):
            return call, played + 1
        for other in self._player.alike(call):
            # The same call, asked the same until now, with another answer to this question.
            if _told(other, played) == _told(call, played) and len(other.events) > played:
                event: JSONObject = cast("JSONObject", other.events[played]).get("ask") or {}
                if self._player.is_same_answer(event.get("answer"), given):
                    return other, played + 1
        raise self._player.wrong_answer(call, target, recorded.get("answer"), given)

    def _gone_on(self, call: RecordedCall, target: CallTarget, answers: Mapping[str, JSON]) -> RecordedCall:
        """The recorded call that went on with a suspended one."""
        known = [one for suspended in self._player.alike(call) for one in self._player.going_on(suspended)]
        for one in known:
            if self._player.is_same_answer(one.answers or {}, dict(answers)):
                return one
        for one in known:
            # The handlers of the host answer the other questions, such as sampling.
            given = {key: answer for key, answer in answers.items() if key in (one.answers or {})}
            if given and self._player.is_same_answer(one.answers or {}, given):
                return one
        raise self._player.wrong_answer(call, target, known[0].answers if known else None, dict(answers))

    async def _play(
        self,
        call: RecordedCall,
        played: int,
        target: CallTarget,
        params: Mapping[str, Any],
        options: CallOptions,
    ) -> dict[str, Any]:
        """Let the rest of the events happen, up to a question, and answer."""
        if not played and _is_task(call) and _knows_tasks(params):
            return self._begin_task(call)
        if call.events:
            report = options.get("on_progress")
            for index in range(played, len(call.events)):
                event = cast("JSONObject", self._player.shown(call.events[index]))
                if "ask" in event:
                    return _asking({_QUESTION: event["ask"]}, call, index)
                if "progress" in event and report is not None:
                    values: list[Any] = [*event["progress"], None, None]
                    await report(values[0], values[1], values[2])
                elif "log" in event:
                    await self._tell("notifications/message", event["log"])
        if call.failure is not None:
            raise await self._failed(call)
        await self._advance(call)
        result = self._player.shown(dict(call.result or {}))
        if "inputRequests" in result and not target.method.startswith("tasks/"):
            return _asking(result["inputRequests"], call, len(call.events))
        if target.method == "tools/call" and "taskId" in result:
            return {"pollIntervalMs": _POLL_MS, **result, "resultType": "task"}
        return {**result, "resultType": "complete"}

    async def _failed(self, call: RecordedCall) -> Exception:
        failure = cast("JSONObject", self._player.shown(call.failure))
        if failure.get("error") == CANCELLED:
            await anyio.sleep_forever()  # whoever called gives up again
        error = error_in(self._server.alias, failure)
        if isinstance(error, ConnectionLost):
            error.is_final = True
            self._lost(error.reason)
        await self._advance(call)
        return error

    # Tasks

    def _begin_task(self, call: RecordedCall) -> dict[str, Any]:
        task = f"{_TASK}{call.id}-{next(_numbers)}"
        self._tasks[task] = call.id, 0
        while len(self._tasks) > _MOST_TASKS:
            del self._tasks[next(iter(self._tasks))]
        return {"resultType": "task", **_state(task, "working"), "pollIntervalMs": _POLL_MS}

    async def _about_task(
        self, method: str, params: Mapping[str, Any], options: CallOptions
    ) -> dict[str, Any]:
        task = str(params["taskId"])
        if task not in self._tasks:
            raise MCPError(INVALID_PARAMS, "the tape plays no such task")
        id_, played = self._tasks[task]
        call = self._player.tape.call(id_)
        if method == "tasks/cancel":
            self._tasks[task] = id_, -1
            return {"resultType": "complete"}
        if method == "tasks/update":
            target = CallTarget(call.server, call.method, call.name)
            call, played = self._resumed(target, f"{id_}.{played}", params.get("inputResponses") or {})
            self._tasks[task] = call.id, played
            return {"resultType": "complete"}
        if played < 0:
            return {**_state(task, "cancelled"), "resultType": "complete"}
        return {**await self._next_state(task, call, played), "resultType": "complete"}

    async def _next_state(self, task: str, call: RecordedCall, played: int) -> dict[str, Any]:
        events = cast("list[JSONObject]", self._player.shown(call.events))
        for index in range(played, len(events)):
            event = events[index]
            if "ask" in event:
                self._tasks[task] = call.id, index
                return _state(task, "input_required", inputRequests={_QUESTION: _request(event["ask"])})
            if "log" in event:
                await self._tell("notifications/message", event["log"])
            if (state := event.get("task")) is not None and state["status"] == "working":
                self._tasks[task] = call.id, index + 1
                more = {"statusMessage": state["message"]} if "message" in state else {}
                return _state(task, "working", **more)
        self._tasks[task] = call.id, len(events)
        if call.failure is not None:
            error = await self._failed(call)
            return _state(task, "failed", error={"code": -32603, "message": str(error)})
        await self._advance(call)
        result = self._player.shown(dict(call.result or {}))
        return _state(task, "completed", result=result)


def _state(task: str, status: str, **more: JSON) -> dict[str, Any]:
    return {"taskId": task, "status": status, "ttlMs": None, **more}


def _complete(result: dict[str, Any]) -> dict[str, Any]:
    return {"resultType": "complete", **result}


def _request(asked: JSONObject) -> dict[str, JSON]:
    return {"method": asked["method"], "params": asked["params"]}


def _asking(requests: JSONObject, call: RecordedCall, played: int) -> dict[str, Any]:
    return {
        "resultType": "input_required",
        "inputRequests": {key: _request(asked) for key, asked in requests.items()},
        "requestState": f"{call.id}.{played}",
    }


def _told(call: RecordedCall, events: int) -> list[JSON]:
    """The questions and answers in the first events of a call."""
    return [event for event in call.events[:events] if "ask" in cast("JSONObject", event)]


def _first_question(call: RecordedCall) -> int:
    events = (index for index, event in enumerate(call.events) if "ask" in cast("JSONObject", event))
    return next(events, len(call.events))


def _is_task(call: RecordedCall) -> bool:
    return any("task" in cast("JSONObject", event) for event in call.events)


def _knows_tasks(params: Mapping[str, Any]) -> bool:
    """Whether the call is made for a client that wants to follow its task."""
    in_flight = CURRENT.get()
    if in_flight is None or in_flight.forwarding is None:
        return False
    meta: JSONObject = params.get("_meta") or {}
    declared: JSONObject = meta.get(CLIENT_CAPABILITIES_META_KEY) or {}
    return TASKS in (declared.get("extensions") or {})
