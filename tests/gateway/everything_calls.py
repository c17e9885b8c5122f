"""A request as the everything servers see it: JSON in, JSON or questions out, for any SDK and era.

Uses the standard library only, because one of the servers runs on version 1 of the SDK.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

Json = dict[str, Any]


class Rejected(Exception):
    """The request is answered with a JSON-RPC error."""

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(message)
        self.code = code
        self.data = data


@dataclass(frozen=True, slots=True, kw_only=True)
class Questions:
    """The questions that the client has to answer before there is a result."""

    requests: dict[str, Json]
    state: str = ""


class Wire(Protocol):
    """The messages that a server can send while it works on a request."""

    async def log(self, text: str) -> None:
        """A log message at level info."""
        ...

    async def progress(self, done: int, total: int) -> None:
        """Report the progress of the work, if the client asked for it."""
        ...

    async def changed(self, kind: str) -> None:
        """The tools or the prompts are others now."""
        ...

    async def updated(self, uri: str) -> None:
        """A resource has new content."""
        ...

    async def close_stream(self) -> None:
        """Make the client fetch the rest of the answer, where the transport can do that."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One request for a tool or a prompt."""

    wire: Wire
    arguments: Json = field(default_factory=dict[str, Any])
    answers: Mapping[str, Json] = field(default_factory=dict[str, Json])
    """The answers of this round only."""
    state: str = ""
    """The state of the questions that were answered."""
    declared: frozenset[str] = frozenset()
    """The capabilities of the client."""


Handler = Callable[[Call], Awaitable[Json | Questions]]
Ask = Callable[[str, Json], Awaitable[Json]]


async def settled(handler: Handler, call: Call, ask: Ask) -> Json:
    """The result of a request in the legacy era, where every question is a request to the client.

    They are asked one after the other; if one is refused, the others are asked before the request fails.
    """
    outcome = await handler(call)
    while isinstance(outcome, Questions):
        answers: dict[str, Json] = {}
        refusal: Exception | None = None
        for key, question in outcome.requests.items():
            try:
                answers[key] = await ask(question["method"], question.get("params", {}))
            except Exception as error:  # of either SDK
                refusal = error
        if refusal is not None:
            raise refusal
        call = replace(call, answers=answers, state=outcome.state)
        outcome = await handler(call)
    return outcome
