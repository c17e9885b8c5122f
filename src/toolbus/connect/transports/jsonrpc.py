"""The SDK's `Dispatcher` over anything that takes and gives whole JSON-RPC messages.

`Peer` correlates requests with answers by futures that the reading side resolves directly: no
streams, no task per call. The transport calls `feed` with each message it reads and gives a `send`
for what is to be written; over HTTP, `send` also feeds what comes back. What the other side gets
wrong costs that one message: text that is no JSON is counted and skipped, an answer nobody waits for
is ignored, an answer that is no result fails its own call.
"""

import asyncio
import json
import logging
import re
import sys
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Protocol, cast

import anyio
import anyio.abc
from mcp.shared.dispatcher import (
    CallOptions,
    OnNotify,
    OnNotifyIntercept,
    OnRequest,
    ProgressFnT,
    as_request_id,
    coerce_request_id,
    run_notify_intercept,
)
from mcp.shared.exceptions import MCPError, NoBackChannelError
from mcp.shared.message import MessageMetadata
from mcp.shared.transport_context import TransportContext
from mcp_types import CONNECTION_CLOSED, INTERNAL_ERROR, INVALID_PARAMS, REQUEST_TIMEOUT, RequestId
from opentelemetry.context import get_current
from opentelemetry.propagate import inject
from pydantic import ValidationError
from pydantic_core import from_json, to_json

logger = logging.getLogger("toolbus")

Message = dict[str, Any]
Answer = asyncio.Future[Message]


class Send(Protocol):
    """Writes one message; `answer` is what a request waits for, `headers` are the SDK's, for HTTP."""

    async def __call__(
        self, data: bytes, headers: Mapping[str, str] | None = None, answer: Answer | None = None
    ) -> None: ...


LAST_WORDS = 1.0
"""Seconds that telling the server about a cancelled request may take."""


class WireError(MCPError):
    """A failure of the connection, with what the SDK's own error does not tell."""

    def __init__(
        self,
        message: str,
        *,
        sent: bool,
        lost: bool = True,
        status: int | None = None,
        code: int = CONNECTION_CLOSED,
        data: Any = None,
    ) -> None:
        super().__init__(code, message, data)
        self.sent = sent
        """Whether the server may have begun with the request."""
        self.lost = lost
        """Whether the connection, or the server's session, is gone for good."""
        self.status = status


class Peer:
    """One JSON-RPC conversation: a `Dispatcher` for the SDK, a `feed` for the transport."""

    def __init__(self, kind: str, send: Send, *, on_garbage: Callable[[int, bytes], None]) -> None:
        self._send = send
        self._on_garbage = on_garbage
        self._garbage = 0
        self._context = TransportContext(kind=kind, can_send_request=True)
        self._ids = count(1)
        self._pending: dict[RequestId, _Pending] = {}
        self._inbound: dict[RequestId, tuple[asyncio.Task[None], _Inbound]] = {}
        self.tells_cancel = True
        """Whether giving a request up is told by a notice; in modern HTTP hanging up says it."""
        self._tasks: set[asyncio.Task[None]] = set()
        self._handlers: _Handlers | None = None
        self._closed = asyncio.Event()
        self._reason = "the connection is closed"

    # The side of the SDK

    async def run(
        self,
        on_request: OnRequest,
        on_notify: OnNotify,
        on_notify_intercept: OnNotifyIntercept | None = None,
        *,
        task_status: anyio.abc.TaskStatus[None] = anyio.TASK_STATUS_IGNORED,
    ) -> None:
        """Be open until `close` is called or the SDK leaves."""
        self._handlers = _Handlers(on_request, on_notify, on_notify_intercept)
        task_status.started()
        try:
            await self._closed.wait()
        finally:
            self.close(self._reason)
            for task in tuple(self._tasks):
                task.cancel()

    async def send_raw_request(
        self, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None = None
    ) -> Message:
        """Send a request and wait for its answer; cancelling the wait tells the server."""
        if self._closed.is_set():
            raise WireError(self._reason, sent=False)
        opts = opts or {}
        request_id = opts.get("request_id") or next(self._ids)
        key = coerce_request_id(request_id)
        if key in self._pending:
            raise ValueError(f"request id {request_id!r} is already in flight")
        on_progress = opts.get("on_progress")
        # Before anything waits for it: what is no JSON is an error of the caller, and of nobody else.
        data = to_json(_request(request_id, method, params, wants_progress=on_progress is not None))
        answer: Answer = asyncio.get_running_loop().create_future()
        self._pending[key] = _Pending(answer, on_progress)
        try:
            if (timeout := opts.get("timeout")) is None:
                await self._send(data, opts.get("headers"), answer)
                return await answer
            async with asyncio.timeout(timeout):
                await self._send(data, opts.get("headers"), answer)
                return await answer
        except TimeoutError:
            await self._give_up(request_id, opts, "timed out")
            raise MCPError(code=REQUEST_TIMEOUT, message=f"{method} timed out") from None
        except asyncio.CancelledError:
            await self._give_up(request_id, opts, "cancelled by the caller")
            raise
        finally:
            del self._pending[key]
            # Failed by `close` while `send` was still at it: nobody else will ask for its exception.
            if answer.done() and not answer.cancelled():
                answer.exception()

    async def notify(
        self, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None = None
    ) -> None:
        """Send a notification; on a closed connection it is dropped."""
        if self._closed.is_set():
            return
        message: Message = {"jsonrpc": "2.0", "method": method}
        if params is not None:
            message["params"] = params
        await self._send(to_json(message), opts.get("headers") if opts else None)

    # The side of the transport

    def feed(self, data: bytes) -> None:
        """Take one message as it was read; never raises, never waits."""
        if data.lstrip()[:1] not in (b"{", b"["):
            self._skip(data)  # a flood of text costs no parsing
            return
        try:
            message = from_json(data)
        except ValueError:
            # The fast parser is stricter than JSON in practice (lone surrogates): ask the lenient one.
            try:
                message = json.loads(data, parse_int=_parsed_int)
            except ValueError:
                self._skip(data)
                return
            except RecursionError:
                self._fail_unreadable(data)
                return
        for item in cast("list[Any]", message) if isinstance(message, list) else [message]:
            if isinstance(item, dict):
                self._take(cast(Message, item), data)
            else:
                self._skip(data)

    def close(self, reason: str) -> None:
        """End the conversation; everyone who waits is told so."""
        if self._closed.is_set():
            return
        self._reason = reason
        self._closed.set()
        for pending in self._pending.values():
            pending.break_off(reason)

    # Inside

    def _skip(self, data: bytes) -> None:
        self._garbage += 1
        self._on_garbage(self._garbage, data)

    def _fail_unreadable(self, data: bytes) -> None:
        """Fail the request whose answer is nested too deeply to be read: nobody need wait for its timeout."""
        found = _ID.search(data[:200]) or _ID.search(data[-200:])
        pending = self._pending.get(int(found[1])) if found else None
        if pending is None:
            self._skip(data)
        else:
            pending.fail(INTERNAL_ERROR, "its answer is nested too deeply to be read")

    def _take(self, message: Message, data: bytes) -> None:
        method = message.get("method")
        request_id = as_request_id(message.get("id"))
        if isinstance(method, str):
            params = message.get("params")
            known = cast("Mapping[str, Any]", params) if isinstance(params, dict) else None
            if request_id is None:
                self._notified(method, known)
            else:
                self._asked(request_id, method, known)
        elif request_id is not None and ("result" in message or "error" in message):
            self._answered(request_id, message)
        else:
            self._skip(data)

    def _answered(self, request_id: RequestId, message: Message) -> None:
        pending = self._pending.get(coerce_request_id(request_id))
        if pending is None:
            logger.debug("ignored an answer to unknown request %r", request_id)
        elif "error" in message:
            pending.fail_with(message["error"])
        elif isinstance(message["result"], dict):
            pending.resolve(cast(Message, message["result"]))
        else:
            pending.fail(INTERNAL_ERROR, "the server's answer is not a valid result")

    def _notified(self, method: str, params: Mapping[str, Any] | None) -> None:
        if self._handlers is None:
            return
        if method == "notifications/progress" and params is not None:
            self._progressed(params)
        elif method == "notifications/cancelled" and params is not None:
            request_id = as_request_id(params.get("requestId"))
            if request_id is not None and (inbound := self._inbound.get(coerce_request_id(request_id))):
                inbound[1].cancel_requested.set()
                inbound[0].cancel()
        if not run_notify_intercept(self._handlers.intercept, method, params):
            self._spawn(self._handlers.on_notify(_Inbound(self, self._context, None), method, params))

    def _progressed(self, params: Mapping[str, Any]) -> None:
        token = as_request_id(params.get("progressToken"))
        pending = self._pending.get(coerce_request_id(token)) if token is not None else None
        progress = params.get("progress")
        if pending is None or pending.on_progress is None or not isinstance(progress, int | float):
            return
        total, note = params.get("total"), params.get("message")
        self._spawn(
            pending.on_progress(
                float(progress),
                float(total) if isinstance(total, int | float) else None,
                note if isinstance(note, str) else None,
            )
        )

    def _asked(self, request_id: RequestId, method: str, params: Mapping[str, Any] | None) -> None:
        if self._handlers is None:
            return
        key = coerce_request_id(request_id)
        inbound = _Inbound(self, self._context, request_id)
        task = self._spawn(self._answer(self._handlers.on_request, inbound, method, params))
        self._inbound[key] = (task, inbound)
        task.add_done_callback(lambda _: self._inbound.pop(key, None))

    async def _answer(
        self, on_request: OnRequest, inbound: "_Inbound", method: str, params: Mapping[str, Any] | None
    ) -> None:
        reply: Message = {"jsonrpc": "2.0", "id": inbound.request_id}
        try:
            reply["result"] = await on_request(inbound, method, params)
        except MCPError as error:
            reply["error"] = {"code": error.code, "message": error.message}
        except ValidationError as error:
            logger.debug("a %s of the server is not valid: %s", method, error)
            reply["error"] = {"code": INVALID_PARAMS, "message": "the request is not valid"}
        except Exception:  # our callbacks run here: their failure is an answer too, or the server would wait
            logger.exception("handler %s failed", method)
            reply["error"] = {"code": INTERNAL_ERROR, "message": "the client failed to answer"}
        await self._send(to_json(reply))

    def _spawn(self, work: Awaitable[None]) -> asyncio.Task[None]:
        async def run() -> None:
            try:
                await work
            except Exception:  # a task's edge: a failing callback must not end the conversation
                logger.exception("a callback of the connection failed")

        task = asyncio.get_running_loop().create_task(run())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _give_up(self, request_id: RequestId, opts: CallOptions, reason: str) -> None:
        if not (self.tells_cancel and opts.get("cancel_on_abandon", True)) or self._closed.is_set():
            return
        with suppress(TimeoutError, MCPError, OSError):
            async with asyncio.timeout(LAST_WORDS):
                await self.notify("notifications/cancelled", {"requestId": request_id, "reason": reason})


def _request(
    request_id: RequestId, method: str, params: Mapping[str, Any] | None, *, wants_progress: bool
) -> Message:
    message: Message = {"jsonrpc": "2.0", "id": request_id, "method": method}
    body = dict(params) if params is not None else {}
    meta = dict(body.get("_meta") or {})
    if wants_progress:
        # The request id serves as the token, so a notice finds its request without a second table.
        meta["progressToken"] = request_id
    if get_current():  # an empty context has no trace to pass on
        inject(meta)
    if meta:
        body["_meta"] = meta
    if body:
        message["params"] = body
    return message


@dataclass(frozen=True, slots=True)
class _Handlers:
    on_request: OnRequest
    on_notify: OnNotify
    intercept: OnNotifyIntercept | None


@dataclass(frozen=True, slots=True)
class _Pending:
    answer: asyncio.Future[Message]
    on_progress: ProgressFnT | None

    def resolve(self, result: Message) -> None:
        if not self.answer.done():
            self.answer.set_result(result)

    def fail(self, code: int, message: str, data: Any = None) -> None:
        if not self.answer.done():
            self.answer.set_exception(MCPError(code=code, message=message, data=data))

    def break_off(self, reason: str) -> None:
        if not self.answer.done():
            self.answer.set_exception(WireError(reason, sent=True))

    def fail_with(self, error: Any) -> None:
        match error:
            case {"code": int() as code, "message": str() as message}:
                self.fail(code, message, cast(Message, error).get("data"))
            case _:
                self.fail(INTERNAL_ERROR, "the server answered with a malformed error")


_ID = re.compile(rb'"id"\s*:\s*(\d{1,18})\s*[,}]')


def _parsed_int(digits: str) -> float:
    """A number of any length: one that Python refuses to read must not cost the whole message."""
    return int(digits) if len(digits) < sys.int_info.default_max_str_digits else float(digits)


@dataclass(frozen=True, slots=True)
class _Inbound:
    """What the SDK is told about one message from the server, with the way back."""

    _peer: Peer
    transport: TransportContext
    request_id: RequestId | None
    message_metadata: MessageMetadata = None
    cancel_requested: anyio.Event = field(default_factory=anyio.Event)

    @property
    def can_send_request(self) -> bool:
        return False

    async def send_raw_request(
        self, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None = None
    ) -> Message:
        raise NoBackChannelError(method)

    async def notify(
        self, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None = None
    ) -> None:
        await self._peer.notify(method, params, opts)

    async def progress(self, progress: float, total: float | None = None, message: str | None = None) -> None:
        """Clients answer at once; there is nothing to report on."""
