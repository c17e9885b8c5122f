"""Serve one client over stdin and stdout: JSON-RPC messages, one per line.

The client's first request decides which era the connection speaks. Requests are answered concurrently.
"""

import asyncio
import json
import logging
import os
import sys
import threading
from collections.abc import Coroutine
from contextlib import suppress
from queue import SimpleQueue
from typing import Any, BinaryIO, cast

from toolbus.config.settings.limits import ServerLimits
from toolbus.connect.transports.wire.messages import MAX_ID, UnreadableMessage, is_usable_id, parsed
from toolbus.core.values.records import JSON, Era, JSONObject, LogLevel
from toolbus.gateway.gateway import Gateway
from toolbus.gateway.protocol.principal import LOCAL
from toolbus.gateway.protocol.request import ClientExchange
from toolbus.gateway.protocol.sessions import ClientSession, RequestCancelled
from toolbus.gateway.protocol.words import (
    CLIENT_CAPABILITIES,
    INTERNAL_ERROR,
    INVALID_PARAMS,
    INVALID_REQUEST,
    LEVELS,
    LOG_LEVEL,
    MODERN_VERSIONS,
    PROTOCOL_VERSION,
    ProtocolError,
    is_object,
    object_in,
)

logger = logging.getLogger("toolbus")
PARSE_ERROR = -32700
UNSUPPORTED_VERSION = -32022
_LISTEN = "subscriptions/listen"
LINGER = 5.0
"""Seconds for calls in flight to end once the client has closed stdin."""
BACKLOG = 8 << 20
"""Bytes that wait for a client that does not read; then notifications are dropped, and requests wait."""
UNREAD = 300.0
"""Seconds that requests wait for that; then the connection is given up."""
_MOST_LINES = 8
"""Lines that are read ahead."""


async def serve_stdio(
    gateway: Gateway,
    reader: BinaryIO | None = None,
    writer: BinaryIO | None = None,
    *,
    stop: asyncio.Event | None = None,
    drain: float = LINGER,
) -> None:
    """Serve the client at stdin and stdout, or at the given files, until it closes stdin, or until `stop`.

    Calls in flight then have `drain` seconds to end, or a moment if the client has left. From the beginning,
    all other output of this process goes to stderr.
    """
    settings = gateway.settings
    lines = _Lines(_own_stdin() if reader is None else reader, settings.max_message)
    output = _Output(_own_stdout() if writer is None else writer)
    connection = _Connection(gateway, output)
    try:
        while (line := await lines.next(stop)) is not None and await output.has_room(stop):
            connection.take(line)
        is_stopped = stop is not None and stop.is_set()
        await connection.finish(drain if is_stopped else min(drain, LINGER))
    finally:
        lines.close()
        connection.close()
        await output.close()


def _own_stdin() -> BinaryIO:
    """Stdin as a file of our own: Python aborts at its end while a thread still reads from `sys.stdin`."""
    return os.fdopen(os.dup(sys.stdin.fileno()), "rb")


def _own_stdout() -> BinaryIO:
    """Stdout for the protocol alone; from now on everything else that is printed goes to stderr."""
    sys.stdout.flush()
    own = os.fdopen(os.dup(sys.stdout.fileno()), "wb", buffering=0)
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    sys.stdout = sys.stderr
    return cast("BinaryIO", own)


class _Lines:
    """The lines of a file, read by a thread: not every stdin can be waited for in a loop."""

    def __init__(self, file: BinaryIO, most: int) -> None:
        """`most` is for the bytes of a line; of a longer one there is an `UnreadableMessage` instead."""
        self._file = file
        self._most = most
        self._loop = asyncio.get_running_loop()
        self._queue: asyncio.Queue[bytes | UnreadableMessage | None] = asyncio.Queue()
        self._room = threading.Semaphore(_MOST_LINES)
        self._stopping: asyncio.Task[Any] | None = None
        threading.Thread(target=self._read, name="toolbus stdin", daemon=True).start()

    def _read(self) -> None:
        try:
            while line := self._file.readline(self._most + 1):
                taken = line if len(line) <= self._most else self._skip(line)
                self._room.acquire()
                self._put(taken)
        except (OSError, ValueError):  # closed meanwhile
            pass
        self._put(None)

    def _skip(self, line: bytes) -> UnreadableMessage:
        """Read on to the end of a line that is too long."""
        while line and not line.endswith(b"\n"):
            line = self._file.readline(self._most)
        return UnreadableMessage(f"has more than {self._most:,} bytes (serve.max_body)")

    def _put(self, line: bytes | UnreadableMessage | None) -> None:
        try:
            self._loop.call_soon_threadsafe(self._queue.put_nowait, line)
        except RuntimeError:  # the loop has ended
            logger.debug("a line came after the end")

    async def next(self, stop: asyncio.Event | None) -> bytes | UnreadableMessage | None:
        """The next line; None at the end, or when it is time to stop."""
        self._room.release()
        if stop is None:
            return await self._queue.get()
        if self._stopping is None:
            self._stopping = asyncio.create_task(stop.wait())
            self._stopping.add_done_callback(lambda _: self._queue.put_nowait(None))
        return None if stop.is_set() else await self._queue.get()

    def close(self) -> None:
        if self._stopping is not None:
            self._stopping.cancel()


class _Output:
    """Writes messages in a thread, so that a slow client does not block the loop."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._loop = asyncio.get_running_loop()
        self._queue: SimpleQueue[bytes | None] = SimpleQueue()
        self._bytes = 0
        self._is_gone = False
        self._written = asyncio.Event()
        self._thread = threading.Thread(target=self._write, name="toolbus stdout", daemon=True)
        self._thread.start()

    def send(self, message: JSONObject) -> None:
        """Send a message to the client; a notification may be dropped."""
        is_notification = "id" not in message
        if self._is_gone or (is_notification and self._bytes > BACKLOG):
            return
        line = json.dumps(message, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"
        self._bytes += len(line)
        self._queue.put(line)

    async def has_room(self, stop: asyncio.Event | None) -> bool:
        """Wait until the client has read enough, or until `stop`; False if it does not."""
        with suppress(TimeoutError):
            async with asyncio.timeout(UNREAD):
                while self._bytes > BACKLOG and not (self._is_gone or (stop is not None and stop.is_set())):
                    self._written.clear()
                    await _first_of(self._written, stop)
                return True
        logger.warning("the client does not read its messages; its connection is closed")
        return False

    def _write(self) -> None:
        try:
            while (line := self._queue.get()) is not None:
                left = memoryview(line)
                while left:
                    left = left[self._file.write(left) :]
                self._file.flush()
                self._report(-len(line))
        except (OSError, ValueError):  # the client is gone
            logger.debug("the client does not read any more")
            self._is_gone = True
            self._report(0)

    def _report(self, change: int) -> None:
        def count() -> None:
            self._bytes += change
            self._written.set()

        with suppress(RuntimeError):  # the loop has ended
            self._loop.call_soon_threadsafe(count)

    async def close(self) -> None:
        """Write the remaining messages, if the client still reads."""
        self._queue.put(None)
        await asyncio.to_thread(self._thread.join, LINGER)


class _Connection:
    """One client."""

    def __init__(self, gateway: Gateway, output: _Output) -> None:
        self._gateway = gateway
        self._output = output
        self._limits = ServerLimits(values=gateway.settings.max_values)
        self._era: Era | None = None
        self._session: ClientSession | None = None
        self._opening: asyncio.Task[None] | None = None
        self._tasks: dict[str | int, asyncio.Task[None]] = {}
        self._listening: list[asyncio.Task[None]] = []
        """Requests that do not end by themselves."""

    def take(self, line: bytes | UnreadableMessage) -> None:
        """Take one line of the client; it may hold several messages."""
        try:
            if isinstance(line, UnreadableMessage):
                raise line
            if not line.strip():
                return
            value: JSON = parsed(line, self._limits, "serve.max_values")
        except (UnreadableMessage, ValueError) as error:
            reason = f": the message {error}" if isinstance(error, UnreadableMessage) else ""
            self._fail(None, PARSE_ERROR, f"Parse error{reason}")
            return
        for message in cast("list[JSON]", value) if isinstance(value, list) else [value]:
            if isinstance(message, dict):
                self._take_message(cast("JSONObject", message))
            else:
                self._fail(None, INVALID_REQUEST, "a message must be a JSON object")

    def _take_message(self, message: JSONObject) -> None:
        method, number, given = message.get("method"), message.get("id"), message.get("params")
        if not isinstance(method, str):
            if self._session is None or not self._session.answered(message):
                logger.debug("a response to no request was ignored")
            return
        params = cast("JSONObject", given) if isinstance(given, dict) else None
        if "id" not in message:
            self._notified(method, params or {})
        elif (
            not isinstance(number, str | int)
            or not is_usable_id(number)
            or not isinstance(given, dict | None)
        ):
            what = f"an id of at most {MAX_ID:,} characters and params as an object"
            self._fail(None, INVALID_REQUEST, f"a request needs {what}")
        elif number in self._tasks:
            self._fail(number, INVALID_REQUEST, "a request with that id is in progress")
        else:
            self._begin(number, method, params)

    def _begin(self, number: str | int, method: str, params: JSONObject | None) -> None:
        if self._era is None:
            is_modern = method != "initialize" and PROTOCOL_VERSION in object_in(params or {}, "_meta")
            self._era = "modern" if is_modern else "legacy"
        answer = self._answer_modern if self._era == "modern" else self._answer_legacy
        task = asyncio.get_running_loop().create_task(self._respond(number, answer(number, method, params)))
        self._tasks[number] = task
        if method == _LISTEN:
            self._listening.append(task)
        task.add_done_callback(lambda _: self._tasks.pop(number, None))
        if method == "initialize":
            self._opening = task

    def _notified(self, method: str, params: JSONObject) -> None:
        if self._session is not None:
            self._gateway.notified(self._session, method, params)
        elif self._era == "modern" and method == "notifications/cancelled":
            task = self._tasks.get(cast("str", params.get("requestId")))
            if task is not None:
                task.cancel()

    async def _respond(self, number: str | int, answer: Coroutine[Any, Any, JSONObject]) -> None:
        try:
            result = await answer
        except ProtocolError as error:
            self._output.send({"jsonrpc": "2.0", "id": number, "error": error.json})
        except RequestCancelled:
            logger.debug("request %r was cancelled", number)
        except Exception:  # a bug of ours must not end the connection
            logger.exception("request %r failed", number)
            self._fail(number, INTERNAL_ERROR, "Internal error")
        else:
            self._output.send({"jsonrpc": "2.0", "id": number, "result": result})
        self._gateway.answered()

    def _fail(self, number: str | int | None, code: int, message: str) -> None:
        self._output.send({"jsonrpc": "2.0", "id": number, "error": {"code": code, "message": message}})

    async def _answer_modern(self, number: str | int, method: str, params: JSONObject | None) -> JSONObject:
        if method == "initialize":
            versions = {"supported": list(MODERN_VERSIONS)}
            wanted: JSON = (params or {}).get("protocolVersion")
            data = {**versions, "requested": wanted} if isinstance(wanted, str) else versions
            raise ProtocolError(UNSUPPORTED_VERSION, "this connection speaks the modern protocol", data)
        meta = object_in(params or {}, "_meta")
        version, capabilities = meta.get(PROTOCOL_VERSION), meta.get(CLIENT_CAPABILITIES)
        if version not in MODERN_VERSIONS or not is_object(capabilities):
            raise _rejection(method, params)
        exchange = ClientExchange(
            principal=LOCAL,
            era="modern",
            version=version,
            capabilities=capabilities,
            id=number,
            channel=self._output,
            meta=meta,
            log_level=_level(meta.get(LOG_LEVEL)),
        )
        return await self._gateway.answer(exchange, method, params)

    async def _answer_legacy(self, number: str | int, method: str, params: JSONObject | None) -> JSONObject:
        if method == "initialize":
            if self._session is not None:
                raise ProtocolError(INVALID_REQUEST, "the connection is initialized already")
            self._session, result = await self._gateway.initialize(LOCAL, params)
            self._session.standalone = self._output
            return result
        if PROTOCOL_VERSION in object_in(params or {}, "_meta"):
            raise ProtocolError(INVALID_REQUEST, "this connection speaks the legacy protocol")
        if self._opening is not None and not self._opening.done():
            await asyncio.shield(self._opening)
        if self._session is None:
            if method == "ping":
                return {}
            raise ProtocolError(INVALID_REQUEST, "the connection is not initialized")
        exchange = ClientExchange.of_session(self._session, LOCAL, number, params, self._output)
        return await self._gateway.answer(exchange, method, params)

    async def finish(self, drain: float) -> None:
        for task in self._listening:
            task.cancel()
        if self._tasks:
            await asyncio.wait(tuple(self._tasks.values()), timeout=drain)

    def close(self) -> None:
        for task in tuple(self._tasks.values()):
            task.cancel()
        if self._session is not None:
            self._gateway.sessions.close(self._session.id)


async def _first_of(*events: asyncio.Event | None) -> None:
    waiting = [asyncio.ensure_future(event.wait()) for event in events if event is not None]
    try:
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for one in waiting:
            one.cancel()


def _rejection(method: str, params: JSONObject | None) -> ProtocolError:
    """The reason why a request is not one of the modern era, in the words of the SDK."""
    from mcp.shared.inbound import InboundLadderRejection, classify_inbound_request

    route = classify_inbound_request({"method": method, "params": params})
    if isinstance(route, InboundLadderRejection):
        return ProtocolError(route.code, route.message, route.data)
    return ProtocolError(INVALID_PARAMS, "the capabilities of the client must be an object")


def _level(given: JSON) -> LogLevel | None:
    return given if given in LEVELS else None
