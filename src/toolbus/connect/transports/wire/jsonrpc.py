"""The SDK's `Dispatcher` over any transport that reads and writes whole JSON-RPC messages.

`JsonRpcPeer` matches responses to requests with futures that the reading side resolves directly: no
streams, no task per call. The transport calls `feed` with each message it reads and provides a `send`
that writes one; over HTTP, `send` also feeds the response. An invalid message affects only itself.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Mapping
from contextlib import suppress
from itertools import count
from math import isfinite
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
)
from mcp.shared.exceptions import MCPError
from mcp_types import INTERNAL_ERROR, REQUEST_TIMEOUT, RequestId
from pydantic_core import to_json

from toolbus.config import ServerConfig
from toolbus.config.secrets.redact import Redactor
from toolbus.connect.transports.wire.incoming import ServerMessages
from toolbus.connect.transports.wire.messages import (
    Message,
    TooDeep,
    UnreadableMessage,
    encoded_request,
    likely_id,
    parsed,
    without_deep_parts,
)
from toolbus.connect.transports.wire.pending import NotSendable, PendingRequest, ResponseFuture, WireError
from toolbus.core.loop import Flag
from toolbus.core.operation.tracing import ConnectionFacts

logger = logging.getLogger("toolbus")


class Send(Protocol):
    """Writes one message; a request waits for `response`, and HTTP also sends the SDK's `headers`.

    Returns None if it is written already, so that this needs no coroutine.
    """

    def __call__(
        self, data: bytes, headers: Mapping[str, str] | None = None, response: ResponseFuture | None = None
    ) -> Awaitable[None] | None: ...


MAX_BATCH = 1_000
"""Messages in one."""
FLOOD_WINDOW = 60.0
"""Seconds in which a server may send `limits.unasked` messages."""
CANCEL_TIMEOUT = 1.0
"""Seconds that notifying the server of a cancelled request may take."""


class JsonRpcPeer:
    """One JSON-RPC connection: a `Dispatcher` for the SDK, `feed` and `close` for the transport."""

    def __init__(
        self,
        kind: str,
        send: Send,
        *,
        redacted: Redactor,
        on_invalid: Callable[[int, bytes], None],
        on_flood: Callable[[str], None] = lambda reason: None,
        config: ServerConfig,
    ) -> None:
        """`on_flood` is called with the reason when the connection ends because of too many messages."""
        self._send = send
        self._config = config
        self.connection = ConnectionFacts(transport="pipe" if kind == "stdio" else "tcp")
        self._limits = config.limits
        self._redacted = redacted
        self._on_invalid = on_invalid
        self._on_flood = on_flood
        self._invalid = 0
        self._unasked = 0
        """Messages that answer nothing, since `_counted_from`."""
        self._counted_from = 0.0
        self._ids = count(1)
        self._pending: dict[RequestId, PendingRequest] = {}
        self._incoming = ServerMessages(
            self, kind, send, redacted=redacted, most_requests=config.limits.requests
        )
        self.notifies_cancel = True
        """Whether a cancelled request needs a notification; in modern HTTP disconnecting is enough."""
        self._before: ResponseFuture | None = None
        """The response that will follow the message that is being handled, if that is known."""
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
        self._incoming.serve(on_request, on_notify, on_notify_intercept)
        task_status.started()
        try:
            await self._closed.wait()
        finally:
            self.close(self._reason)
            self._incoming.cancel()

    async def send_raw_request(
        self, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None = None
    ) -> Message:
        """Send a request and wait for its response; the server is notified if the wait is cancelled."""
        opts = opts or {}
        request_id = opts.get("request_id") or next(self._ids)
        if coerce_request_id(request_id) in self._pending:
            raise ValueError(f"request id {request_id!r} is already in flight")
        body = dict(params or {})
        on_progress, cancellable = opts.get("on_progress"), opts.get("cancel_on_abandon", True)
        try:
            meta = to_json(body.pop("_meta", None) or {})
            data = encoded_request(
                *(request_id, method, to_json(body), meta, on_progress is not None),
                *(self._config.baggage, self.connection),
            )
        except (ValueError, TypeError) as error:
            raise NotSendable(str(error)) from error
        wait = self._exchange(
            coerce_request_id(request_id),
            data,
            opts.get("headers"),
            on_progress,
            cancellable=cancellable,
            is_list=method.endswith("/list"),
        )
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
        data = encoded_request(
            request_id, method, params, meta, on_progress is not None, self._config.baggage, self.connection
        )
        return self._exchange(request_id, data, headers, on_progress)

    async def _exchange(
        self,
        request_id: RequestId,
        data: bytes,
        headers: Mapping[str, str] | None,
        on_progress: ProgressFnT | None,
        *,
        cancellable: bool = True,
        is_list: bool = False,
    ) -> Message:
        """Write a request and wait for its response; if the wait is cancelled, notify the server."""
        if self._closed.is_set():
            raise WireError(self._reason, sent=False)
        response: ResponseFuture = asyncio.get_running_loop().create_future()
        self._pending[request_id] = PendingRequest(response, on_progress, is_list)
        try:
            if (written := self._send(data, headers, response)) is not None:
                await written
            return await response
        except BaseException as error:
            if cancellable and isinstance(error, asyncio.CancelledError):
                await self._notify_cancelled(request_id)
            # If `close` failed it during `send`, nothing else retrieves its exception.
            if response.done() and not response.cancelled():
                response.exception()
            raise
        finally:
            del self._pending[request_id]
            if self._incoming.reports and response.done():
                await self._incoming.reported(response)

    async def notify(
        self, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None = None
    ) -> None:
        """Send a notification; on a closed connection it is dropped."""
        if self._closed.is_set():
            return
        message: Message = {"jsonrpc": "2.0", "method": method}
        if params is not None:
            message["params"] = params
        if (written := self._send(to_json(message), opts.get("headers") if opts else None)) is not None:
            await written

    # For the transport

    @property
    def in_flight(self) -> Collection[object]:
        """The requests that have no response yet."""
        return self._pending.keys()

    def feed(self, data: bytes, before: ResponseFuture | None = None) -> None:
        """Handle one message that was read; never raises, never waits.

        `before` is the response that ends the stream of the message, if it is the stream of one request.
        """
        self._before = before
        data = self._redacted.received(data)
        if data.lstrip()[:1] not in (b"{", b"["):
            self._skip(data)  # without parsing it: a server may print a lot of text
            return
        try:
            message = parsed(data, self._limits)
        except ValueError:
            self._skip(data)
        except UnreadableMessage as problem:
            self._feed_unreadable(data, problem)
        else:
            if message.__class__ is dict:  # every call is here
                self._dispatch(message, data)
            else:
                self._dispatch_all(message, data)

    def _feed_unreadable(self, data: bytes, problem: UnreadableMessage) -> None:
        found = likely_id(data)
        pending = None if found is None else self._pending.get(found)
        if isinstance(problem, TooDeep) and pending is not None and pending.is_list:
            # So that one deep item costs only itself.
            with suppress(ValueError, UnreadableMessage):
                limits = self._limits
                self._dispatch_all(parsed(without_deep_parts(data, limits.depth), limits), data)
                return
        self.refuse(data, f"the response {problem}")

    def _dispatch_all(self, message: Any, data: bytes) -> None:
        batch = cast("list[Any]", message) if isinstance(message, list) else (message,)
        if len(batch) > MAX_BATCH:
            self.refuse(data, f"the response is one of more than {MAX_BATCH:,} messages in one")
            return
        for item in batch:
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
        self._count_unasked()

    def _count_unasked(self) -> None:
        """Count a message that answers nothing; a server that sends too many is disconnected."""
        self._unasked += 1
        limit = self._limits.unasked
        if self._unasked == 1:
            self._counted_from = asyncio.get_running_loop().time()
        elif self._unasked > limit and not self._closed.is_set():
            if asyncio.get_running_loop().time() - self._counted_from < FLOOD_WINDOW:
                reason = f"the server sent more than {limit:,} messages in a minute unasked (limits.unasked)"
                self._on_flood(reason)
                self.close(reason)
            self._unasked = 0

    def _dispatch(self, message: Message, data: bytes) -> None:
        method, given = message.get("method"), message.get("id")
        if method is None and type(given) is int and (pending := self._pending.get(given)) is not None:
            # Without the other checks: every call is here.
            result = message.get("result")
            if result.__class__ is dict and message.get("error") is None:
                if not pending.response.done():
                    pending.response.set_result(cast(Message, result))
                return
        request_id = as_request_id(given)
        if isinstance(method, str):
            params = message.get("params")
            known = cast("Mapping[str, Any]", params) if isinstance(params, dict) else None
            is_progress = method == "notifications/progress" and known is not None and request_id is None
            if not is_progress or not self._handle_progress(known or {}):
                self._count_unasked()
            if request_id is not None:
                self._incoming.requested(request_id, method, known)
            else:
                self._incoming.notified(method, known, self._before)
        elif request_id is not None and ("result" in message or "error" in message):
            self._handle_response(request_id, message)
        else:
            self._skip(data)

    def _handle_response(self, request_id: RequestId, message: Message) -> None:
        pending = self._pending.get(coerce_request_id(request_id))
        if pending is None:
            logger.debug("ignored a response to unknown request %r", request_id)
            self._count_unasked()
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

    def _handle_progress(self, params: Mapping[str, Any]) -> bool:
        """Report the progress of a request; False if nobody follows such a request."""
        token = as_request_id(params.get("progressToken"))
        pending = self._pending.get(coerce_request_id(token)) if token is not None else None
        progress = params.get("progress")
        if pending is None or pending.on_progress is None or not isinstance(progress, int | float):
            return False
        total, message = params.get("total"), params.get("message")
        try:
            known, whole = float(progress), float(total) if isinstance(total, int | float) else None
        except OverflowError:
            return False  # more digits than a float can have: no progress that a caller could show
        if isfinite(known) and (whole is None or isfinite(whole)):
            text = message[: self._limits.error] if isinstance(message, str) else None
            report = pending.on_progress
            self._incoming.report(lambda: report(known, whole, text), pending.response)
        return True

    async def _notify_cancelled(self, request_id: RequestId) -> None:
        if not self.notifies_cancel or self._closed.is_set():
            return
        params = {"requestId": request_id, "reason": "cancelled by the caller"}
        with suppress(TimeoutError, MCPError, OSError):
            async with asyncio.timeout(CANCEL_TIMEOUT):
                await self.notify("notifications/cancelled", params)
