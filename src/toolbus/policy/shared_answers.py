"""Lasting answers in the store that several gateways share.

They are read from a copy in memory, because a call cannot wait for a database to know that nobody needs to be
asked. An answer counts here at once, and elsewhere within seconds.
"""

import json
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import asdict
from typing import Literal

from toolbus.core.text.canonical import digest_of
from toolbus.core.values.errors import StoreError
from toolbus.policy.answers import AnswerKey, StoredAnswer, read_answer
from toolbus.state.store.mirror import Mirror
from toolbus.state.store.store import Store

ANSWER = "answer"


class SharedAnswers:
    """The answers `always` and `never` in a store."""

    def __init__(self, store: Store, seconds: float | None = None, mirror: Mirror | None = None) -> None:
        """An answer counts for so many seconds; None for ever. With a `mirror`, nothing waits."""
        self._store = store
        self._seconds = seconds
        self._mirror = mirror
        self._written: dict[str, StoredAnswer] = {}
        """Given here, until the mirror has it, by name."""

    def all(self) -> list[StoredAnswer]:
        """All answers, the oldest first."""
        values = self._store.wait(self._store.items(ANSWER)) if self._mirror is None else self._mirror.values
        stored = {name: one for name, value in values.items() if (one := _read(value)) is not None}
        return sorted({**stored, **self._written}.values(), key=lambda one: one.time)

    def find(self, key: AnswerKey) -> StoredAnswer | None:
        """The answer for a key."""
        found = self._written.get(_name(key))
        if found is None and self._mirror is not None:
            value = self._mirror.values.get(_name(key))
            found = None if value is None else _read(value)
        return found if found is not None and found.about == key else None

    def add(
        self,
        key: AnswerKey,
        answer: Literal["always", "never"],
        failed: Callable[[Exception], None] = lambda error: None,
    ) -> None:
        """Begin to store an answer, instead of an earlier or expired one, which counts at once."""
        name, given = _name(key), StoredAnswer(about=key, answer=answer, time=time.time())
        self._written[name] = given

        def written(future: Future[None]) -> None:
            self._written.pop(name, None)
            error = future.exception()
            if isinstance(error, StoreError):
                failed(error)

        self._store.begin(self._write(name, given)).add_done_callback(written)

    async def _write(self, name: str, given: StoredAnswer) -> None:
        await self._store.put(ANSWER, name, json.dumps(asdict(given)).encode(), self._seconds)
        if self._mirror is not None:
            await self._mirror.look()

    def forget(self, target: str | None = None) -> int:
        """Delete the answers about `server/tool`, by default all; returns how many there were."""
        return self._store.wait(self._forget(target))

    async def _forget(self, target: str | None) -> int:
        count = 0
        for name, value in (await self._store.items(ANSWER)).items():
            one = _read(value)
            if target is None or (one is not None and one.about.target == target):
                count += await self._store.remove(ANSWER, name)
        return count


def _name(key: AnswerKey) -> str:
    """The same for another definition: the answer about an old one is replaced."""
    return digest_of([key.user, key.kind, key.target, key.rule])


def _read(value: bytes) -> StoredAnswer | None:
    """The answer; None if it is not one that this version knows."""
    try:
        return read_answer(json.loads(value))
    except (KeyError, TypeError, ValueError):
        return None
