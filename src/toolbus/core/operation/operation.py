"""One operation: its target, its caller, and the steps that it passes.

Tool calls, resource reads, prompts, completions and task requests are all operations. Each passes, in
order: observers, hooks, the argument check, guards, and its route to a server. A request that the server
makes meanwhile (elicitation, sampling, roots) also passes observers and guards.
"""

from collections.abc import Awaitable, Callable, Coroutine, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Literal, NamedTuple, Protocol, TypeAlias, TypeGuard, TypeVar

from toolbus.core.ask.approval import Approval
from toolbus.core.ask.interactions import PEOPLE, Forwarding, PeopleTime
from toolbus.core.fast_init import with_fast_init
from toolbus.core.operation.events import Hub, Logged, OnLog, Reason
from toolbus.core.operation.phases import CallClock
from toolbus.core.values.catalog import Catalog
from toolbus.core.values.elicitation import Answer, Pending
from toolbus.core.values.records import (
    JSON,
    OWN,
    Inventory,
    Origin,
    Progress,
    TaskState,
    ToolResult,
    ToolSpec,
)

T = TypeVar("T")
OnInput: TypeAlias = Literal["ask", "suspend"]
_ids = count(1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """The caller of an operation; all fields are empty for a plain program."""

    face: str = ""
    """The entry point: an adapter, the command line, the gateway."""
    user: str = ""
    session: str = ""
    run: str = ""
    """One run of an agent."""
    key: str = ""
    """The holder of the credential that it came with, such as `key:ci`; only over a gateway."""
    view: str = ""
    """The view of the gateway that it came through."""


PROGRAM = Caller()


@with_fast_init
@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One request on its way to a server; a hook may pass on a changed copy."""

    spec: ToolSpec
    """The tool; for a resource, a prompt and so on, a record of the same shape, with its `route`."""
    arguments: Mapping[str, JSON] = field(repr=False)
    timeout: float | None = None
    max_timeout: float | None = None
    """As `timeouts.max`: progress extends the timeout, up to this many seconds."""
    reconnect_timeout: float | None = None
    """As `timeouts.reconnect`: how long to wait for a lost server, counted from its loss."""
    on_progress: Progress | None = None
    on_log: OnLog | None = None
    on_input: OnInput = "ask"
    """The way to handle a question of the server: ask the user, or suspend the call until `resumed`."""
    resumed: "Resumed | None" = None
    detached: bool = False
    """Whether to return as soon as the server turns the call into a task."""
    caller: Caller = PROGRAM
    servers: frozenset[str] | None = None
    """The servers that it may use; None for all."""
    id: int = field(default_factory=_ids.__next__)
    """The `id` of its events; unique in this process."""
    observed: "ObservedOperation | None" = field(default=None, repr=False, compare=False)
    """The observers that watch this operation, if there are any."""
    approval: Approval | None = None
    """The approval of a person, if it was asked for before."""
    during: int | None = None
    """For a request of a server: the `id` of the call that caused it, if known."""
    policies: tuple[object, ...] = ()
    """The policies of the views that it was made through; the guard of the bus knows them."""
    forwarding: Forwarding | None = None
    """The MCP client that it is made for, if there is one: results and requests are forwarded as sent."""
    catalog: Catalog | None = field(default=None, repr=False, compare=False)
    """The tools of its view, if that is where it was made."""
    tenant: "OperationTenant | None" = field(default=None, repr=False, compare=False)
    """The tenant, if the operation was made through a view; a hook does not change it."""
    clock: CallClock | None = field(default=None, repr=False, compare=False)
    """Set by an observer that wants to know what the time is spent on."""
    is_unlisted: bool = False
    """Whether the model may not know the definition: a mistake in the arguments is answered with it."""
    prefers_legacy: bool = False
    """Whether a server that speaks both eras is to get it in the legacy one: a legacy client can be asked."""

    @property
    def route(self) -> str:
        """The MCP method, such as `tools/call` or `resources/read`."""
        return self.spec.route

    @property
    def server(self) -> str:
        """The alias of its server; `toolbus` if it has none."""
        origin = self.spec.origin
        return self.arguments.get("server", OWN) if origin.server == OWN else origin.server

    @property
    def people(self) -> PeopleTime | None:
        """The time for which people were asked because of it; None if nobody counts that."""
        return PEOPLE.get() if self.observed is None else self.observed.people


class CallRegister(Protocol):
    """The calls in flight of a user or a session, whose events reach nobody else."""

    def begin(self, call: int) -> None:
        """Register a call by its id; its link may be shared."""
        ...

    def end(self, call: int) -> None:
        """Forget a call."""
        ...


class OperationTenant(Protocol):
    """The bus, a user or a session: whose links an operation uses, and who is told about it."""

    user: str
    """Empty for the bus itself."""
    hub: Hub
    calls: CallRegister | None
    """None for the bus itself, which is told of everything that has no other owner."""
    loaded_skills: dict[tuple[Caller, str, str], str]
    """The digest of each skill that a model has loaded, by who loaded it, server and URI."""

    @property
    def requests(self) -> Mapping[str, Any]:
        """The requests to each of its servers (`ServerRequests`, which this part does not know)."""
        ...

    @property
    def inventories(self) -> Mapping[str, Inventory]:
        """The inventory of each server, without anything that the lock holds back."""
        ...

    def listed(self, operation: Operation, /) -> Mapping[str, Inventory]:
        """The inventories that an operation may list."""
        ...

    def warn(self, server: str, tool: str | None, message: str) -> None:
        """Log a warning and emit it as an event, once."""
        ...

    def keep_results(self) -> None:
        """A result was cut, and the rest is kept for `read_result`."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Resumed:
    """A suspended call, and the answers to its questions."""

    pending: Pending
    answers: Mapping[str, Answer] = field(default_factory=dict[str, Answer])

    @classmethod
    def of(cls, pending: Pending, answers: Mapping[str, Answer] | Answer | None) -> "Resumed":
        """With answers by the keys of the questions; ValueError if one is missing or invalid."""
        questions = pending.questions
        if isinstance(answers, Answer):
            answers = dict.fromkeys(questions, answers) if len(questions) == 1 else {}
        given = answers or {}
        for key, question in questions.items():
            if key not in given:
                raise ValueError(f"there is no answer to {key!r}: {question.message}")
            if not isinstance(given[key], Answer):  # pyright: ignore[reportUnnecessaryIsInstance]  # users may pass anything
                kind = type(given[key]).__name__
                raise TypeError(
                    f"the answer to {key!r} must be an Answer, as of question.accept(), not {kind}"
                )
            if given[key].action == "accept":
                if question.fault is not None:
                    raise ValueError(question.fault)
                question.accept(given[key].content)
        return cls(pending=pending, answers=given)


class ReportProgress(Protocol):
    """Reports the progress of an operation."""

    async def __call__(self, progress: float, total: float | None, message: str | None) -> None: ...


@dataclass(slots=True, eq=False, kw_only=True)
class CallInFlight:
    """An operation on its connection; the server's requests and reports meanwhile belong to it."""

    tool: str | None
    """The server's own name for the tool; None for a resource or a prompt."""
    operation_id: int | None = None
    caller: Caller = PROGRAM
    on_progress: "ReportProgress | None" = None
    on_log: OnLog | None = None
    suspends: bool = False
    """Whether a question suspends the call, to be answered later."""
    max_timeout: float | None = None
    """The most seconds to which progress extends the timeout; None if progress does not extend it."""
    asked: float = 0
    """The number of questions from the server; one that may belong to several calls is split among them."""
    unanswered: str | None = None
    """The question of the server that has no handler."""
    policies: tuple[object, ...] = ()
    """The policies of the operation."""
    forwarding: Forwarding | None = None
    """The forwarding of the operation."""
    on_end: "tuple[Callable[[CallInFlight], None], ...]" = ()
    """Called when the operation ends."""
    people: PeopleTime | None = None
    """The `people` of the operation."""
    clock: CallClock | None = None
    """The `clock` of the operation."""


class Failure(NamedTuple):
    """The reason why an operation failed; `error` is None if the tool itself reported an error."""

    reason: Reason
    error: str | None = None


class Observation(Protocol):
    """One operation as an observer follows it.

    With `ignores_progress = True`, servers are not asked for progress because of it. It may also have the
    methods of `ServerObservation`.
    """

    def progress(self, progress: float, total: float | None, message: str | None) -> None:
        """The server reported progress."""
        ...

    def end(self, result: ToolResult | None, failure: Failure | None) -> None:
        """The operation ended: with a result, a failure, or both if the tool reported an error."""
        ...


class Observer(Protocol):
    """Follows every operation, including refused ones. Exceptions it raises are only logged.

    The duration of an operation excludes `operation.people.seconds`, in which a person was asked.
    With `times_stations = True`, stations enter their phases in `operation.clock`, if it is set.
    It may also be a `ServerObserver`.
    """

    def start(self, operation: Operation, /) -> Observation | None:
        """An operation begins; return None to ignore it."""
        ...


class ServerObservation(Observation, Protocol):
    """One operation on its way to a server, as a `ServerObserver` follows it."""

    def log(self, event: Logged) -> None:
        """The server sent a log message during a tool call."""
        ...

    def task(self, state: TaskState) -> None:
        """The server runs the call as a task, or reported its state."""
        ...


class ServerObserver(Observer, Protocol):
    """An observer with `at_server = True`: sees what servers receive, send and offer.

    It follows operations inside of hooks, repairs and guards, so it does not see what those refuse. Requests
    of servers (elicitation, sampling, roots) are operations whose result has the answer as its `value`.
    """

    at_server: Literal[True]

    def start(self, operation: Operation, /) -> ServerObservation | None:
        """An operation is being sent."""
        ...

    def offered(self, inventories: Mapping[str, Inventory], /) -> None:
        """Servers offer something else now; by alias, before the lock and the config select from it."""
        ...

    def updated(self, server: str, uri: str, /) -> None:
        """A subscribed resource changed."""
        ...

    def closed(self) -> None:
        """The bus has stopped."""
        ...


def sees_servers(observer: Observer) -> TypeGuard[ServerObserver]:
    """Whether an observer is a `ServerObserver`."""
    return getattr(observer, "at_server", False) is True


class ObservedOperation(Protocol):
    """All observations of one operation."""

    failure: Failure | None
    """The failure of the last try; a hook may try several times."""
    error: BaseException | None
    """The error that it ended with."""
    people: PeopleTime
    """The time for which people were asked because of it."""

    @property
    def follows_progress(self) -> bool:
        """Whether any of them follows progress."""
        ...

    def progress(self, progress: float, total: float | None, message: str | None) -> None: ...

    def task(self, state: TaskState) -> None:
        """The call became a task, or its task was polled."""
        ...


@with_fast_init
@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """A decision about one operation."""

    action: Literal["allow", "deny"]
    by: str
    """The source: `policy`, `guard`, `lock`, an answer of a person and who asked for it, or `default`."""
    rule: str | None = None
    """The rule of the policy, such as `policy[2]`."""
    definition: str | None = None
    """The digest of the tool's definition, as in the lockfile."""
    reason: str = ""


class Trail(Protocol):
    """Records decisions."""

    def decided(self, operation: Operation, decision: Decision, /) -> None:
        """Record a decision, before anything is sent; `AuditFailed` if it cannot be recorded."""
        ...


Guard: TypeAlias = Callable[[Operation], Awaitable[None]]
"""Sees an operation exactly as it will be sent; raises `CallDenied` to stop it."""
Route: TypeAlias = Callable[[Operation], Awaitable[ToolResult]]
"""Carries out an operation and returns its result."""


class Admit(Protocol):
    """Passes a server's request through observers and guards to the handler that answers it."""

    async def __call__(self, operation: Operation, answer: Callable[[], Awaitable[T]], /) -> T: ...


async def admit_all(operation: Operation, answer: Callable[[], Awaitable[T]], /) -> T:
    """Answer without observers and guards."""
    return await answer()


def request_spec(route: str, server: str, name: str) -> ToolSpec:
    """The target of an operation that is not a tool call, in the form of a tool."""
    return ToolSpec(name=name, origin=Origin(server, name), route=route, input_schema={})


Make: TypeAlias = Callable[[Operation], Coroutine[Any, Any, ToolResult]]
"""Makes an operation: takes it through observers, hooks, guards and its route."""


class Journal(Protocol):
    """Records operations before they are made and when they are done."""

    async def run(self, operation: Operation, make: Make, /) -> ToolResult:
        """Make an operation and record it, or return the recorded result if it was made before."""
        ...


JOURNAL: ContextVar[Journal | None] = ContextVar("toolbus_journal", default=None)
"""The journal of the tool call in whose context an operation is made; None outside of durable runs."""
