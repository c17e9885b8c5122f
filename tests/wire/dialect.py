"""A wire format is five functions: judge a request, read it, write an answer, a stream, or an error."""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from tests.wire.answer import Answer
from tests.wire.asked import Conversation, Wire
from tests.wire.turn import JSON, Fault


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """The spelling of requests and answers in one provider's interface."""

    wire: Wire
    errors: Callable[[JSON, Mapping[str, str]], Iterator[str]]
    """The errors of a request of the right types; with the calls made so far, by id."""
    read: Callable[[JSON], Conversation]
    plain: Callable[[Answer], JSON]
    stream: Callable[[Answer], Iterator[str]]
    error: Callable[[Fault], JSON]


def server_sent(data: JSON, name: str | None = None) -> str:
    """One server-sent event."""
    head = f"event: {name}\n" if name else ""
    return f"{head}data: {json.dumps(data, ensure_ascii=False)}\n\n"
