"""Answers of people that count for more than one call: for the session, or stored until something changes.

An answer counts for one user, one tool with one definition, and one rule with its content. If the definition
or the rule changes, it has expired: it approves nothing, and is kept until it is replaced or forgotten.
Stored answers are in the user's state folder, in one file for each config file. A file that cannot be read,
or that others can write, approves nothing.
"""

import json
import logging
import os
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path
from threading import RLock
from typing import Any, Literal, Protocol, TypeAlias

from toolbus.config.settings.policy import PolicyRule
from toolbus.core.files import located
from toolbus.core.text.canonical import digest_of
from toolbus.state import files as state

logger = logging.getLogger("toolbus")
Lasting: TypeAlias = Literal["session", "always", "never"]


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerKey:
    """What an answer is about."""

    user: str
    kind: str
    target: str
    """`server/tool`, with the server's own name; or `server/uri` and the like."""
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
    """When it was given, in seconds since the epoch."""


def rule_digest(rule: PolicyRule) -> str:
    """The digest of a rule's content, wherever it is in its list."""
    return digest_of(rule.model_dump(mode="json", exclude_defaults=True))


class StoredAnswers:
    """The answers `always` and `never` of one config file."""

    def __init__(self, config_file: str | Path) -> None:
        self._config = located(Path(config_file))
        self._name = f"approvals/{sha256(os.fsencode(self._config)).hexdigest()}.json"

    def all(self) -> list[StoredAnswer]:
        """All answers, the oldest first; OSError or ValueError if the file cannot be used."""
        content = state.read(self._name)
        return [] if content is None else _read(content, str(self._config))

    def find(self, key: AnswerKey) -> StoredAnswer | None:
        """The answer for a key; raises as `all`."""
        return next((one for one in self.all() if one.about == key), None)

    def add(self, key: AnswerKey, answer: Literal["always", "never"]) -> None:
        """Store an answer, instead of an earlier or expired one; OSError if it cannot be written."""
        try:
            others = [one for one in self.all() if one.about != key and not _expired(one, key)]
        except ValueError:  # damaged: it approves nothing, so nothing is lost
            others = []
        self._write([*others, StoredAnswer(about=key, answer=answer, time=time.time())])

    def forget(self, target: str | None = None) -> int:
        """Delete the answers about `server/tool`, by default all; returns how many there were."""
        try:
            answers = self.all()
        except ValueError:
            answers = []
        kept = [] if target is None else [one for one in answers if one.about.target != target]
        if kept:
            self._write(kept)
        else:
            state.remove(self._name)
        return len(answers) - len(kept)

    def _write(self, answers: list[StoredAnswer]) -> None:
        document = {"file": str(self._config), "answers": [asdict(one) for one in answers]}
        state.write(self._name, json.dumps(document, indent=1).encode())


class SharedPlace(Protocol):
    """Where several gateways keep answers."""

    def find(self, key: AnswerKey, /) -> StoredAnswer | None:
        """The answer for a key."""
        ...

    def add(
        self, key: AnswerKey, answer: Literal["always", "never"], failed: Callable[[Exception], None], /
    ) -> None:
        """Begin to store an answer, which counts at once; `failed` is called if that is not possible."""
        ...


class Answers:
    """The lasting answers of one bus: of this session, and stored ones. For any thread."""

    def __init__(self, warn: Callable[[str], None]) -> None:
        """`warn` reports what the user should know, once for each message."""
        self._warn = warn
        self._session: dict[AnswerKey, Literal["session", "never"]] = {}
        self._stored: StoredAnswers | None = None
        self._shared: SharedPlace | None = None
        self._lock = RLock()

    def use(self, config_file: str | Path | None) -> None:
        """Use the stored answers of another config file; None for a bus without one."""
        self._stored = None if config_file is None else StoredAnswers(config_file)

    def share(self, stored: "SharedPlace") -> None:
        """Use answers that other gateways share, instead of those of the config file."""
        self._shared = stored

    def find(self, key: AnswerKey) -> tuple[bool, str] | None:
        """Whether the answer for a key allows the call, and where it is from; None if there is none."""
        with self._lock:
            if (answer := self._session.get(key)) is not None:
                return answer == "session", "session answer"
            stored = self._shared or self._stored
            if stored is None:
                return None
            try:
                found = stored.find(key)
            except (OSError, ValueError) as error:
                self._warn(f"stored approvals are not used: {_problem(error)}")
                return None
            return None if found is None else (found.answer == "always", "stored answer")

    def add(self, key: AnswerKey, answer: Lasting) -> None:
        """Keep an answer. One that cannot be stored counts for this session."""
        with self._lock:
            if answer == "session" or not self._store(key, answer):
                self._session[key] = "never" if answer == "never" else "session"

    def _keep(self, key: AnswerKey, answer: Literal["always", "never"], problem: str) -> None:
        """Keep an answer for this session that could not be stored."""
        with self._lock:
            self._session[key] = "never" if answer == "never" else "session"
        self._warn(f"the answer {answer!r} counts until the bus closes: {problem}")

    def _store(self, key: AnswerKey, answer: Literal["always", "never"]) -> bool:
        if self._shared is not None:
            self._shared.add(key, answer, lambda error: self._keep(key, answer, str(error)))
            return True
        if self._stored is None:
            self._warn(
                f"the answer {answer!r} counts until the bus closes: it is stored only for a config file"
            )
            return False
        try:
            self._stored.add(key, answer)
        except OSError as error:
            self._warn(f"the answer {answer!r} counts until the bus closes: {_problem(error)}")
            return False
        self._session.pop(key, None)
        return True


def _expired(answer: StoredAnswer, key: AnswerKey) -> bool:
    """Whether an answer was given for another definition of what is asked about, by the same rule."""
    about = answer.about
    same = (about.user, about.kind, about.target, about.rule) == (key.user, key.kind, key.target, key.rule)
    return same and about.definition != key.definition


def _read(content: bytes, config: str) -> list[StoredAnswer]:
    try:
        document: Any = json.loads(content)
        if document["file"] != config:
            raise ValueError("belongs to another config")
        return [read_answer(one) for one in document["answers"]]
    except (KeyError, TypeError, RecursionError, ValueError) as error:
        reason = str(error) if isinstance(error, ValueError) else "is damaged"
        raise ValueError(f"the file of approvals for {config}: {reason}") from None


def read_answer(stored: dict[str, Any]) -> StoredAnswer:
    """The answer in its JSON; KeyError, TypeError or ValueError if it is not one."""
    about = AnswerKey(**stored["about"])
    texts = (about.user, about.kind, about.target, about.rule)
    is_valid = all(isinstance(text, str) for text in texts) and isinstance(about.definition, str | None)  # pyright: ignore[reportUnnecessaryIsInstance]  # from a file
    if not is_valid or stored["answer"] not in ("always", "never"):
        raise TypeError
    return StoredAnswer(about=about, answer=stored["answer"], time=float(stored["time"]))


def _problem(error: OSError | ValueError) -> str:
    if isinstance(error, OSError):
        return f"{str(error.filename)!r} {error.strerror or 'cannot be used'}"
    return str(error)
