"""The sessions of legacy clients: what each declared, its open requests, and questions that it has to answer.

A session belongs to the principal that opened it; nobody else can use it.
"""

import asyncio
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from itertools import islice
from typing import Protocol, cast

from toolbus.core.ask.interactions import ClientError
from toolbus.core.values.records import JSONObject, LogLevel
from toolbus.gateway.protocol.principal import Principal
from toolbus.gateway.protocol.words import ELICITATION, INTERNAL_ERROR, INVALID_REQUEST, can_ask


class Channel(Protocol):
    """The channel for messages to a client."""

    def send(self, message: JSONObject) -> None:
        """Send a JSON-RPC message; never waits, and drops it if the client is gone."""
        ...


MAX_WAITING = 1000
"""Notifications that are kept while a client has no stream for them; further ones replace the oldest."""
_LOOKED_AT = 10
"""Sessions among which one is chosen that has to end."""


class ClientSession:
    """One session of a legacy client."""

    def __init__(
        self,
        *,
        name: str,
        principal: Principal,
        version: str,
        capabilities: JSONObject,
        answer_within: float = 600.0,
        tag: str = "",
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        """`tag` is a part of the ids of its questions."""
        self.id = name
        self.principal = principal
        self.version = version
        """The protocol version that was negotiated."""
        self.capabilities = capabilities
        """As a modern client would declare them."""
        self.log_level: LogLevel | None = None
        """Set by `logging/setLevel`; None for the default."""
        self.subscriptions: set[str] = set()
        """The URIs of the resources that it subscribed to, as this gateway shows them."""
        self.last_used = now()
        self._now = now
        self._answer_within = answer_within
        self._tag = tag
        self._standalone: Channel | None = None
        self._waiting: dict[str, JSONObject] = {}
        """Messages that came while there was no stream for them, by subject."""
        self._asked: dict[str | int, asyncio.Future[JSONObject]] = {}
        self._next_id = 0
        self._running: dict[str | int, asyncio.Task[object]] = {}
        self._cancelled: set[str | int] = set()
        self._on_close: list[Callable[[], None]] = []
        self.closed = False
        self.is_doubtful = False
        """Whether another replica may have it now: that is to be found out before its next request."""
        self.has_moved = False
        """Whether another replica does; the requests that are in flight here still end here."""

    def touch(self) -> None:
        self.last_used = self._now()

    @property
    def is_busy(self) -> bool:
        """Whether it has requests in flight, or a stream for notifications; it does not expire then."""
        return bool(self._running) or self._standalone is not None

    # What the client gets unasked

    @property
    def standalone(self) -> Channel | None:
        """The stream for messages that belong to no request: its pipe, or its GET stream if it has one."""
        return self._standalone

    @standalone.setter
    def standalone(self, channel: Channel | None) -> None:
        self._standalone = channel
        self.touch()
        if channel is not None:
            waiting, self._waiting = self._waiting, {}
            for message in waiting.values():
                channel.send(message)

    def notify(self, method: str, params: JSONObject | None = None, about: str = "") -> None:
        """Send a notification that belongs to no request; without a stream it is kept, once per `about`."""
        message: JSONObject = {"jsonrpc": "2.0", "method": method}
        if params is not None:
            message = {**message, "params": params}
        if self._standalone is not None:
            self._standalone.send(message)
            return
        self._waiting[f"{method} {about}"] = message
        if len(self._waiting) > MAX_WAITING:
            del self._waiting[next(iter(self._waiting))]

    # Questions

    async def ask(self, channel: Channel, method: str, params: JSONObject | None) -> JSONObject:
        """Put a request to the client, on the stream of the request that caused it; returns its result.

        `ClientError` if the client answers with an error, leaves, or takes too long.
        """
        if self.closed:
            raise ClientError(INTERNAL_ERROR, "the session has ended")
        self._next_id += 1
        number = f"toolbus-{self._tag}{self._next_id}"
        request: JSONObject = {"jsonrpc": "2.0", "id": number, "method": method}
        if params is not None:
            request = {**request, "params": params}
        answered: asyncio.Future[JSONObject] = asyncio.get_running_loop().create_future()
        self._asked[number] = answered
        channel.send(request)
        try:
            async with asyncio.timeout(self._answer_within):
                return await answered
        except TimeoutError:
            self._withdraw(channel, number, "no answer in time")
            seconds = round(self._answer_within)
            raise ClientError(INTERNAL_ERROR, f"the client did not answer within {seconds} s") from None
        except asyncio.CancelledError:
            self._withdraw(channel, number, "the request that caused it has ended")
            raise
        finally:
            self._asked.pop(number, None)

    @staticmethod
    def _withdraw(channel: Channel, number: str, reason: str) -> None:
        params = {"requestId": number, "reason": reason}
        channel.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params})

    def answered(self, message: JSONObject) -> bool:
        """Take a response of the client; False if nothing was asked under its id."""
        self.touch()
        asked = self._asked.get(cast("str", message.get("id")))
        if asked is None or asked.done():
            return False
        error = message.get("error")
        result = message.get("result")
        if isinstance(error, dict):
            asked.set_exception(_client_error(cast("JSONObject", error)))
        elif isinstance(result, dict):
            asked.set_result(cast("JSONObject", result))
        else:
            asked.set_exception(ClientError(INTERNAL_ERROR, "the client sent neither a result nor an error"))
        return True

    # Requests in flight

    @contextmanager
    def running(self, number: str | int) -> Generator[None]:
        """A block that answers a request of the client in the current task, so that `cancel` reaches it.

        Raises `RequestCancelled` if the client cancels it.
        """
        task = asyncio.current_task()
        assert task is not None, "requests are answered in tasks"
        self.touch()
        self._running[number] = task
        try:
            yield
        except asyncio.CancelledError:
            if number in self._cancelled:
                task.uncancel()
                raise RequestCancelled from None
            raise
        finally:
            self._cancelled.discard(number)
            if self._running.get(number) is task:
                del self._running[number]
            self.touch()

    def cancel(self, number: str | int) -> bool:
        """Cancel a request in flight; False if there is none with that id."""
        task = self._running.get(number)
        if task is None or number in self._cancelled:
            return False
        self._cancelled.add(number)
        task.cancel()
        return True

    # The end

    def on_close(self, end: Callable[[], None]) -> None:
        self._on_close.append(end)

    def close(self) -> None:
        """End it: its requests are cancelled, its questions fail."""
        if self.closed:
            return
        self.closed = True
        for asked in self._asked.values():
            if not asked.done():
                asked.set_exception(ClientError(INTERNAL_ERROR, "the session has ended"))
        for number in tuple(self._running):
            self.cancel(number)
        self._waiting.clear()
        for end in self._on_close:
            end()


class RequestCancelled(Exception):
    """The client cancelled its request: nothing is sent for it any more."""


class ClientSessions:
    """The sessions of all legacy clients."""

    def __init__(
        self,
        max_sessions: int = 10_000,
        idle: float = 3600.0,
        answer_within: float = 600.0,
        now: Callable[[], float] = time.monotonic,
        tag: str = "",
    ) -> None:
        """A session ends after `idle` seconds without use.

        If there are too many, the longest idle one of the principal that has the most ends.
        """
        self._by_id: dict[str, ClientSession] = {}
        self._by_holder: dict[str, OrderedDict[str, ClientSession]] = {}
        """The same, those that were not used for the longest time first."""
        self._max = max_sessions
        self._idle = idle
        self._answer_within = answer_within
        self._now = now
        self._tag = tag

    def __len__(self) -> int:
        return len(self._by_id)

    def __iter__(self) -> Iterator[ClientSession]:
        return iter(tuple(self._by_id.values()))

    def open(
        self,
        principal: Principal,
        version: str,
        capabilities: JSONObject,
        name: str = "",
    ) -> ClientSession:
        """A new session, with an id that nobody can guess; or one with that id, which another replica had."""
        if len(self._by_id) >= self._max:
            self._make_room(principal.holder)
        session = ClientSession(
            name=name or secrets.token_urlsafe(24),
            principal=principal,
            version=version,
            capabilities=capabilities,
            answer_within=self._answer_within,
            tag=self._tag,
            now=self._now,
        )
        self._by_id[session.id] = session
        self._by_holder.setdefault(principal.holder, OrderedDict())[session.id] = session
        return session

    def _make_room(self, holder: str) -> None:
        """End a session of the holder with the most; on a tie, of the holder that wants another one."""
        own = self._by_holder.get(holder)
        most = max(self._by_holder.values(), key=len)
        some = most if own is None or len(own) < len(most) else own
        first = list(islice(some.values(), _LOOKED_AT))
        self.close(next((one for one in first if not one.is_busy), first[0]).id)

    def get(self, name: str, principal: Principal) -> ClientSession | None:
        """The session with that id, if this principal opened it and it has not ended.

        A principal whose view or user has changed needs another session: this one would keep the old ones.
        """
        session = self._by_id.get(name)
        if session is None or not session.principal.is_like(principal):
            return None
        if self._has_expired(session):
            self.close(name)
            return None
        session.touch()
        self._by_holder[session.principal.holder].move_to_end(name)
        return session

    def close(self, name: str) -> None:
        session = self._by_id.pop(name, None)
        if session is not None:
            holder = session.principal.holder
            del self._by_holder[holder][name]
            if not self._by_holder[holder]:
                del self._by_holder[holder]
            session.close()

    def close_all(self) -> None:
        for name in tuple(self._by_id):
            self.close(name)

    def end_idle(self) -> None:
        for session in tuple(self._by_id.values()):
            if self._has_expired(session):
                self.close(session.id)

    def _has_expired(self, session: ClientSession) -> bool:
        return not session.is_busy and self._now() - session.last_used > self._idle


def _client_error(error: JSONObject) -> ClientError:
    code, message = error.get("code"), error.get("message")
    return ClientError(
        code if isinstance(code, int) else INTERNAL_ERROR,
        message if isinstance(message, str) else "the client reported an error",
        error.get("data"),
    )


_FIRST_WITH_MODES = "2025-11-25"


class StandaloneClient:
    """A legacy client with connections of its own: it is also asked what belongs to none of its requests."""

    def __init__(self, session: ClientSession) -> None:
        self.capabilities = session.capabilities
        self._session = session

    async def ask(self, server: str, method: str, params: JSONObject) -> JSONObject:
        """Put a server's request to the client, on the stream of its session."""
        if self._session.standalone is None:
            raise ClientError(INVALID_REQUEST, "the client has no stream for requests")
        return await SessionClient(self._session, self._session.standalone).ask(server, method, params)


class SessionClient:
    """A legacy client, which is asked on the stream of its request."""

    def __init__(self, session: ClientSession, channel: Channel) -> None:
        self.capabilities = session.capabilities
        self._session = session
        self._channel = channel

    async def ask(self, server: str, method: str, params: JSONObject) -> JSONObject:
        """Put a server's request to the client; returns its result as sent."""
        if not can_ask(self.capabilities, method, params):
            raise ClientError(INVALID_REQUEST, f"the client does not support {method}")
        return await self._session.ask(self._channel, method, self._legacy_params(method, params))

    def _legacy_params(self, method: str, params: JSONObject) -> JSONObject | None:
        if method != ELICITATION:
            return params or None
        if params.get("mode") == "url" and "elicitationId" not in params:  # the modern era has none
            return {**params, "elicitationId": f"toolbus-{secrets.token_hex(8)}"}
        if self._session.version < _FIRST_WITH_MODES and "mode" in params:
            return {key: value for key, value in params.items() if key != "mode"}
        return params
