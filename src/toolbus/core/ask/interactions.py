"""Handlers for requests from servers (elicitation, sampling, roots), and the time that people take.

Only capabilities with a handler are declared to servers, unless `declares_elicitation` is set. Requests
without a handler are declined.
"""

import time
from collections.abc import Awaitable, Callable, Generator, Hashable, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from operator import attrgetter
from pathlib import Path
from typing import Protocol, TypeAlias

from toolbus.core.ask.approval import ApprovalRequest, Approve, Approved
from toolbus.core.fast_init import with_fast_init
from toolbus.core.values.argument_restore import EMPTY
from toolbus.core.values.elicitation import Answer, Elicitation
from toolbus.core.values.records import JSON, Audio, Image, JSONObject, LogLevel, PromptMessage, Text


class ClientError(Exception):
    """A client answered a server's request with an error, or cannot be asked."""

    def __init__(self, code: int, message: str, data: JSON = None) -> None:
        self.code = code
        self.message = message
        self.data = data
        super().__init__(f"{message} (code {code})")


class McpClient(Protocol):
    """The client that an operation is made for."""

    @property
    def capabilities(self) -> JSONObject:
        """The capabilities it declared, in the form of the modern era."""
        ...

    async def ask(self, server: str, method: str, params: JSONObject) -> JSONObject:
        """Put a server's request to it: elicitation, sampling or roots.

        Returns its result as sent; `ClientError` if it has none.
        """
        ...


@with_fast_init
@dataclass(frozen=True, slots=True, kw_only=True)
class Forwarding:
    """The client that an operation is made for, and the fields to send to the server with it."""

    client: McpClient
    meta: JSONObject = field(default_factory=lambda: EMPTY)
    """The `_meta` of the client's request, without the keys of the protocol itself."""
    log_level: LogLevel | None = None
    """The lowest level of log messages that the client wants; None for none."""
    responses: JSONObject | None = None
    """The client's answers to the requests of a modern server, if this is another round of a call."""
    state: str | None = None
    """The server's state of that call."""
    rounds: int = 0
    """The number of times the server has asked so far."""
    counted: str | None = None
    """A proof, for one use, that quotas have counted the call."""
    is_unlisted: bool = False
    """Whether the client named the tool to `call_tool`, and may not know its definition."""
    is_followed: bool = False
    """Whether the client follows the call, so that a server can ask it in the middle."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoginRequest:
    """Somebody has to sign in at `url`, in a browser."""

    server: str
    user: str
    """The user who signs in; empty if the bus has only one."""
    url: str = field(repr=False)
    """The sign-in page: an http or https URL."""
    redirect_uri: str
    """The URL that the browser is sent back to; empty if it is not (device flow)."""
    code: str | None = field(default=None, repr=False)
    """The code to enter at `url`, from any device; then nothing is sent back here."""
    names_issuer: bool = False
    """Whether the URL that the browser is sent back to must name its issuer (`iss`); a code alone is not
    enough then."""


LoginHandler: TypeAlias = Callable[[LoginRequest], Awaitable[str | None]]
"""Shows `url` to the person. Returns the URL that the browser was sent back to, or the code in it, if the
person had to copy it; None to cancel. It is cancelled as soon as the browser has come back by itself."""


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
class SamplingResult:
    """The model's completion."""

    content: Text | Image | Audio
    model: str
    stop_reason: str | None = "endTurn"


Elicit: TypeAlias = Callable[[Elicitation], Answer | Awaitable[Answer]]
Sample: TypeAlias = Callable[[Sampling], SamplingResult | Awaitable[SamplingResult | None] | None]
"""Returns None to decline."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QuestionRouting:
    """The way of a question to a person, if a part of toolbus asks: a gateway, a console, a terminal."""

    approver: str = "function"
    """The name in the audit trail of the one who asks in `approve`."""
    owner: Hashable = None
    """The owner of the session, who gets a share of the sessions with their own connections."""
    reaches: Callable[[str], bool] | None = None
    """Whether `elicit` and `approve` reach a person for the calls of a session (`Caller.session`).

    If not, it is as without these handlers. By default they reach one for all calls.
    """
    forwards: bool = False
    """Pass every request on to the MCP client of the operation that it belongs to; for a gateway.

    The other handlers are then for the operations of no client.
    """
    client: McpClient | None = None
    """With `forwards`: the client for requests that belong to no operation; without, they are refused."""


@dataclass(frozen=True, kw_only=True)
class Interactions:
    """The handlers: `elicit` and `approve` ask a person, `sample` calls a model, `login` lets one sign in.

    Timeouts of that server's calls pause while a handler runs.

    ```python
    def elicit(question: Elicitation) -> Answer:
        return question.accept({"day": "2026-12-24", "place": "terrace"})


    config = {"servers": {"desk": {"command": "python", "args": ["desk.py"]}}}
    async with Toolbus(config, interactions=Interactions(elicit=elicit)) as bus:
        result = await bus.call("desk_book", {"guest": "Ann"})
        print(result.text)  # Ann has a table for 2, terrace, on 2026-12-24.
    ```
    """

    elicit: Elicit | None = None
    sample: Sample | None = None
    login: LoginHandler | None = None
    """Lets a person sign in to a server when it is needed; without it, calls fail with `AuthRequired`."""
    approve: Approve | None = None
    """Asks a person about a call, if the policy says `ask`; without it, such calls are refused."""
    roots: Sequence[str | Path] | None = None
    """Folders, or `file://` URIs."""
    rounds: int = ROUNDS
    """The number of times a server may ask in one call."""
    answer_within: float = ANSWER_WITHIN
    """Seconds after which a request is treated as cancelled."""
    declares_elicitation: bool = False
    """Declare elicitation even without `elicit`; a question then fails its call with `InputNeeded`.

    For programs that can ask a person only in some runs, so that servers offer the same tools in all of them.
    """
    _routing: QuestionRouting = QuestionRouting()

    def __post_init__(self) -> None:
        for name in ("elicit", "sample", "login", "approve"):
            handler = getattr(self, name)
            if handler is not None and not callable(handler):
                raise TypeError(f"{name} must be a function, not {type(handler).__name__}")


NO_HANDLERS = Interactions()
routing_of: Callable[[Interactions], QuestionRouting] = attrgetter("_routing")
"""The routing of the questions for these handlers."""


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

    def sample(request: Sampling) -> SamplingResult | Awaitable[SamplingResult | None] | None:
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


_MOST_ASKED = 50


class PeopleTime:
    """The seconds in which somebody was asked; several questions at a time are counted once."""

    __slots__ = ("_before", "_since", "_waiting", "_whole", "asked")

    def __init__(self, whole: "PeopleTime | None") -> None:
        """`whole` is the time of the request that this is a part of."""
        self._whole = whole
        self._waiting = 0
        self._since = self._before = 0.0
        self.asked: tuple[tuple[float, float], ...] = ()
        """The last times in which somebody was asked, by `perf_counter`."""

    @property
    def seconds(self) -> float:
        return self._before + (time.perf_counter() - self._since if self._waiting else 0.0)

    @property
    def asked_until_now(self) -> tuple[tuple[float, float], ...]:
        """The same, with the time of now if somebody is asked."""
        return (*self.asked, (self._since, time.perf_counter())) if self._waiting else self.asked

    @property
    def is_asking(self) -> bool:
        """Whether somebody is asked now."""
        return self._waiting > 0

    @contextmanager
    def asking(self) -> Generator[None]:
        """Somebody is asked within the block."""
        self._enter()
        try:
            yield
        finally:
            self._leave()

    def _enter(self) -> None:
        if not self._waiting:
            self._since = time.perf_counter()
        self._waiting += 1
        if self._whole is not None:
            self._whole._enter()

    def _leave(self) -> None:
        self._waiting -= 1
        if not self._waiting:
            now = time.perf_counter()
            self._before += now - self._since
            self.asked = (*self.asked, (self._since, now))[-_MOST_ASKED:]
        if self._whole is not None:
            self._whole._leave()


PEOPLE: ContextVar[PeopleTime | None] = ContextVar("toolbus_people", default=None)
"""The time of people in the request that is being answered."""


def asking(people: PeopleTime | None) -> AbstractContextManager[None]:
    """Somebody is asked within the block, if anybody counts that."""
    return nullcontext() if people is None else people.asking()


class Stopwatch:
    """Measures the work from now on in this context."""

    def __init__(self) -> None:
        self._people = PeopleTime(PEOPLE.get())
        PEOPLE.set(self._people)
        self._began = time.perf_counter()

    @property
    def seconds(self) -> float:
        """The seconds so far, without those in which people were asked."""
        return time.perf_counter() - self._began - self._people.seconds
