"""The requests and notifications that a server sends: each handled in a task, up to a limit.

A response waits for the handlers of the notifications that came before it, for a moment.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Protocol

import anyio
from mcp.shared.dispatcher import (
    CallOptions,
    OnNotify,
    OnNotifyIntercept,
    OnRequest,
    as_request_id,
    coerce_request_id,
    run_notify_intercept,
)
from mcp.shared.exceptions import MCPError, NoBackChannelError
from mcp.shared.message import MessageMetadata
from mcp.shared.transport_context import TransportContext
from mcp_types import INTERNAL_ERROR, INVALID_PARAMS, RequestId
from pydantic import ValidationError
from pydantic_core import to_json

from toolbus.connect.transports.wire.messages import Message, is_usable_id
from toolbus.connect.transports.wire.pending import DELIVERY, Delivery, ResponseFuture

logger = logging.getLogger("toolbus")
MAX_CALLBACKS = 10_000
"""Notifications that are being handled; more are ignored."""
REPORTS_WITHIN = 1.0
"""Seconds that a response waits for handlers."""
_REPORTING: ContextVar[bool] = ContextVar("toolbus_reporting", default=False)
"""Whether this is in a handler: a call there must not wait for handlers that may wait for it."""


class Notifier(Protocol):
    """Sends notifications to the server."""

    async def notify(
        self, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None = None
    ) -> None: ...


@dataclass(frozen=True, slots=True)
class MessageContext:
    """The context; a client makes no requests of its own while it responds."""

    _peer: Notifier
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
        """Does nothing: a client responds at once."""


class ServerMessages:
    """The messages that a server sends unasked, over one connection."""

    def __init__(
        self,
        peer: Notifier,
        kind: str,
        send: Callable[[bytes], Awaitable[None] | None],
        *,
        redacted: Callable[[str], str],
        most_requests: int,
    ) -> None:
        """`most_requests` is for the requests that are being answered at the same time."""
        self._peer = peer
        self._context = TransportContext(kind=kind, can_send_request=True)
        self._send = send
        self._redacted = redacted
        self._most_requests = most_requests
        self._requests: dict[RequestId, tuple[asyncio.Task[None], MessageContext]] = {}
        self._pings: list[RequestId] = []
        """The pings that are not answered yet."""
        self._tasks: set[asyncio.Task[None]] = set()
        self.reports: dict[asyncio.Task[None], ResponseFuture | None] = {}
        """The notifications that are being handled, and the response that follows each, if that is known."""
        self._notified: MessageContext | None = None
        """The context of every notification, from the first on: making one takes longer than the rest."""
        self._on_request: OnRequest | None = None
        self._on_notify: OnNotify | None = None
        self._intercept: OnNotifyIntercept | None = None

    def serve(self, on_request: OnRequest, on_notify: OnNotify, intercept: OnNotifyIntercept | None) -> None:
        """Begin: until now, messages are ignored."""
        self._on_request, self._on_notify, self._intercept = on_request, on_notify, intercept

    def cancel(self) -> None:
        for task in tuple(self._tasks):
            task.cancel()
        self.reports.clear()  # one that has not begun would not do that itself

    def notified(self, method: str, params: Mapping[str, Any] | None, before: ResponseFuture | None) -> None:
        """Handle a notification; `before` is the response that will follow it, if that is known."""
        if self._on_notify is None:
            return
        if method == "notifications/cancelled" and params is not None:
            request_id = as_request_id(params.get("requestId"))
            if request_id is not None and (inbound := self._requests.get(coerce_request_id(request_id))):
                inbound[1].cancel_requested.set()
                inbound[0].cancel()
        if not run_notify_intercept(self._intercept, method, params):
            context = self._notified = self._notified or MessageContext(self._peer, self._context, None)
            self.report(lambda handle=self._on_notify: handle(context, method, params), before)

    def requested(self, request_id: RequestId, method: str, params: Mapping[str, Any] | None) -> None:
        key, on_request = coerce_request_id(request_id), self._on_request
        if on_request is None or not is_usable_id(request_id):
            return
        if method == "ping":
            self._answer_ping(request_id)
        elif key in self._requests or len(self._requests) >= self._most_requests:
            logger.debug("ignored a request: %d are being answered already", len(self._requests))
        else:
            inbound = MessageContext(self._peer, self._context, request_id)
            task = self.spawn(lambda: self._respond(on_request, inbound, method, params))
            if task is not None:
                self._requests[key] = (task, inbound)
                task.add_done_callback(lambda _: self._requests.pop(key, None))

    def report(self, work: Callable[[], Awaitable[None]], before: ResponseFuture | None) -> None:
        """Run the handler of a notification; responses wait for it."""
        if (task := self.spawn(work, is_report=True)) is not None:
            self.reports[task] = before

    async def reported(self, response: ResponseFuture) -> None:
        """Wait, for a moment, until earlier messages than this response are handled."""
        own = (response,) if _REPORTING.get() else (response, None)
        if not any(before in own for before in self.reports.values()):
            return
        delivery = DELIVERY.get() or Delivery()
        delivery.is_answered = True
        try:
            await asyncio.sleep(0)  # enough for most handlers
            if waiting := [task for task, before in self.reports.items() if before in own]:
                _, late = await asyncio.wait(waiting, timeout=REPORTS_WITHIN)
                for task in late:  # no other response waits for them
                    self.reports.pop(task, None)
        finally:
            delivery.is_answered = False

    def spawn(
        self, work: Callable[[], Awaitable[None]], *, is_report: bool = False
    ) -> asyncio.Task[None] | None:
        """Run a callback in a task; None if there are too many."""
        if len(self._tasks) >= MAX_CALLBACKS:
            return None

        async def run() -> None:
            if is_report:
                _REPORTING.set(True)
            try:
                await work()
            except MCPError as error:  # an answer that could not be sent: the connection reports it
                logger.debug("%s", error)
            except Exception:  # a task's edge: a failing callback must not end the connection
                logger.exception("a callback failed")
            finally:
                self.reports.pop(task, None)

        task = asyncio.get_running_loop().create_task(run())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def _answer_ping(self, request_id: RequestId) -> None:
        """Answer with the other pings that wait: one task, however many there are."""
        if len(self._pings) < self._most_requests:
            self._pings.append(request_id)
        if len(self._pings) == 1:
            self.spawn(self._answer_pings)

    async def _answer_pings(self) -> None:
        try:
            while self._pings:
                await self._write(to_json({"jsonrpc": "2.0", "id": self._pings[0], "result": {}}))
                del self._pings[0]
        finally:
            self._pings.clear()

    async def _respond(
        self, on_request: OnRequest, inbound: MessageContext, method: str, params: Mapping[str, Any] | None
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
        await self._write(_encoded(reply))

    async def _write(self, message: bytes) -> None:
        if (written := self._send(message)) is not None:
            await written


def _encoded(reply: Message) -> bytes:
    try:
        return to_json(reply)
    except ValueError:  # a handler's result that is not JSON
        error = {"code": INTERNAL_ERROR, "message": "the client's answer cannot be written as JSON"}
        return to_json({"jsonrpc": "2.0", "id": reply["id"], "error": error})
