"""Handlers for requests from servers: elicitation, sampling and roots, in both protocol eras.

Only capabilities with a handler are declared to servers, unless `declares_elicitation` is set. Requests
without a handler are declined.
"""

from collections.abc import Awaitable, Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeAlias

from toolbus.core.ask.approval import ApprovalRequest, Approve, Approved
from toolbus.core.ask.forwarding import Client
from toolbus.core.values.elicitation import Answer, Elicitation
from toolbus.core.values.login import LoginHandler
from toolbus.core.values.records import Audio, Image, PromptMessage, Text

ROUNDS = 10
"""The number of times a server may ask in one call."""
ANSWER_WITHIN = 600.0
REFUSED_BY_GUARD = "request was refused: "
"""In the warning about a request of a server that was declined."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampling:
    """A server requests a completion from a model, at your cost."""

    server: str
    messages: tuple[PromptMessage, ...]
    max_tokens: int
    system: str | None = None
    temperature: float | None = None
    stop: tuple[str, ...] = ()
    hints: tuple[str, ...] = ()
    """Names of models that the server prefers, best first."""
    tool: str | None = None
    """The tool whose call caused the request, if known."""
    user: str = ""
    """The user whose call caused it (`bus.as_user`), if known."""
    session: str = ""
    """The session of the caller (`Caller.session`), if known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampled:
    """The model's completion."""

    content: Text | Image | Audio
    model: str
    stop_reason: str | None = "endTurn"


Elicit: TypeAlias = Callable[[Elicitation], Answer | Awaitable[Answer]]
Sample: TypeAlias = Callable[[Sampling], Sampled | Awaitable[Sampled | None] | None]
"""Returns None to decline."""


@dataclass(frozen=True, kw_only=True)
class Interactions:
    """The handlers: `elicit` and `approve` ask a person, `sample` calls a model, `login` lets one sign in.

    Timeouts of that server's calls pause while a handler runs.
    """

    elicit: Elicit | None = None
    sample: Sample | None = None
    login: LoginHandler | None = None
    """Lets a person sign in to a server when it is needed; without it, calls fail with `AuthRequired`."""
    approve: Approve | None = None
    """Asks a person about a call, if the policy says `ask`; without it, such calls are refused."""
    approver: str = "function"
    """The name in the audit trail of the one who asks in `approve`."""
    roots: Sequence[str | Path] | None = None
    """Folders, or `file://` URIs."""
    rounds: int = ROUNDS
    """The number of times a server may ask in one call."""
    answer_within: float = ANSWER_WITHIN
    """Seconds after which a request is treated as cancelled."""
    owner: Hashable = None
    """The owner of the session, who gets a share of the sessions with their own connections."""
    declares_elicitation: bool = False
    """Declare elicitation even without `elicit`; a question then fails its call with `InputNeeded`.

    For programs that can ask a person only in some runs, so that servers offer the same tools in all of them.
    """
    reaches: Callable[[str], bool] | None = None
    """Whether `elicit` and `approve` reach a person for the calls of a session (`Caller.session`).

    If not, it is as without these handlers. By default they reach one for all calls.
    """
    forwards: bool = False
    """Pass every request on to the MCP client of the operation that it belongs to; for a gateway.

    The other handlers are then for the operations of no client.
    """
    client: Client | None = None
    """With `forwards`: the client for requests that belong to no operation; without, they are refused."""

    def __post_init__(self) -> None:
        for name in ("elicit", "sample", "login", "approve"):
            handler = getattr(self, name)
            if handler is not None and not callable(handler):
                raise TypeError(f"{name} must be a function, not {type(handler).__name__}")


NO_HANDLERS = Interactions()


def with_roots(interactions: Interactions, roots: Sequence[Path]) -> Interactions:
    """The handlers, with these roots if they have none."""
    if not isinstance(interactions, Interactions):  # pyright: ignore[reportUnnecessaryIsInstance]  # users may pass anything
        kind = type(interactions).__name__
        raise TypeError(f"interactions must be Interactions(elicit=..., ...), not {kind}")
    return replace(interactions, roots=roots) if interactions.roots is None and roots else interactions


def for_user(interactions: Interactions, user: str) -> Interactions:
    """The handlers for servers that are connected for this user alone."""

    def elicit(question: Elicitation) -> Answer | Awaitable[Answer]:
        assert interactions.elicit is not None
        return interactions.elicit(replace(question, user=user))

    def sample(request: Sampling) -> Sampled | Awaitable[Sampled | None] | None:
        assert interactions.sample is not None
        return interactions.sample(replace(request, user=user))

    def approve(request: ApprovalRequest) -> Approved | Awaitable[Approved]:
        assert interactions.approve is not None
        return interactions.approve(replace(request, user=user))

    return replace(
        interactions,
        elicit=elicit if interactions.elicit else None,
        sample=sample if interactions.sample else None,
        approve=approve if interactions.approve else None,
    )
