"""The calls and sign-ins that people begin on a page, and their results."""

import asyncio
import itertools
import json
import logging
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Literal, TypeAlias

from toolbus.bus.toolbus import Toolbus
from toolbus.bus.view import View
from toolbus.connect.auth.browser import is_link
from toolbus.core.ask.interactions import LoginRequest
from toolbus.core.operation.operation import Caller
from toolbus.core.values.errors import ToolbusError, problem_of
from toolbus.core.values.records import JSON, Progress, ToolResult

logger = logging.getLogger("toolbus")

FACE = "console"
"""The caller of all that is called here, for policy and audit."""
MOST_TRIALS = 20
"""The oldest gives way to one more; running calls stay."""
LONGEST_TYPED = 1_000_000
"""The characters of all fields of a form, which are kept to be changed and sent again."""
MOST_DRAFTS = 50
MOST_BYTES = 32_000_000
"""The maximum for all ended calls together; the newest is always kept."""
Outcome: TypeAlias = Literal["running", "done", "failed", "canceled"]


_Work: TypeAlias = "Callable[[View, Progress], Awaitable[ToolResult]]"
Begin: TypeAlias = Callable[[Coroutine[Any, Any, Any], str], asyncio.Task[None]]
"""Begins a task, as `Console.begin` does."""


@dataclass(slots=True, kw_only=True)
class Trial:
    """One call, or another request to a server."""

    number: int
    tool: str
    """Its public name, or the key of a resource, prompt or skill."""
    typed: Mapping[str, list[str]]
    """The fields of the form, as they were sent."""
    arguments: Mapping[str, JSON] = field(default_factory=dict[str, JSON])
    sent: Mapping[str, JSON] = field(default_factory=dict[str, JSON])
    """The arguments as the server gets them."""
    session: str = ""
    """Of its caller: the questions that it causes are for that session."""
    outcome: Outcome = "running"
    progress: tuple[float, float | None, str | None] | None = None
    """The progress, the total, and the server's message about it."""
    result: ToolResult | None = None
    error: str = ""
    began: float = field(default_factory=time.time)
    seconds: float = 0.0
    task: asyncio.Task[None] | None = None
    size: int = 0
    """About how many bytes are kept of it, since it ended."""


class Trials:
    """The last calls of a console, oldest first."""

    def __init__(self, bus: Toolbus, begin: Begin, changed: Callable[[], None]) -> None:
        self._bus = bus
        self._begin = begin
        self._changed = changed
        self._numbers = itertools.count(1)
        self._trials: dict[int, Trial] = {}

    def get(self, number: int) -> Trial | None:
        """The call of that number, if it is still known."""
        return self._trials.get(number)

    def of(self, tool: str) -> list[Trial]:
        return [trial for trial in reversed(self._trials.values()) if trial.tool == tool]

    def call(
        self,
        tool: str,
        arguments: Mapping[str, JSON],
        typed: Mapping[str, list[str]],
        session: str,
        sent: Mapping[str, JSON] | None = None,
    ) -> Trial:
        """Begin a call for a session of the console."""
        trial = self._new(tool, typed, session)
        trial.arguments, trial.sent = arguments, arguments if sent is None else sent
        return self._start(
            trial, lambda view, on_progress: view.call(tool, arguments, on_progress=on_progress)
        )

    def read(
        self,
        what: str,
        typed: Mapping[str, list[str]],
        session: str,
        work: Callable[[View], Awaitable[ToolResult]],
    ) -> Trial:
        """Begin a request of another kind for a session of the console."""
        return self._start(self._new(what, typed, session), lambda view, _: work(view))

    def _new(self, tool: str, typed: Mapping[str, list[str]], session: str) -> Trial:
        return Trial(number=next(self._numbers), tool=tool, typed=typed, session=session)

    def _start(self, trial: Trial, work: _Work) -> Trial:
        self._add(trial)
        trial.task = self._begin(self._run(trial, work), f"call {trial.tool!r}")
        trial.task.add_done_callback(lambda _: self._end(trial))
        return trial

    def cancel(self, number: int) -> bool:
        """Cancel a call; False if it has ended."""
        trial = self._trials.get(number)
        return trial is not None and trial.task is not None and trial.task.cancel()

    def _add(self, trial: Trial) -> None:
        check_length(trial.typed)
        if len(self._trials) >= MOST_TRIALS:
            ended = next((one for one in self._trials.values() if one.outcome != "running"), None)
            if ended is None:
                raise ToolbusError(f"{MOST_TRIALS} calls of the console are running; cancel one first")
            del self._trials[ended.number]
        self._trials[trial.number] = trial
        self._changed()

    async def _run(self, trial: Trial, work: _Work) -> None:
        def on_progress(progress: float, total: float | None, message: str | None) -> None:
            trial.progress = progress, total, message
            self._changed()

        view = self._bus.view(caller=Caller(face=FACE, session=trial.session))
        try:
            trial.result = await work(view, on_progress)
        except ToolbusError as error:
            trial.error = str(error)
        except Exception as error:  # of a hook or a guard
            logger.exception("the call of %r from the console failed", trial.tool)
            trial.error = f"{type(error).__name__}: {error}"

    def _end(self, trial: Trial) -> None:
        """Also called if the task was canceled before it ran."""
        trial.seconds = time.time() - trial.began
        if trial.result is not None:
            trial.outcome = "failed" if trial.result.is_error else "done"
        else:
            trial.outcome = "failed" if trial.error else "canceled"
        trial.task = None
        trial.size = _size(trial)
        self._forget_large()
        self._changed()

    def _forget_large(self) -> None:
        """Forget the oldest calls that ended while all take too much memory."""
        ended = [one for one in self._trials.values() if one.outcome != "running"]
        total = sum(one.size for one in ended)
        for one in ended[:-1]:
            if total <= MOST_BYTES:
                break
            total -= one.size
            del self._trials[one.number]


def check_length(typed: Mapping[str, Sequence[str]]) -> None:
    """Raise `ToolbusError` if a form has too much text to be kept."""
    if _length(typed) > LONGEST_TYPED:
        raise ToolbusError(f"the form has more than {LONGEST_TYPED:,} characters")


def _length(typed: Mapping[str, Sequence[str]]) -> int:
    return sum(len(value) for values in typed.values() for value in values)


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """The form of a tool that was not sent: to get one more item, or because something in it is wrong."""

    number: int
    tool: str
    typed: Mapping[str, list[str]]
    problem: str = ""
    """The problem of the form as a whole."""
    problems: Mapping[str, str] = field(default_factory=dict[str, str])
    """The problems of its parts, by key."""
    focus: str = ""
    """The key of the part that the next thing is typed into."""
    suggestions: Mapping[str, Sequence[str]] = field(default_factory=dict[str, Sequence[str]])
    """Values that the server suggests, by key."""


class Drafts:
    """The last forms that were not sent."""

    def __init__(self) -> None:
        self._numbers = itertools.count(1)
        self._drafts: dict[int, Draft] = {}
        self._slots: dict[str, int] = {}
        """Sessions are few: their forms that are only looked at."""

    def get(self, number: int, tool: str) -> Draft | None:
        """The form of that number, if it is of this tool and still known."""
        found = self._drafts.get(number)
        return found if found is not None and found.tool == tool else None

    def keep(self, tool: str, typed: Mapping[str, list[str]], *, slot: str = "", **more: Any) -> Draft:
        """Keep a form; the oldest gives way to it, and the one before it in the same slot."""
        check_length(typed)
        draft = Draft(number=next(self._numbers), tool=tool, typed=typed, **more)
        if slot:
            self._drafts.pop(self._slots.get(slot, 0), None)
            self._slots[slot] = draft.number
        self._drafts[draft.number] = draft
        while len(self._drafts) > MOST_DRAFTS or self._size() > MOST_BYTES:
            del self._drafts[next(iter(self._drafts))]
        return draft

    def _size(self) -> int:
        return sum(_length(one.typed) for one in self._drafts.values())


def _size(trial: Trial) -> int:
    typed = _length(trial.typed)
    if trial.result is None:
        return 2 * typed  # once more, as arguments
    blocks = sum(
        len(getattr(one, "text", None) or "") + len(getattr(one, "data", None) or b"")
        for one in trial.result.content
    )
    return 2 * typed + blocks + len(json.dumps(trial.result.structured, default=repr))


@dataclass(slots=True)
class SignIn:
    """One sign-in, from the button to its end."""

    task: "asyncio.Task[None] | None" = None
    request: LoginRequest | None = None
    """The place to sign in; None while the server and its authorization server are asked."""
    problem: str | None = None
    """The reason why it failed."""
    pasted: "asyncio.Future[str | None]" = field(
        default_factory=lambda: asyncio.get_running_loop().create_future()
    )

    @property
    def is_waiting(self) -> bool:
        return self.task is not None and not self.task.done()


class SignIns:
    """The sign-ins by server, at most one each; one that succeeded is forgotten."""

    def __init__(self, bus: Toolbus, changed: Callable[[], None]) -> None:
        self._bus = bus
        self._changed = changed
        self._by_server: dict[str, SignIn] = {}

    @property
    def now(self) -> Mapping[str, SignIn]:
        """Those that wait for a person, and those that failed."""
        return MappingProxyType(self._by_server)

    def begin(self, alias: str) -> None:
        """Begin to sign in; nothing if somebody already does."""
        known = self._by_server.get(alias)
        if known is not None and known.is_waiting:
            return
        started = self._by_server[alias] = SignIn()
        started.task = asyncio.create_task(self._run(alias, started), name=f"toolbus sign-in {alias}")
        self._changed()

    def paste(self, alias: str, url: str | None) -> bool:
        """Take the URL that a browser on another machine ended on, None to give up; False if nobody waits."""
        known = self._by_server.get(alias)
        if known is None or not known.is_waiting or known.pasted.done():
            return False
        known.pasted.set_result(url)
        return True

    def cancel(self, alias: str) -> bool:
        """End a sign-in; False if there is none."""
        known = self._by_server.get(alias)
        if known is not None and known.is_waiting and known.request is None and known.task is not None:
            return known.task.cancel()
        return self.paste(alias, None)

    async def close(self) -> None:
        tasks = [one.task for one in self._by_server.values() if one.task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _run(self, alias: str, started: SignIn) -> None:
        async def show(request: LoginRequest) -> str | None:
            if not is_link(request.url):
                started.problem = "its sign-in page is not an http or https URL"
                return None
            started.request = request
            self._changed()
            return await started.pasted

        try:
            await self._bus.sign_in(alias, show)
            del self._by_server[alias]
        except ToolbusError as error:
            started.problem = started.problem or problem_of(error)
        except asyncio.CancelledError:
            self._by_server.pop(alias, None)
            raise
        finally:
            self._changed()
