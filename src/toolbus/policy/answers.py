"""Answers of people that apply to more than one call: to the session, or until something changes.

An answer applies to one user, one tool with one definition, and one rule with its content. If the definition
or the rule changes, it has expired: it approves nothing, and is kept until it is replaced or forgotten.
Stored answers are in the user's state folder, in one file for each config file. A file that cannot be read,
or that others can write, approves nothing. Several gateways keep answers in their store. They are read from a
copy in memory, because a call cannot wait for a database.
"""

import json
import time
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from threading import RLock
from typing import Any, Literal, TypeAlias

from toolbus.config.settings.policy import PolicyRule
from toolbus.core.text.canonical import digest_of
from toolbus.core.values.errors import StoreError
from toolbus.state.files import config_place, state_folder
from toolbus.state.values import DocumentForm, Mirror, PrivateValues, Records, Values

ANSWER = "answer"
Lasting: TypeAlias = Literal["session", "always", "never"]


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerKey:
    """The subject of an answer."""

    user: str
    kind: str
    target: str
    """`server/tool`, with the server's own name; or `server/uri`, for example."""
    definition: str | None
    """The digest of the tool's definition."""
    rule: str
    """The digest of the rule that asks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredAnswer:
    """An answer that is stored."""

    about: AnswerKey
    answer: Literal["always", "never"]
    time: float
    """The time of the answer, in seconds since the epoch."""


def rule_digest(rule: PolicyRule) -> str:
    """The digest of a rule's content, wherever it is in its list."""
    return digest_of(rule.model_dump(mode="json", exclude_defaults=True))


class StoredAnswers:
    """The answers `always` and `never` of one config file, or of all gateways that share a store."""

    def __init__(self, values: Values, seconds: float | None = None, mirror: Mirror | None = None) -> None:
        """A store forgets an answer after this many seconds; None: never. With a `mirror`, nothing waits."""
        self._values = values
        self._seconds = seconds
        self._records = Records(values, ANSWER, read_answer, mirror)
        self._written: dict[str, StoredAnswer] = {}
        """Given here, until it is stored and read again, by name."""

    def all(self) -> list[StoredAnswer]:
        """All answers, the oldest first; OSError, ValueError or StoreError if they cannot be read."""
        return sorted({**self._records.all(), **self._written}.values(), key=lambda one: one.time)

    def find(self, key: AnswerKey) -> StoredAnswer | None:
        """The answer for a key; raises as `all`."""
        name = _name(key)
        found = self._written.get(name) or self._records.all().get(name)
        return found if found is not None and found.about == key else None

    def add(
        self,
        key: AnswerKey,
        answer: Literal["always", "never"],
        failed: Callable[[Exception], None] = lambda error: None,
    ) -> None:
        """Begin to store an answer, instead of an earlier or expired one; it applies at once.

        `failed` is called if it cannot be stored.
        """
        name, given = _name(key), StoredAnswer(about=key, answer=answer, time=time.time())
        self._written[name] = given

        def written(future: "Future[None]") -> None:
            self._written.pop(name, None)
            # Cancelled: the store was closed before, and the person is asked again another time.
            error = None if future.cancelled() else future.exception()
            if isinstance(error, OSError | ValueError | StoreError):
                failed(error)

        self._values.begin(self._write(name, given)).add_done_callback(written)

    async def _write(self, name: str, given: StoredAnswer) -> None:
        await self._values.put(ANSWER, name, json.dumps(asdict(given)).encode(), self._seconds)
        if self._records.mirror is not None:
            await self._records.mirror.look()

    def forget(self, target: str | None = None) -> int:
        """Delete the answers about `server/tool`, by default all; returns how many there were."""
        return self._values.wait(self._forget(target))

    async def _forget(self, target: str | None) -> int:
        if target is None:
            return await self._values.clear(ANSWER)
        try:
            found = await self._values.items(ANSWER)
        except ValueError:  # damaged: it approves nothing, so nothing is lost
            return await self._values.clear(ANSWER)
        count = 0
        for name, value in found.items():
            with suppress(KeyError, TypeError, ValueError):
                if read_answer(json.loads(value)).about.target == target:
                    count += await self._values.remove(ANSWER, name)
        return count


def file_answers(config_file: str | Path) -> StoredAnswers:
    """The answers of one config file, in the user's state folder."""
    owner, digest = config_place(config_file)
    form = DocumentForm(
        path=f"approvals/{digest}.json",
        owner=owner,
        entries="answers",
        name_of=lambda one: _name(read_answer(one).about),
        damaged="the file of approvals for {owner}: {reason}",
        is_replaceable=True,
    )
    return StoredAnswers(PrivateValues(state_folder, {ANSWER: form}))


def _name(key: AnswerKey) -> str:
    """The same for another definition: the answer about an old one is replaced."""
    return digest_of([key.user, key.kind, key.target, key.rule])


def read_answer(stored: dict[str, Any]) -> StoredAnswer:
    """The answer in its JSON; KeyError, TypeError or ValueError if it is not one."""
    about = AnswerKey(**stored["about"])
    texts = (about.user, about.kind, about.target, about.rule)
    is_valid = all(isinstance(text, str) for text in texts) and isinstance(about.definition, str | None)  # pyright: ignore[reportUnnecessaryIsInstance]  # from a file
    if not is_valid or stored["answer"] not in ("always", "never"):
        raise TypeError
    return StoredAnswer(about=about, answer=stored["answer"], time=float(stored["time"]))


class Answers:
    """The lasting answers of one bus: of this session, and stored ones. Any thread may use it."""

    def __init__(self, warn: Callable[[str], None]) -> None:
        """`warn` reports what the user should know, once for each message."""
        self._warn = warn
        self._session: dict[AnswerKey, Literal["session", "never"]] = {}
        self._stored: StoredAnswers | None = None
        self._is_shared = False
        self._lock = RLock()

    def use(self, config_file: str | Path | None) -> None:
        """Use the stored answers of another config file; None for a bus without one."""
        if not self._is_shared:
            self._stored = None if config_file is None else file_answers(config_file)

    def share(self, stored: StoredAnswers) -> None:
        """Use answers that several gateways share, instead of the config file's."""
        self._stored, self._is_shared = stored, True

    def find(self, key: AnswerKey) -> tuple[bool, str] | None:
        """Whether the answer for a key allows the call, and where it is from; None if there is none."""
        with self._lock:
            if (answer := self._session.get(key)) is not None:
                return answer == "session", "session answer"
            if self._stored is None:
                return None
            try:
                found = self._stored.find(key)
            except (OSError, ValueError) as error:
                self._warn(f"stored approvals are not used: {_problem(error)}")
                return None
            return None if found is None else (found.answer == "always", "stored answer")

    def add(self, key: AnswerKey, answer: Lasting) -> None:
        """Keep an answer; for this session if it cannot be stored."""
        with self._lock:
            if answer == "session":
                self._session[key] = answer
            elif self._stored is None:
                self._keep(key, answer, "it is stored only for a config file")
            else:
                self._session.pop(key, None)
                self._stored.add(key, answer, lambda error: self._keep(key, answer, _problem(error)))

    def _keep(self, key: AnswerKey, answer: Literal["always", "never"], problem: str) -> None:
        """Keep an answer for this session that could not be stored."""
        with self._lock:
            self._session[key] = "never" if answer == "never" else "session"
        self._warn(f"the answer {answer!r} is kept only until the bus closes: {problem}")


def _problem(error: Exception) -> str:
    if isinstance(error, OSError) and error.filename is not None:
        return f"{str(error.filename)!r} {error.strerror or 'cannot be used'}"
    return str(error)
