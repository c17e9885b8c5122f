"""Idempotency keys: a call that is sent again with the same key gets the same response, and is made once."""

import asyncio
import base64
import json
import logging
import time
from collections.abc import Awaitable, Callable, Coroutine
from hashlib import sha256
from typing import Any, Protocol

from toolbus.core.operation.quota import Quota
from toolbus.core.values.errors import StoreError
from toolbus.core.values.records import JSON
from toolbus.gateway.protocol.words import ProtocolError, over_quota
from toolbus.gateway.replicas.relay import UNKNOWN
from toolbus.gateway.rest.problems import CallProblem, RestAnswer
from toolbus.state.store.store import Allowance

logger = logging.getLogger("toolbus")
KIND = "idempotency"
KEPT_SECONDS = 3600.0
"""Seconds for which a response is kept."""
MOST_BYTES = 1024 * 1024
"""Bytes of a response that is kept."""
LONGEST_KEY = 255
_IN_MEMORY = 64 * 1024 * 1024
_OVERHEAD = 512
"""Bytes that a response takes besides its own."""


class AnswerValues(Protocol):
    """The part of `Values` that keeps responses."""

    async def get(self, kind: str, name: str) -> bytes | None: ...
    async def put(self, kind: str, name: str, value: bytes, seconds: float | None = None) -> None: ...
    async def add(self, kind: str, name: str, value: bytes = b"", seconds: float | None = None) -> bool: ...
    async def remove(self, kind: str, name: str) -> bool: ...


class AnswersInMemory:
    """Responses of one process. A client with too many loses its oldest ones, and no other client does."""

    def __init__(self, clock: Callable[[], float] = time.monotonic, most: int = _IN_MEMORY) -> None:
        """It keeps `most` bytes."""
        self._clock = clock
        self._room = Quota(most)
        self._owners: dict[str, dict[str, tuple[float, bytes]]] = {}
        """The values by owner and name, the oldest first, with the times at which they expire."""

    async def get(self, kind: str, name: str) -> bytes | None:
        found = self._of(name).get(name)
        return None if found is None else found[1]

    async def put(self, kind: str, name: str, value: bytes, seconds: float | None = None) -> None:
        own, owner = self._of(name), _owner_of(name)
        await self.remove(kind, name)
        while not self._room.take(owner, len(value) + _OVERHEAD):
            if not own:
                raise over_quota("idempotency keys", "the responses to your calls take too much room")
            await self.remove(kind, next(iter(own)))
        self._owners[owner] = own
        own[name] = self._clock() + (seconds or KEPT_SECONDS), value

    async def add(self, kind: str, name: str, value: bytes = b"", seconds: float | None = None) -> bool:
        if name in self._of(name):
            return False
        await self.put(kind, name, value, seconds)
        return True

    async def remove(self, kind: str, name: str) -> bool:
        own, owner = self._owners.get(_owner_of(name), {}), _owner_of(name)
        found = own.pop(name, None)
        if found is not None:
            self._room.release(owner, len(found[1]) + _OVERHEAD)
        if not own:
            self._owners.pop(owner, None)
        return found is not None

    def _of(self, name: str) -> dict[str, tuple[float, bytes]]:
        """The values of an owner that have not expired; all last equally long."""
        owner = _owner_of(name)
        own = self._owners.get(owner, {})
        while own and (first := next(iter(own.items())))[1][0] <= self._clock():
            del own[first[0]]
            self._room.release(owner, len(first[1][1]) + _OVERHEAD)
        return own


def _owner_of(name: str) -> str:
    return name.partition("-")[0]


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

        `digest` identifies the tool and its arguments. The task raises `CallProblem` if the key was used for
        another call, or if that call has not ended.
        """
        if not 0 < len(key) <= LONGEST_KEY:
            raise CallProblem(400, "invalid_request", f"an Idempotency-Key has 1 to {LONGEST_KEY} characters")
        name = f"{_digest(owner)}-{_digest(key)}"
        task = asyncio.create_task(self._answered(name, digest, work), name="toolbus idempotent call")
        self._running.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: "asyncio.Task[RestAnswer]") -> None:
        self._running.discard(task)
        if not task.cancelled():
            task.exception()  # its client may have left

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


def _digest(text: str) -> str:
    return sha256(text.encode(errors="surrogateescape")).hexdigest()


def _stored(digest: str, answer: RestAnswer) -> bytes:
    if len(answer.body) > MOST_BYTES:
        return json.dumps({"digest": digest, "size": len(answer.body)}).encode()
    headers = [(name.decode(), value.decode()) for name, value in answer.headers]
    body = base64.b64encode(answer.body).decode()
    return json.dumps({"digest": digest, "status": answer.status, "headers": headers, "body": body}).encode()
