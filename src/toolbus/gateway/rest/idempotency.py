"""Idempotency keys: a call that is sent again with the same key gets the same response, and is made once."""

import asyncio
import base64
import json
import logging
import time
from collections.abc import Awaitable, Callable, Coroutine
from hashlib import sha256
from typing import Any, Protocol

from toolbus.core.values.errors import StoreError
from toolbus.core.values.records import JSON
from toolbus.gateway.protocol.words import ProtocolError
from toolbus.gateway.replicas.relay import UNKNOWN
from toolbus.gateway.rest.problems import CallProblem, RestAnswer
from toolbus.state.store.store import Allowance

logger = logging.getLogger("toolbus")
KIND = "idempotency"
KEPT_SECONDS = 3600.0
"""Seconds for which a response is kept."""
MOST_KEYS = 10_000
"""Keys of all owners that are kept in memory; one has at most half."""
MOST_BYTES = 1024 * 1024
"""Bytes of a response that is kept."""
LONGEST_KEY = 255
_IN_MEMORY = 64 * 1024 * 1024


class AnswerValues(Protocol):
    """Where responses are kept: the part of `Values` that is needed."""

    async def get(self, kind: str, name: str) -> bytes | None: ...
    async def put(self, kind: str, name: str, value: bytes, seconds: float | None = None) -> None: ...
    async def add(self, kind: str, name: str, value: bytes = b"", seconds: float | None = None) -> bool: ...
    async def remove(self, kind: str, name: str) -> bool: ...


class AnswersInMemory:
    """Responses of one process; the oldest are forgotten first if there are too many."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._values: dict[str, tuple[float, bytes]] = {}
        """With the time at which it expires; the oldest first."""
        self._bytes = 0

    async def get(self, kind: str, name: str) -> bytes | None:
        self._expire()
        found = self._values.get(name)
        return None if found is None else found[1]

    async def put(self, kind: str, name: str, value: bytes, seconds: float | None = None) -> None:
        await self.remove(kind, name)
        self._values[name] = self._clock() + (seconds or KEPT_SECONDS), value
        self._bytes += len(value)
        self._expire()

    async def add(self, kind: str, name: str, value: bytes = b"", seconds: float | None = None) -> bool:
        self._expire()
        if name in self._values:
            return False
        await self.put(kind, name, value, seconds)
        return True

    async def remove(self, kind: str, name: str) -> bool:
        found = self._values.pop(name, None)
        if found is not None:
            self._bytes -= len(found[1])
        return found is not None

    def _expire(self) -> None:
        now = self._clock()
        while self._values:
            name, (expires, value) = next(iter(self._values.items()))
            if expires > now and len(self._values) <= MOST_KEYS and self._bytes <= _IN_MEMORY:
                break
            del self._values[name]
            self._bytes -= len(value)


class IdempotencyKeys:
    """The keys of all clients, and the responses to their calls."""

    def __init__(
        self,
        values: AnswerValues,
        replica: str = "",
        has_ended: Callable[[str], Awaitable[bool]] | None = None,
    ) -> None:
        """`replica` is this one, and `has_ended` finds out whether another one has."""
        self._values = values
        self._replica = replica
        self._has_ended = has_ended
        self._running: set[asyncio.Task[RestAnswer]] = set()

    def begin(
        self, owner: str, key: str, digest: str, work: Callable[[], Coroutine[Any, Any, RestAnswer]]
    ) -> "asyncio.Task[RestAnswer]":
        """Make a call, or find the response of the same call; it goes on if its client leaves.

        `digest` is of what is called. The task raises `CallProblem` if the key was used for another call, or
        if that call has not ended.
        """
        if not 0 < len(key) <= LONGEST_KEY:
            raise CallProblem(400, "invalid_request", f"an Idempotency-Key has 1 to {LONGEST_KEY} characters")
        name = sha256(f"{owner}\0{key}".encode(errors="surrogateescape")).hexdigest()
        task = asyncio.create_task(self._answered(name, digest, work), name="toolbus idempotent call")
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        return task

    async def _answered(
        self, name: str, digest: str, work: Callable[[], Coroutine[Any, Any, RestAnswer]]
    ) -> RestAnswer:
        started = json.dumps({"digest": digest, "replica": self._replica}).encode()
        while not await self._values.add(KIND, name, started, KEPT_SECONDS):
            value = await self._values.get(KIND, name)
            if value is not None:  # else it has just expired
                return await self._repeated(json.loads(value), digest)
        Allowance.leave()
        try:
            answer = await work()
        except ProtocolError:
            await self._values.remove(KIND, name)
            raise
        try:
            if answer.is_made:
                await self._values.put(KIND, name, _stored(digest, answer), KEPT_SECONDS)
            else:
                await self._values.remove(KIND, name)
        except StoreError as error:
            logger.warning("the response to a call with an Idempotency-Key is not kept: %s", error)
        return answer

    async def _repeated(self, known: dict[str, JSON], digest: str) -> RestAnswer:
        """The response to a call that was sent before."""
        if known["digest"] != digest:
            problem = "the Idempotency-Key was used for another call; use a new key for each call"
            raise CallProblem(422, "key_reused", problem, sent=False)
        if "status" in known:
            headers = [(name.encode(), value.encode()) for name, value in known["headers"]]
            body = base64.b64decode(known["body"])
            return RestAnswer(known["status"], body, (*headers, (b"idempotent-replayed", b"true")))
        if "size" in known:
            problem = f"the call was made; its response of {known['size']:,} bytes was too large to be kept"
            raise CallProblem(409, "not_kept", problem, sent=True)
        other: str = known["replica"]
        if other != self._replica and self._has_ended is not None and await self._has_ended(other):
            raise CallProblem(502, "connection_lost", UNKNOWN, sent=True)
        problem = "the call with this Idempotency-Key has not ended yet; try again later"
        raise CallProblem(409, "still_running", problem, sent=True, retryAfter=1)


def _stored(digest: str, answer: RestAnswer) -> bytes:
    if len(answer.body) > MOST_BYTES:
        return json.dumps({"digest": digest, "size": len(answer.body)}).encode()
    headers = [(name.decode(), value.decode()) for name, value in answer.headers]
    body = base64.b64encode(answer.body).decode()
    return json.dumps({"digest": digest, "status": answer.status, "headers": headers, "body": body}).encode()
