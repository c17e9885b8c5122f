"""Calls that people make from the console to try a tool: the last ones, with what came of them."""

import asyncio
import itertools
import json
import logging
import time
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, TypeAlias

from toolbus.bus.toolbus import Toolbus
from toolbus.core.operation.operation import Caller
from toolbus.core.values.errors import ToolbusError
from toolbus.core.values.records import JSON, ToolResult

logger = logging.getLogger("toolbus")

MOST_TRIALS = 20
"""The oldest gives way to one more; what runs stays."""
LONGEST_TYPED = 1_000_000
"""The characters of all fields of a form, which are kept to be changed and sent again."""
MOST_BYTES = 32_000_000
"""Of all that is kept of calls that ended; the newest is kept, whatever its size."""
Outcome: TypeAlias = Literal["running", "done", "failed", "canceled"]


class Begin(Protocol):
    """Begins a task, as `Console.begin` does."""

    def __call__(self, work: Coroutine[Any, Any, Any], what: str, /) -> asyncio.Task[None]: ...


@dataclass(slots=True, kw_only=True)
class Trial:
    """One call."""

    number: int
    tool: str
    typed: Mapping[str, list[str]]
    """The fields of the form, as they were sent."""
    arguments: Mapping[str, JSON] | None = None
    """None if the form was invalid."""
    outcome: Outcome = "running"
    progress: tuple[float, float | None, str | None] | None = None
    """How far it is, of how much, and what the server says to that."""
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
        """The calls of a tool, newest first."""
        return [trial for trial in reversed(self._trials.values()) if trial.tool == tool]

    def call(
        self, tool: str, arguments: Mapping[str, JSON], typed: Mapping[str, list[str]], session: str
    ) -> Trial:
        """Begin a call for a session of the console."""
        trial = self._add(Trial(number=next(self._numbers), tool=tool, typed=typed, arguments=arguments))
        trial.task = self._begin(self._run(trial, arguments, session), f"call {tool!r}")
        trial.task.add_done_callback(lambda _: self._end(trial))
        return trial

    def refuse(self, tool: str, typed: Mapping[str, list[str]], problem: str) -> Trial:
        """Keep a form that is invalid, to be corrected."""
        return self._add(
            Trial(number=next(self._numbers), tool=tool, typed=typed, outcome="failed", error=problem)
        )

    def cancel(self, number: int) -> bool:
        """Cancel a call; False if it has ended."""
        trial = self._trials.get(number)
        return trial is not None and trial.task is not None and trial.task.cancel()

    def _add(self, trial: Trial) -> Trial:
        if sum(len(value) for values in trial.typed.values() for value in values) > LONGEST_TYPED:
            raise ToolbusError(f"the form has more than {LONGEST_TYPED:,} characters")
        if len(self._trials) >= MOST_TRIALS:
            ended = next((one for one in self._trials.values() if one.outcome != "running"), None)
            if ended is None:
                raise ToolbusError(f"{MOST_TRIALS} calls of the console are running; cancel one first")
            del self._trials[ended.number]
        self._trials[trial.number] = trial
        self._changed()
        return trial

    async def _run(self, trial: Trial, arguments: Mapping[str, JSON], session: str) -> None:
        def on_progress(progress: float, total: float | None, message: str | None) -> None:
            trial.progress = progress, total, message
            self._changed()

        view = self._bus.view(caller=Caller(face="console", session=session))
        try:
            trial.result = await view.call(trial.tool, arguments, on_progress=on_progress)
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


def _size(trial: Trial) -> int:
    typed = sum(len(value) for values in trial.typed.values() for value in values)
    if trial.result is None:
        return 2 * typed  # once more, as arguments
    blocks = sum(
        len(getattr(one, "text", None) or "") + len(getattr(one, "data", None) or b"")
        for one in trial.result.content
    )
    return 2 * typed + blocks + len(json.dumps(trial.result.structured, default=repr))
