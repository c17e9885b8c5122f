"""The data behind the pages of a console; nothing about HTML or HTTP."""

import asyncio
import json
import logging
import time
from collections.abc import Callable, Coroutine, Generator, Mapping, Sequence, Set
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Literal, Protocol, TypeAlias

from pydantic_core import to_json

from toolbus.audit.history.record import HistoryCall
from toolbus.bus.inner import tenant_of
from toolbus.bus.toolbus import Toolbus
from toolbus.config.location import is_mapping
from toolbus.config.secrets.redact import redacted_by_all
from toolbus.config.settings.serve import Serve
from toolbus.console.apps.frames import AppFrames
from toolbus.console.call_log import CallLog
from toolbus.console.editing.drafts import ServerDrafts
from toolbus.console.record.past import PastCalls
from toolbus.console.record.states import DAY, ServerStates, changes_of
from toolbus.console.safety.held import HeldParts
from toolbus.console.safety.locking import LockDigests
from toolbus.console.safety.rules import RulesOfBus
from toolbus.console.safety.trail import TrailCheck
from toolbus.console.trials import Drafts, SignIns, Trials
from toolbus.core.ask.question_router import QuestionRouter
from toolbus.core.operation.events import CatalogChanged, Event, LoginNeeded, StateChanged, ToolHeld
from toolbus.core.values.catalog import Catalog
from toolbus.core.values.elicitation import Answer, Pending
from toolbus.core.values.errors import ToolbusError
from toolbus.core.values.records import JSON, ToolSpec
from toolbus.gateway.access.keys import StoredKeys
from toolbus.gateway.protocol.clients import ConnectedClients
from toolbus.shape.cost import definition_tokens


class RunQuestion(Protocol):
    """The question of a run."""

    @property
    def id(self) -> str: ...
    @property
    def pending(self) -> Pending: ...
    @property
    def is_approval(self) -> bool: ...


class RunStep(Protocol):
    """A recorded step of a run."""

    @property
    def name(self) -> str: ...
    @property
    def about(self) -> str: ...
    @property
    def outcome(self) -> str: ...
    @property
    def at(self) -> float | None: ...
    @property
    def began(self) -> float | None: ...
    @property
    def tool(self) -> str: ...
    @property
    def error(self) -> str: ...
    @property
    def model(self) -> str: ...
    @property
    def input_tokens(self) -> int | None: ...
    @property
    def output_tokens(self) -> int | None: ...


class RunFacts(Protocol):
    """A run as its store has it."""

    @property
    def id(self) -> str: ...
    @property
    def agent(self) -> str: ...
    @property
    def status(self) -> str: ...
    @property
    def is_open(self) -> bool: ...
    @property
    def prompt(self) -> str: ...
    @property
    def created(self) -> float: ...
    @property
    def updated(self) -> float: ...
    @property
    def worker(self) -> str | None: ...
    @property
    def attempts(self) -> int: ...
    @property
    def question(self) -> RunQuestion | None: ...
    @property
    def held(self) -> Mapping[str, str]: ...
    @property
    def output(self) -> str | None: ...
    @property
    def error(self) -> str | None: ...


class ConsoleRuns(Protocol):
    """A store of durable runs; every method raises `ToolbusError` if it cannot be done."""

    async def recent(self, *, ended: bool, limit: int) -> Sequence[RunFacts]:
        """The newest runs that have not ended; with `ended`, all runs."""
        ...

    async def get(self, run: str) -> RunFacts: ...

    async def steps(self, run: str) -> Sequence[RunStep]: ...

    async def answer(self, run: str, answers: Mapping[str, Answer], *, question: str) -> None:
        """Answer what a run waits for; ValueError if an answer is invalid."""
        ...

    async def cancel(self, run: str) -> None: ...

    async def retry(self, run: str) -> None:
        """Continue a run that failed or was cancelled."""
        ...

    async def accept_changes(self, run: str) -> Sequence[str]:
        """Accept the changed tools of a run, and return their names."""
        ...


logger = logging.getLogger("toolbus")

Topic: TypeAlias = Literal["servers", "catalog", "calls", "held", "questions", "audit", "keys", "trials"]
"""Something that may change on a page."""
RUNS_SECONDS = 2.0
MOST_RUNS = 100
"""The newest runs that are looked at."""
WAITS_FOR_TOKENS = 0.3
"""Seconds for which a page waits until they are counted."""
APPROVED_WITHIN = 2.0
"""Seconds for the bus to use an approval, before the page is shown again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsoleKeys:
    """The keys of a gateway, and the views that they may give."""

    stored: StoredKeys
    serve: Serve


class Console:
    """One bus, as its pages see it; used from the bus's loop alone. It is closed before the bus stops."""

    def __init__(self, bus: Toolbus, board: QuestionRouter | None = None) -> None:
        """`board` has the questions that wait for a person; the bus must use the board's interactions."""
        self.bus = bus
        self.board = board or QuestionRouter()
        self.held = HeldParts(bus)
        self.lock_digests = LockDigests()
        self.rules = RulesOfBus(bus)
        self.keys: ConsoleKeys | None = None
        """None if the gateway uses no keys."""
        self.clients: ConnectedClients | None = None
        """The MCP clients of a gateway; None if this is the console of no gateway."""
        self.config_problem: Callable[[], str | None] = lambda: None
        """The reason if the config has changed, and the old one is still in use."""
        self.began = time.time()
        self.runs: ConsoleRuns | None = None
        """The durable runs of agents, if there is a store of them."""
        self.waiting_runs: Sequence[RunFacts] = ()
        """Those that wait for a person, when somebody last looked."""
        self._looked_at_runs = 0.0
        self.sign_ins = SignIns(bus, lambda: self.changed("servers"))
        self.history = PastCalls.of(bus.config)
        """None if the config wants none."""
        self.calls = CallLog(history=None if self.history is None else self.history.writer)
        self.states = ServerStates()
        self.trail_check = TrailCheck(lambda: self.changed("audit"))
        self.presence = Presence(self.board)
        self.trials = Trials(bus, self.begin, lambda: self.changed("trials"))
        self.apps = AppFrames(bus, self.trials)
        self.server_drafts = ServerDrafts(bus, self.begin, lambda: self.changed("trials"))
        self.readings = Trials(bus, self.begin, lambda: self.changed("trials"))
        """The resources, prompts and skills that were read here."""
        self.forms = Drafts()
        """The forms of tools that were not sent."""
        self.costs = Costs()
        self._tokens: tuple[Catalog | None, Mapping[str, int]] = (None, {})
        """Of the tools of the catalog that was counted last."""
        self._counting: tuple[Catalog, asyncio.Task[None]] | None = None
        self.drafts: dict[int, Mapping[str, list[str]]] = {}
        """The answers to questions that were invalid, by number: people do not type them twice."""
        self._watchers: list[tuple[Set[Topic], Callable[[], None]]] = []
        self._tasks: set[asyncio.Task[None]] = set()
        for alias, status in bus.servers.items():
            self.states.begin(alias, status.state, status.since)
        self._endings = [
            bus.on_event(self._on_event, calls=False),
            bus.observe(self.calls),
            self.board.watch(lambda: self.changed("questions")),
        ]
        if self.history is not None:
            self.begin(self._load_states(), "read the history of states")

    def changed(self, *topics: Topic) -> None:
        """Have the pages that show one of these rendered again."""
        for watched, wake in tuple(self._watchers):
            if not watched.isdisjoint(topics):
                wake()

    def watch(self, topics: Set[Topic], wake: Callable[[], None]) -> Callable[[], None]:
        """Call `wake` when one of the topics changes; returns a function that ends it."""
        watcher = topics, wake
        self._watchers.append(watcher)
        return lambda: self._watchers.remove(watcher)

    def begin(self, work: Coroutine[Any, Any, Any], what: str) -> asyncio.Task[None]:
        """Let something go on after its action; its error is logged, the state of the bus shows the rest."""
        task = asyncio.create_task(_logged(work, what), name=f"toolbus console: {what}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def look_at_runs(self) -> None:
        """See which runs wait for a person; at most every two seconds, because it asks a database."""
        now = time.monotonic()
        if self.runs is None or now < self._looked_at_runs + RUNS_SECONDS:
            return
        self._looked_at_runs = now
        try:
            found = await self.runs.recent(ended=False, limit=MOST_RUNS)
        except ToolbusError:  # the page of the runs says why
            found = ()
        self.waiting_runs = [run for run in found if run.question is not None]

    async def tokens_of(self, catalog: Catalog) -> Mapping[str, int]:
        """The tokens of its tools for the provider that needs most, as far as they are counted.

        Counting many tools takes seconds: then the pages are rendered again at its end.
        """
        if self._counting is None or self._counting[0] is not catalog:
            self._counting = catalog, self.begin(self._count(catalog), "count tokens")
        await asyncio.wait((self._counting[1],), timeout=WAITS_FOR_TOKENS)
        known, tokens = self._tokens
        return tokens if known is catalog else {}

    async def _count(self, catalog: Catalog) -> None:
        self._tokens = catalog, await self.costs.highest(catalog.specs)
        self.changed("catalog")

    async def use_approved(self) -> None:
        """Have the bus use the approved lock; it does not wait for servers that may start now."""
        task = self.begin(self._reload_lock(), "use the lockfile")
        await asyncio.wait((task,), timeout=APPROVED_WITHIN)

    async def _reload_lock(self) -> None:
        await tenant_of(self.bus).reload_lock()
        self.changed("held", "servers", "catalog")

    # The history

    async def find_call(self, id_: str) -> HistoryCall | None:
        """A call by its id, in flight, remembered or in the history; with its content, if that is kept."""
        record, history = self.calls.get(id_), self.history
        if record is not None and not record.shows_content:
            return record.recorded()
        if record is not None and (record.arguments is not None or history is None):
            return record.with_content()
        found = None if history is None else await history.call(id_)
        return record.recorded() if found is None and record is not None else found

    async def arguments_of(self, id_: str) -> Mapping[str, JSON] | None:
        """The arguments of a call, to make it again; None if they are not kept.

        Secrets in them are masked.
        """
        call = await self.find_call(id_)
        if call is None or call.arguments is None:
            return None
        found: object = json.loads(call.arguments)
        return found if is_mapping(found) else None

    async def _load_states(self) -> None:
        """Add the states of the last 24 hours from the history."""
        recorded = [] if self.history is None else await self.history.states(time.time() - DAY)
        for alias in self.bus.config.servers:
            self.states.add_earlier(alias, changes_of(one for one in recorded if one.server == alias))

    async def close(self) -> None:
        for end in self._endings:
            end()
        if self.history is not None:
            for alias in self.bus.config.servers:
                self.history.writer.put_state(time.time(), alias, "", "")
            await self.history.close()
            self.calls.history = self.history = None
        self._endings.clear()
        self.presence.close()
        await self.sign_ins.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _on_event(self, event: Event) -> None:
        match event:
            case StateChanged():
                self._note_state(event)
                self.changed("servers")
            case LoginNeeded():
                self.changed("servers")
            case CatalogChanged():
                self.changed("servers", "catalog", "held")
            case ToolHeld():
                self.changed("held")
            case _:
                pass

    def _note_state(self, event: StateChanged) -> None:
        change = self.states.note(event)
        if self.history is not None:
            self.history.writer.put_state(event.at, event.server, event.state, redacted_by_all(change.error))


async def _logged(work: Coroutine[Any, Any, Any], what: str) -> None:
    try:
        await work
    except ToolbusError as error:
        logger.info("%s: %s", what, error)
    except Exception:  # a task's edge
        logger.exception("could not %s", what)


_MOST_KNOWN = 20_000
"""Definitions whose tokens are remembered."""


class Costs:
    """The tokens of tools, by provider."""

    def __init__(self) -> None:
        self._known: dict[bytes, Mapping[str, int]] = {}
        """By the digest of all that is counted: a server that lists the same tools again has other specs."""
        self._counting = asyncio.Lock()

    async def of(self, specs: Sequence[ToolSpec]) -> dict[str, Mapping[str, int]]:
        """The tokens by tool and provider; none for a tool that cannot be converted.

        They are counted in one thread, however many pages ask for them.
        """
        async with self._counting:
            return await asyncio.to_thread(lambda: {spec.name: self._tokens(spec) for spec in specs})

    async def highest(self, specs: Sequence[ToolSpec]) -> dict[str, int]:
        """The tokens of tools for the provider that needs most; without those that are not known."""
        found = await self.of(specs)
        return {name: max(tokens.values()) for name, tokens in found.items() if tokens}

    def _tokens(self, spec: ToolSpec) -> Mapping[str, int]:
        counted = (spec.name, spec.title, spec.description, spec.input_schema, spec.options)
        digest = sha256(to_json(counted, inf_nan_mode="constants", fallback=repr)).digest()
        if digest not in self._known:
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            self._known[digest] = _counted(spec)
        return self._known[digest]


def _counted(spec: ToolSpec) -> Mapping[str, int]:
    try:
        return definition_tokens(spec)
    except Exception:  # one tool that cannot be converted must not affect the others
        logger.info("the tokens of %r cannot be counted", spec.name, exc_info=True)
        return {}


RECENT_SECONDS = 120.0
"""Seconds of presence after a request, for browsers that follow no stream."""


class Presence:
    """Sets `is_watched` of a switchboard."""

    def __init__(self, board: QuestionRouter, recent_seconds: float = RECENT_SECONDS) -> None:
        self._board = board
        self._recent_seconds = recent_seconds
        self._streams = 0
        self._timer: asyncio.TimerHandle | None = None
        self._is_closed = False

    def note_request(self) -> None:
        """Note a request of somebody with a session."""
        if self._is_closed:
            return
        self._board.is_watched = True
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_later(self._recent_seconds, self._forget)

    @contextmanager
    def following(self) -> Generator[None]:
        """A block in which a page is open and follows its stream."""
        self._streams += 1
        try:
            yield
        finally:
            self._streams -= 1
            self.note_request()

    def close(self) -> None:
        """Nobody can answer any more."""
        self._is_closed = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._board.is_watched = False

    def _forget(self) -> None:
        self._timer = None
        self._board.is_watched = self._streams > 0
