"""Calls that go on without a request of the client: they wait for its answers, or are its tasks.

A legacy server asks in the middle of a call and waits on its connection; a modern client answers with
another request. So the call goes on in a task, and the client gets a sealed name for it.
"""

import asyncio
import secrets
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from toolbus.core.ask.interactions import ClientError
from toolbus.core.operation.quota import Quota
from toolbus.core.text.encoding import as_sent
from toolbus.core.values.errors import CallDenied
from toolbus.core.values.records import JSON, JSONObject, ToolResult
from toolbus.gateway.http.request import encoded
from toolbus.gateway.protocol.request import ClientExchange, Reports
from toolbus.gateway.protocol.words import INTERNAL_ERROR, INVALID_REQUEST, can_ask, is_object
from toolbus.gateway.settings import GatewayLimits

if TYPE_CHECKING:
    from toolbus.gateway.replicas.replicas import Replicas

LEAST = 1024
"""The minimum number of bytes that a call takes, regardless of its arguments."""
TOGETHER = 0.02
"""Seconds in which a server may ask more, so that the client gets all questions at once."""


@dataclass(slots=True, eq=False)
class ServerQuestion:
    """A request of a server that waits for the client's answer."""

    request: JSONObject
    """Its method and params."""
    answered: asyncio.Future[JSONObject]


class ParkedCall:
    """One call in a task of its own; the client that it is made for is asked through it."""

    def __init__(
        self, store: "ParkedCalls", exchange: ClientExchange, about: str, capabilities: JSONObject
    ) -> None:
        """A call for a request; `about` names it in messages."""
        self.id = f"{store.prefix}{secrets.token_urlsafe(18)}"
        self.owner = exchange.principal.owner
        self.holder = exchange.principal.holder
        """The principal, for quotas."""
        self.size = max(exchange.size, LEAST)
        """About how many bytes are kept for it."""
        self.about = about
        self.reports = Reports(exchange)
        self.questions: dict[str, ServerQuestion] = {}
        """The open questions by key."""
        self.created = self.updated = datetime.now(UTC)
        self.message: str | None = None
        """The last message that it reported."""
        self.is_task = False
        """Whether the client knows it as a task, and asks for it again and again."""
        self.ttl_ms = 0
        """For how long it is kept as a task."""
        self.was_cancelled = False
        self.is_doubtful = False
        """Whether others may have ended it, believing that this replica had ended."""
        self.capabilities = capabilities
        self._store = store
        self._asked = 0
        self._gave_up = False
        self._expiry: asyncio.TimerHandle | None = None
        self._changed = asyncio.Event()
        self._running: asyncio.Task[ToolResult] | None = None
        self._lost: CallDenied | None = None
        """The reason why there is no result, although the call is over."""
        self.on_end: Callable[[], None] = lambda: None
        """Called when the call is over."""

    def start(self, call: Coroutine[Any, Any, ToolResult], ended: Callable[[], None] | None = None) -> None:
        """Begin the call; `ended` is called when it is over."""
        self._running = asyncio.get_running_loop().create_task(call, name=f"toolbus {self.about}")
        self._running.add_done_callback(self._ended)
        if ended is not None:
            self._running.add_done_callback(lambda _: ended())

    @property
    def done(self) -> bool:
        return self._lost is not None or (self._running is not None and self._running.done())

    def result(self) -> ToolResult:
        """Its result, once it is over; raises what the call raised."""
        if self._lost is not None:
            raise self._lost
        assert self._running is not None, "it was started"
        if self._running.cancelled():
            raise CallDenied(self.about, "it was cancelled")
        return self._running.result()

    async def wait(self) -> bool:
        """Wait until it is over (True) or has open questions (False); if cancelled, so is the call."""
        try:
            while not self.done:
                if self.questions and await self._has_asked_all():
                    return False
                self._changed.clear()
                if not self.questions:
                    await self._changed.wait()
        except asyncio.CancelledError:
            if not self.is_task:
                self.cancel()
            raise
        return True

    async def news(self) -> None:
        """Wait until it is over, or has other questions than now; not while the gateway stops."""
        known = set(self.questions)
        while not (self.done or self._store.is_draining) and (
            not self.questions or self.questions.keys() == known
        ):
            self._changed.clear()
            await self._changed.wait()

    async def _has_asked_all(self) -> bool:
        """Wait a moment for questions that the server asks at the same time; False if others came."""
        known = set(self.questions)
        await asyncio.sleep(TOGETHER)
        return bool(self.questions) and self.questions.keys() <= known

    def cancel(self) -> None:
        """End the call, if it is not over."""
        self.was_cancelled = self.was_cancelled or not self.done
        if self._running is not None:
            self._running.cancel()

    def _ended(self, running: asyncio.Task[ToolResult]) -> None:
        self.updated = datetime.now(UTC)
        self._stop_waiting()
        self._store.some_ended.set()
        if not running.cancelled():
            running.exception()  # nobody may come for it
        if not self.is_task:
            self._store.drop(self)
        elif not running.cancelled() and running.exception() is None:
            size = len(encoded(as_sent(running.result())))
            if not self._store.resize(self, size):
                self._running = None  # which has the result
                self._lost = CallDenied(
                    self.about,
                    f"its result of {size:,} bytes was not kept: your tasks have too many (max_task_bytes)",
                )
        self._changed.set()
        self.on_end()

    # As the client of the call

    async def ask(self, server: str, method: str, params: JSONObject) -> JSONObject:
        """Put a server's request to the client, with its next request; returns the answer."""
        if not can_ask(self.capabilities, method, params):
            raise ClientError(INVALID_REQUEST, f"the client does not support {method}")
        if self._gave_up or not self._store.keep(self):
            raise ClientError(INTERNAL_ERROR, "the client cannot be asked")
        self._asked += 1
        key = f"request-{self._asked}"
        answered: asyncio.Future[JSONObject] = asyncio.get_running_loop().create_future()
        self.questions[key] = ServerQuestion(_modern_request(method, params), answered)
        self._stop_waiting()
        self._expiry = asyncio.get_running_loop().call_later(self._store.answer_within, self._give_up)
        self.updated = datetime.now(UTC)
        self._changed.set()
        try:
            return await answered
        finally:
            self.questions.pop(key, None)

    def answer(self, responses: JSONObject) -> None:
        """Give the client's answers to the open questions; others are ignored."""
        for key, response in responses.items():
            question = self.questions.get(key)
            if question is not None and not question.answered.done() and is_object(response):
                question.answered.set_result(response)
                del self.questions[key]
        if not self.questions:
            self._stop_waiting()
        self.updated = datetime.now(UTC)

    def refuse(self, key: str, error: ClientError) -> None:
        question = self.questions.pop(key, None)
        if question is not None and not question.answered.done():
            question.answered.set_exception(error)

    @property
    def requests(self) -> JSONObject:
        return {key: question.request for key, question in self.questions.items()}

    def progressed(self, progress: float, total: float | None, message: str | None) -> None:
        self.message = message or self.message
        self.updated = datetime.now(UTC)
        self.reports.progressed(progress, total, message)

    def look_again(self) -> None:
        """Have those who wait for news look at it again."""
        self._changed.set()

    def _stop_waiting(self) -> None:
        if self._expiry is not None:
            self._expiry.cancel()
            self._expiry = None

    def _give_up(self) -> None:
        """The client did not come back: the server is told, and asks nothing more."""
        self._gave_up = True
        problem = f"the client did not answer within {self._store.answer_within:g} s"
        for question in self.questions.values():
            if not question.answered.done():
                question.answered.set_exception(ClientError(INTERNAL_ERROR, problem))


class ParkedCalls:
    """The calls that wait for answers, and the tasks of clients."""

    def __init__(self, settings: GatewayLimits, replicas: "Replicas | None" = None) -> None:
        self.prefix = "" if replicas is None else replicas.prefix
        """The prefix of the ids of its calls."""
        self._replicas = replicas
        self.some_ended = asyncio.Event()
        """Set when a call has ended."""
        self.answer_within = settings.answer_within
        self.is_draining = False
        """Whether the gateway stops, so that nobody should wait for news."""
        self._slots = Quota(settings.max_parked)
        self._bytes = Quota(settings.max_task_bytes)
        self._calls: dict[str, ParkedCall] = {}

    def __len__(self) -> int:
        return len(self._calls)

    def __iter__(self) -> Iterator[ParkedCall]:
        return iter(tuple(self._calls.values()))

    def get(self, name: str, owner: str) -> ParkedCall | None:
        """The call with that id, if it is this principal's."""
        found = self._calls.get(name)
        return found if found is not None and found.owner == owner else None

    async def find(self, name: str, owner: str) -> ParkedCall | None:
        """The same; `WrongReplica` if another replica has it."""
        if self._replicas is not None:
            await self._replicas.peers.make_sure()
        found = self.get(name, owner)
        if found is None and self._replicas is not None:
            await self._replicas.find_call(name)
        return found

    def drain(self) -> None:
        """Let nobody wait for news of a call any more."""
        self.is_draining = True
        for call in self:
            call.look_again()

    async def wait_for_none(self) -> None:
        while any(not call.done for call in self._calls.values()):
            self.some_ended.clear()
            await self.some_ended.wait()

    def of(self, owner: str) -> list[ParkedCall]:
        """The calls of a principal, in the order of their start."""
        return [call for call in self._calls.values() if call.owner == owner]

    def held_by(self, holder: str) -> list[ParkedCall]:
        """The calls of the holder of a credential, with any forwarded identity."""
        return [call for call in self._calls.values() if call.holder == holder]

    def keep(self, call: ParkedCall) -> bool:
        """Keep a call; False if its principal has too many, or too large ones."""
        if call.id in self._calls:
            return True
        holder = call.holder
        if not self._bytes.take(holder, call.size):
            return False
        if not self._slots.take(holder):
            self._bytes.release(holder, call.size)
            return False
        self._calls[call.id] = call
        return True

    def drop(self, call: ParkedCall) -> None:
        if self._calls.pop(call.id, None) is not None:
            self._slots.release(call.holder)
            self._bytes.release(call.holder, call.size)

    def resize(self, call: ParkedCall, size: int) -> bool:
        """Keep this number of bytes for a call that has ended; False if they are too many."""
        if call.id not in self._calls:
            return True
        holder = call.holder
        self._bytes.release(holder, call.size)
        is_kept = self._bytes.take(holder, max(size, LEAST))
        call.size = max(size, LEAST) if is_kept else LEAST
        if not is_kept:
            self._bytes.add(holder, LEAST)
        return is_kept

    def drop_later(self, call: ParkedCall, seconds: float) -> None:
        """End a task after that many seconds, if it is still there."""

        def end() -> None:
            call.cancel()
            self.drop(call)

        asyncio.get_running_loop().call_later(seconds, end)

    def close(self) -> None:
        for call in tuple(self._calls.values()):
            call.cancel()
            self.drop(call)


def _modern_request(method: str, params: JSONObject) -> JSONObject:
    """A legacy server's request, as a modern server would make it."""
    left: dict[str, JSON] = {
        key: value for key, value in params.items() if key not in ("elicitationId", "task", "_meta")
    }
    return {"method": method, "params": left}
