"""The SDK's `Dispatcher` over any transport that reads and writes whole JSON-RPC messages.

`Peer` matches responses to requests with futures that the reading side resolves directly: no
streams, no task per call. The transport calls `feed` with each message it reads and provides a `send`
that writes one; over HTTP, `send` also feeds the response. An invalid message affects only itself.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
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
from mcp.shared.exceptions import MCPError
from mcp.shared.transport_context import TransportContext
from mcp_types import INTERNAL_ERROR, INVALID_PARAMS, REQUEST_TIMEOUT, RequestId
from pydantic import ValidationError
from pydantic_core import to_json

from toolbus.config import ServerConfig
from toolbus.config.secrets.redact import Redactor
from toolbus.connect.transports.inbound import Inbound
from toolbus.connect.transports.messages import Message, TooManyValues, encoded_request, likely_id, parsed
from toolbus.connect.transports.wire_error import WireError
from toolbus.core.flag import Flag

logger = logging.getLogger("toolbus")

ResponseFuture = asyncio.Future[Message]


class Send(Protocol):
    """Writes one message; a request waits for `response`, and HTTP also sends the SDK's `headers`."""

    async def __call__(
        self, data: bytes, headers: Mapping[str, str] | None = None, response: ResponseFuture | None = None
    ) -> None: ...


CANCEL_TIMEOUT = 1.0
"""Seconds that notifying the server of a cancelled request may take."""


class Peer:
    """One JSON-RPC connection: a `Dispatcher` for the SDK, `feed` and `close` for the transport."""

    def __init__(
        self,
        kind: str,
        send: Send,
        *,
        redacted: Redactor,
        on_invalid: Callable[[int, bytes], None],
        config: ServerConfig,
    ) -> None:
        self._send = send
        self._config = config
        self._limits = config.limits
        self._redacted = redacted
        self._on_invalid = on_invalid
        self._invalid = 0
        self._context = TransportContext(kind=kind, can_send_request=True)
        self._ids = count(1)
        self._pending: dict[RequestId, _Pending] = {}
        self._inbound: dict[RequestId, tuple[asyncio.Task[None], Inbound]] = {}
        self._pings: list[RequestId] = []
        """The pings that are not answered yet."""
        self.notifies_cancel = True
        """Whether a cancelled request needs a notification; in modern HTTP disconnecting is enough."""
        self._tasks: set[asyncio.Task[None]] = set()
        self._handlers: _Handlers | None = None
        self._closed = Flag()
        self._reason = "the connection is closed"

    # For the SDK

    async def run(
        self,
        on_request: OnRequest,
        on_notify: OnNotify,
        on_notify_intercept: OnNotifyIntercept | None = None,
        *,
        task_status: anyio.abc.TaskStatus[None] = anyio.TASK_STATUS_IGNORED,
    ) -> None:
        """Stay open until `close` is called or the SDK cancels this."""
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
        """Send a request and wait for its response; the server is notified if the wait is cancelled."""
        opts = opts or {}
        request_id = opts.get("request_id") or next(self._ids)
        if coerce_request_id(request_id) in self._pending:
            raise ValueError(f"request id {request_id!r} is already in flight")
        body = dict(params or {})
        meta = to_json(body.pop("_meta", None) or {})
        on_progress, cancellable = opts.get("on_progress"), opts.get("cancel_on_abandon", True)
        data = self._encoded(request_id, method, to_json(body), meta, on_progress)
        wait = self._exchange(request_id, data, opts.get("headers"), on_progress, cancellable=cancellable)
        if (timeout := opts.get("timeout")) is None:
            return await wait
        try:
            async with asyncio.timeout(timeout):
                return await wait
        except TimeoutError:
            raise MCPError(code=REQUEST_TIMEOUT, message=f"{method} timed out") from None

    # A plain function: a coroutine less on the way of every call.
    def send_encoded(
        self,
        method: str,
        params: bytes,
        meta: bytes,
        headers: Mapping[str, str] | None,
        on_progress: ProgressFnT | None,
    ) -> Awaitable[Message]:
        """As `send_raw_request`, with params and their `_meta` that are encoded as JSON objects already."""
        request_id = next(self._ids)
        data = self._encoded(request_id, method, params, meta, on_progress)
        return self._exchange(request_id, data, headers, on_progress)

    def _encoded(
        self, request_id: RequestId, method: str, params: bytes, meta: bytes, on_progress: ProgressFnT | None
    ) -> bytes:
        return encoded_request(
            request_id,
            method,
            params,
            meta,
            with_progress=on_progress is not None,
            with_baggage=self._config.baggage,
        )

    async def _exchange(
        self,
        request_id: RequestId,
        data: bytes,
        headers: Mapping[str, str] | None,
        on_progress: ProgressFnT | None,
        *,
        cancellable: bool = True,
    ) -> Message:
        """Write a request and wait for its response; if the wait is cancelled, notify the server."""
        if self._closed.is_set():
            raise WireError(self._reason, sent=False)
        response: ResponseFuture = asyncio.get_running_loop().create_future()
        key = coerce_request_id(request_id)
        self._pending[key] = _Pending(response, on_progress)
        try:
            await self._send(data, headers, response)
            result = await response
            if on_progress is not None:
                await asyncio.sleep(0)  # so that progress that came with the response is reported first
            return result
        except asyncio.CancelledError:
            if cancellable:
                await self._notify_cancelled(request_id)
            raise
        finally:
            del self._pending[key]
            # If `close` failed it during `send`, nothing else retrieves its exception.
            if response.done() and not response.cancelled():
                response.exception()

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

    # For the transport

    def feed(self, data: bytes) -> None:
        """Handle one message that was read; never raises, never waits."""
        data = self._redacted.received(data)
        if data.lstrip()[:1] not in (b"{", b"["):
            self._skip(data)  # without parsing it: a server may print a lot of text
            return
        try:
            message = parsed(data, self._limits.values)
        except ValueError:
            self._skip(data)
        except TooManyValues:
            self.refuse(data, f"the response has more than {self._limits.values:,} values (limits.values)")
        except RecursionError:
            self.refuse(data, "the response is nested too deeply to read")
        else:
            for item in cast("list[Any]", message) if isinstance(message, list) else (message,):
                if isinstance(item, dict):
                    self._dispatch(cast(Message, item), data)
                else:
                    self._skip(data)

    def refuse(self, data: bytes, reason: str) -> None:
        """Handle a message that is not read: the request that it answers fails, instead of timing out."""
        found = likely_id(data)
        pending = None if found is None else self._pending.get(found)
        if pending is None:
            self._skip(data)
        else:
            pending.fail(INTERNAL_ERROR, reason)

    def close(self, reason: str) -> None:
        """End the connection; pending requests fail with the reason."""
        if self._closed.is_set():
            return
        self._reason = reason
        self._closed.set()
        for pending in self._pending.values():
            pending.disconnect(reason)

    # Internal

    def _skip(self, data: bytes) -> None:
        self._invalid += 1
        self._on_invalid(self._invalid, data)

    def _dispatch(self, message: Message, data: bytes) -> None:
        method, given = message.get("method"), message.get("id")
        if method is None and type(given) is int and "result" in message:
            self._handle_response(given, message)  # without the checks: every call is here
            return
        request_id = as_request_id(given)
        if isinstance(method, str):
            params = message.get("params")
            known = cast("Mapping[str, Any]", params) if isinstance(params, dict) else None
            if request_id is None:
                self._handle_notification(method, known)
            else:
                self._handle_request(request_id, method, known)
        elif request_id is not None and ("result" in message or "error" in message):
            self._handle_response(request_id, message)
        else:
            self._skip(data)

    def _handle_response(self, request_id: RequestId, message: Message) -> None:
        pending = self._pending.get(coerce_request_id(request_id))
        if pending is None:
            logger.debug("ignored a response to unknown request %r", request_id)
        elif message.get("error") is None and isinstance(message.get("result"), dict):
            pending.resolve(cast(Message, message["result"]))
        else:
            match message:
                case {"error": {"code": int() as code, "message": str() as text}}:
                    pending.fail(
                        code, self._redacted.head(text, self._limits.error), message["error"].get("data")
                    )
                case {"error": object()} if message["error"] is not None:
                    pending.fail(INTERNAL_ERROR, "the server sent a malformed error")
                case _:
                    pending.fail(INTERNAL_ERROR, "the server's response is not a valid result")

    def _handle_notification(self, method: str, params: Mapping[str, Any] | None) -> None:
        if self._handlers is None:
            return
        if method == "notifications/progress" and params is not None:
            self._handle_progress(params)
        elif method == "notifications/cancelled" and params is not None:
            request_id = as_request_id(params.get("requestId"))
            if request_id is not None and (inbound := self._inbound.get(coerce_request_id(request_id))):
                inbound[1].cancel_requested.set()
                inbound[0].cancel()
        if not run_notify_intercept(self._handlers.intercept, method, params):
            self._spawn(self._handlers.on_notify(Inbound(self, self._context, None), method, params))

    def _handle_progress(self, params: Mapping[str, Any]) -> None:
        token = as_request_id(params.get("progressToken"))
        pending = self._pending.get(coerce_request_id(token)) if token is not None else None
        progress = params.get("progress")
        if pending is None or pending.on_progress is None or not isinstance(progress, int | float):
            return
        total, message = params.get("total"), params.get("message")
        try:
            known, whole = float(progress), float(total) if isinstance(total, int | float) else None
        except OverflowError:
            return  # more digits than a float can have: no progress that a caller could show
        self._spawn(pending.on_progress(known, whole, message if isinstance(message, str) else None))

    def _handle_request(self, request_id: RequestId, method: str, params: Mapping[str, Any] | None) -> None:
        if self._handlers is None:
            return
        if method == "ping":
            self._answer_ping(request_id)
            return
        key = coerce_request_id(request_id)
        if len(self._inbound) >= self._limits.requests:
            logger.debug("ignored a request: %d are being answered already", len(self._inbound))
            return
        inbound = Inbound(self, self._context, request_id)
        task = self._spawn(self._respond(self._handlers.on_request, inbound, method, params))
        self._inbound[key] = (task, inbound)
        task.add_done_callback(lambda _: self._inbound.pop(key, None))

    def _answer_ping(self, request_id: RequestId) -> None:
        """Answer with the other pings that wait: one task, however many there are."""
        if len(self._pings) < self._limits.requests:
            self._pings.append(request_id)
        if len(self._pings) == 1:
            self._spawn(self._answer_pings())

    async def _answer_pings(self) -> None:
        try:
            while self._pings:
                await self._send(to_json({"jsonrpc": "2.0", "id": self._pings[0], "result": {}}))
                del self._pings[0]
        finally:
            self._pings.clear()

    async def _respond(
        self, on_request: OnRequest, inbound: "Inbound", method: str, params: Mapping[str, Any] | None
    ) -> None:
        reply: Message = {"jsonrpc": "2.0", "id": inbound.request_id}
        try:
            reply["result"] = await on_request(inbound, method, params)
        except MCPError as error:
            reply["error"] = {"code": error.code, "message": error.message}
        except ValidationError as error:
            logger.debug("the server sent an invalid %s: %s", method, self._redacted(str(error)))
            reply["error"] = {"code": INVALID_PARAMS, "message": "the request is invalid"}
        except Exception:  # a callback failed: respond all the same, or the server would wait
            logger.exception("the handler of %s failed", method)
            reply["error"] = {"code": INTERNAL_ERROR, "message": "the client failed to respond"}
        await self._send(to_json(reply))

    def _spawn(self, work: Awaitable[None]) -> asyncio.Task[None]:
        async def run() -> None:
            try:
                await work
            except Exception:  # a task's edge: a failing callback must not end the connection
                logger.exception("a callback failed")

        task = asyncio.get_running_loop().create_task(run())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _notify_cancelled(self, request_id: RequestId) -> None:
        if not self.notifies_cancel or self._closed.is_set():
            return
        params = {"requestId": request_id, "reason": "cancelled by the caller"}
        with suppress(TimeoutError, MCPError, OSError):
            async with asyncio.timeout(CANCEL_TIMEOUT):
                await self.notify("notifications/cancelled", params)


@dataclass(frozen=True, slots=True)
class _Handlers:
    on_request: OnRequest
    on_notify: OnNotify
    intercept: OnNotifyIntercept | None


@dataclass(slots=True)  # not frozen, which would cost every call
class _Pending:
    response: ResponseFuture
    on_progress: ProgressFnT | None

    def resolve(self, result: Message) -> None:
        if not self.response.done():
            self.response.set_result(result)

    def fail(self, code: int, message: str, data: Any = None) -> None:
        if not self.response.done():
            self.response.set_exception(MCPError(code=code, message=message, data=data))

    def disconnect(self, reason: str) -> None:
        if not self.response.done():
            self.response.set_exception(WireError(reason, sent=True))
