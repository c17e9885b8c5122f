"""The content of one request to the model, in the same form for every wire format."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from tests.wire.content import Content
from tests.wire.turn import JSON

Wire = Literal["chat", "responses", "anthropic", "google"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """The result of one tool call, as the model got it."""

    id: str
    name: str | None = None
    text: str
    images: tuple[bytes, ...] = ()
    audio: tuple[bytes, ...] = ()
    files: tuple[bytes, ...] = ()
    is_error: bool | None = None
    """None where the wire has no such flag."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One message of a conversation: what it says, the tools it calls (id, name), the results it brings."""

    role: Literal["system", "user", "model"]
    content: Content = field(default_factory=Content)
    calls: tuple[tuple[str, str], ...] = ()
    results: tuple[Given, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversation:
    """The parts that a wire format reads from a request body."""

    entries: Sequence[Entry]
    tools: Mapping[str, JSON]


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """One request to the model, normalised; `body` and `headers` (lower case) hold it as it came."""

    wire: Wire
    model: str
    streamed: bool
    system: str
    prompt: str
    """The last user text."""
    tools: dict[str, JSON]
    """Each offered tool's definition as sent; of Google, the function declaration."""
    given: tuple[Given, ...]
    """All tool results of the request, in order."""
    new: tuple[Given, ...]
    """The tool results after the last message of the model."""
    images: tuple[bytes, ...]
    """All images in user messages, outside tool results."""
    tokens: int
    """A guess of the request's size, from the length of its texts."""
    body: JSON
    headers: dict[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrival:
    """The facts around the conversation in a request."""

    wire: Wire
    model: str
    streamed: bool
    body: JSON
    headers: dict[str, str]


def asked(arrival: Arrival, conversation: Conversation, called: Mapping[str, str]) -> Asked:
    """The request, normalised; `called` names the calls (by id) that it may answer without repeating them."""
    entries = _with_names(conversation.entries, called)
    prompts = [entry.content.text for entry in entries if entry.role == "user" and entry.content.text]
    last = max((place for place, entry in enumerate(entries) if entry.role == "model"), default=-1)
    return Asked(
        wire=arrival.wire,
        model=arrival.model,
        streamed=arrival.streamed,
        system="\n".join(entry.content.text for entry in entries if entry.role == "system"),
        prompt=prompts[-1] if prompts else "",
        tools=dict(conversation.tools),
        given=_results(entries),
        new=_results(entries[last + 1 :]),
        images=tuple(image for entry in entries if entry.role == "user" for image in entry.content.images),
        tokens=_tokens(entries, conversation.tools),
        body=arrival.body,
        headers=arrival.headers,
    )


def tokens_of(text: str) -> int:
    """A plausible count: four characters each."""
    return len(text) // 4 + 1


def _with_names(entries: Sequence[Entry], called: Mapping[str, str]) -> list[Entry]:
    names = dict(called)
    named: list[Entry] = []
    for entry in entries:
        names.update(entry.calls)
        results = (replace(given, name=given.name or names.get(given.id)) for given in entry.results)
        named.append(replace(entry, results=tuple(results)))
    return named


def _results(entries: Sequence[Entry]) -> tuple[Given, ...]:
    return tuple(given for entry in entries for given in entry.results)


def _tokens(entries: Sequence[Entry], tools: Mapping[str, JSON]) -> int:
    texts = [entry.content.text for entry in entries] + [given.text for given in _results(entries)]
    return sum(map(tokens_of, texts)) + tokens_of(json.dumps(dict(tools)))
