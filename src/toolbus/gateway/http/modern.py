"""Answers over HTTP, and the modern era there: each POST is one request that says all about itself.

The response is JSON, unless something has to be sent before it; closing the connection cancels the request.
"""

import asyncio
import logging
import time
from collections.abc import Coroutine, Mapping
from typing import Any, NamedTuple, get_args

from mcp.shared.inbound import (
    ERROR_CODE_HTTP_STATUS,
    InboundLadderRejection,
    InboundModernRoute,
    classify_inbound_request,
    decode_header_value,
    find_duplicated_routing_header,
    unsupported_protocol_version_rejection,
)
from mcp_types import HEADER_MISMATCH, INTERNAL_ERROR, INVALID_PARAMS, LOG_LEVEL_META_KEY

from toolbus.core.ask.interactions import Stopwatch
from toolbus.core.values.records import JSON, JSONObject, LogLevel
from toolbus.gateway.calls.queue import Busy
from toolbus.gateway.gateway import Gateway
from toolbus.gateway.http.limits import HttpLimits, Refusals
from toolbus.gateway.http.request import Headers, HttpRequest, encoded, event, failure, response
from toolbus.gateway.http.streams import KEEPALIVE, woken
from toolbus.gateway.metrics import Metrics, error_kind
from toolbus.gateway.protocol.request import ClientExchange
from toolbus.gateway.protocol.sessions import RequestCancelled
from toolbus.gateway.protocol.words import BUSY, RETRY_AFTER, ProtocolError, WrongReplica, is_object

logger = logging.getLogger("toolbus")

LISTEN = "subscriptions/listen"
_LEVELS = frozenset(get_args(LogLevel))
_TASK_METHODS = frozenset(("tasks/get", "tasks/update", "tasks/cancel"))


TOO_MANY = 429
REQUEST_CANCELLED = -32800
"""The error of a legacy request that its client cancelled: its stream ends only with a response."""


class Outcome(NamedTuple):
    """The end of a request."""

    message: JSONObject | None
    """The JSON-RPC response; None if there is none."""
    status: int = 200
    """The HTTP status, for a modern client that gets the response as JSON."""
    error: str | None = None
    """The kind of the error, if it is one."""
    headers: Headers = ()
    """More headers, if it is not in a stream."""


CANCELLED = Outcome(None, error="cancelled")
"""The client has left."""
ENDED = Outcome(None)
"""A stream that we end."""


async def answered(
    gateway: Gateway, exchange: ClientExchange, method: str, params: JSONObject | None
) -> Outcome:
    """Have the gateway answer a request."""
    request_id = exchange.id
    try:
        result = await gateway.answer(exchange, method, params)
    except Busy as error:
        retry = (b"retry-after", b"%d" % error.retry_after)
        return Outcome(failure(request_id, error.json), TOO_MANY, "busy", (retry,))
    except ProtocolError as error:
        status = TOO_MANY if error.code == BUSY else ERROR_CODE_HTTP_STATUS.get(error.code, 200)
        retry = _retry_header(error.data, "retryAfter")
        return Outcome(failure(request_id, error.json), status, error_kind(error.code), retry)
    except RequestCancelled:
        cancelled = {"code": REQUEST_CANCELLED, "message": "Request cancelled"}
        return Outcome(failure(request_id, cancelled), error="cancelled")
    except WrongReplica:
        raise
    except Exception:  # the edge of a task: a client gets an answer to each request
        logger.exception("could not answer %s", method if method.isprintable() else "a request")
        return Outcome(
            failure(request_id, {"code": INTERNAL_ERROR, "message": "Internal error"}), error="internal_error"
        )
    if method == "tools/call" and result.get("isError") is True:
        retry = _retry_header(result.get("_meta"), RETRY_AFTER)
        return Outcome(response(request_id, result), error="tool_error", headers=retry)
    return Outcome(response(request_id, result))


def _retry_header(holder: JSON, key: str) -> Headers:
    """The header with the time of the next try, if an answer has one."""
    seconds: JSON = holder.get(key) if is_object(holder) else None
    return ((b"retry-after", b"%d" % seconds),) if type(seconds) is int and seconds > 0 else ()


class ModernFront:
    def __init__(self, gateway: Gateway, metrics: Metrics, limits: HttpLimits, refusals: Refusals) -> None:
        self._gateway = gateway
        self._metrics = metrics
        self._limits = limits
        self._refusals = refusals
        self._open: dict[ResponseStream, float] = {}
        """The requests in flight and when they began, the oldest first."""
        self._listening: set[asyncio.Task[Outcome]] = set()
        """Streams that end only with the client or with us."""

    async def notified(self, http: HttpRequest) -> None:
        """Take a notification. The era has none for servers over HTTP, but clients send some."""
        version = http.headers.get("mcp-protocol-version", "")
        unsupported = unsupported_protocol_version_rejection(version)
        if unsupported is None:
            await http.respond(202)
        else:
            await _reject(http, None, unsupported)

    async def serve(self, http: HttpRequest, message: Mapping[str, Any]) -> None:
        request_id: str | int = message["id"]
        method: str = message["method"]
        route = self._classified(http, message)
        if isinstance(route, InboundLadderRejection):
            self._metrics.ended(method, 0.0, "rejected")
            return await _reject(http, request_id, route)
        params: dict[str, Any] = message["params"]
        meta: dict[str, Any] = params["_meta"]
        http.is_endless = method == LISTEN
        stream = ResponseStream(http, self._limits, self._refusals)
        exchange = ClientExchange(
            principal=http.principal,
            headers=http.headers,
            era="modern",
            version=route.protocol_version,
            capabilities=route.client_capabilities,
            id=request_id,
            channel=stream,
            meta=meta,
            log_level=meta.get(LOG_LEVEL_META_KEY),
            size=http.size,
        )
        self._open[stream] = time.perf_counter()
        watch, outcome = Stopwatch(), CANCELLED
        try:
            answer = answered(self._gateway, exchange, method, params)
            outcome = await (answer if method != LISTEN else self._listen(answer))
            if outcome.status == TOO_MANY:
                await asyncio.sleep(self._limits.refusal_seconds)
            await stream.finish(outcome)
        except WrongReplica:
            outcome = ENDED  # here
            raise
        finally:
            stream.close()
            del self._open[stream]
            self._metrics.ended(method, watch.seconds, outcome.error)
        return None

    async def _listen(self, answer: Coroutine[Any, Any, Outcome]) -> Outcome:
        task = asyncio.create_task(answer)
        self._listening.add(task)
        try:
            return await task
        except asyncio.CancelledError:
            current = asyncio.current_task()
            if current is not None and current.cancelling():
                raise
            return ENDED
        finally:
            self._listening.discard(task)

    def tick(self) -> None:
        """Begin the event streams of requests that take long, so that a proxy does not give them up."""
        before = time.perf_counter() - self._limits.keepalive_seconds
        for stream, started in self._open.items():
            if started > before:
                break
            stream.begin()

    def end_streams(self) -> None:
        for task in self._listening:
            task.cancel()

    def _classified(
        self, http: HttpRequest, message: Mapping[str, Any]
    ) -> InboundModernRoute | InboundLadderRejection:
        headers = http.headers
        if http.repeated and (name := find_duplicated_routing_header(http.repeated)) is not None:
            return InboundLadderRejection(HEADER_MISMATCH, f"{name} header appears more than once")
        route = classify_inbound_request(message, headers=headers)
        if isinstance(route, InboundLadderRejection):
            return route
        if not isinstance(route.client_capabilities, dict):
            return InboundLadderRejection(INVALID_PARAMS, "the client capabilities must be an object")
        if not isinstance(route.client_info, dict | None):
            return InboundLadderRejection(INVALID_PARAMS, "the client info must be an object")
        method, params = message["method"], message["params"]
        level = params["_meta"].get(LOG_LEVEL_META_KEY)
        if level is not None and level not in _LEVELS:
            return InboundLadderRejection(INVALID_PARAMS, "the log level is not one of the protocol")
        name = headers.get("mcp-name")
        if name is not None and method in _TASK_METHODS and decode_header_value(name) != params.get("taskId"):
            return InboundLadderRejection(HEADER_MISMATCH, "mcp-name header does not match the task")
        return route


class ResponseStream:
    """The channel of one request.

    The response becomes an event stream when a message is sent before it, or if it takes long.
    """

    def __init__(self, http: HttpRequest, limits: HttpLimits, refusals: Refusals) -> None:
        self._http = http
        self._limits = limits
        self._refusals = refusals
        self._waiting: list[bytes] = []
        self._bytes = 0
        self._has_ended = False
        self._writer: asyncio.Task[None] | None = None
        self._wake: asyncio.Event | None = None

    def send(self, message: JSONObject) -> None:
        if self._has_ended:
            return
        data = event(encoded(message))
        self._bytes += len(data)
        if self._bytes > self._limits.backlog_bytes:
            self._refusals.note("slow_reader", self._http.facts.address, "it reads a stream too slowly")
            self._has_ended = True
            self._http.connection.abort()
            return
        self._waiting.append(data)
        if self._wake is None:
            self.begin()
        else:
            self._wake.set()

    async def finish(self, outcome: Outcome) -> None:
        if self._writer is None:
            return await self._http.respond_json(outcome.status, outcome.message, outcome.headers)
        assert self._wake is not None
        if not self._has_ended:
            if outcome.message is not None:
                self._waiting.append(event(encoded(outcome.message)))
            self._has_ended = True
            self._wake.set()
        await self._writer
        return None

    def close(self) -> None:
        self._has_ended = True
        if self._writer is not None:
            self._writer.cancel()

    def begin(self) -> None:
        """Begin the event stream, if there is none yet."""
        if self._writer is None and not self._has_ended:
            self._wake = asyncio.Event()
            self._writer = asyncio.create_task(self._write(self._wake))

    async def _write(self, wake: asyncio.Event) -> None:
        http = self._http
        await http.start_stream()
        while True:
            wake.clear()
            if self._waiting:
                data, self._waiting, self._bytes = b"".join(self._waiting), [], 0
                await http.write(data)
                continue
            if self._has_ended:
                return await http.end_stream()
            if not await woken(wake, self._limits.keepalive_seconds):
                await http.write(KEEPALIVE)


async def _reject(http: HttpRequest, request_id: str | int | None, rejection: InboundLadderRejection) -> None:
    error: dict[str, Any] = {"code": rejection.code, "message": rejection.message}
    if rejection.data is not None:
        error["data"] = rejection.data
    await http.respond_error(ERROR_CODE_HTTP_STATUS.get(rejection.code, 400), error, request_id)
