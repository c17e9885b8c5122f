"""Tasks of a benchmark with their gold calls, and the outcomes."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from jsonschema import Draft202012Validator

Answer = tuple[str, bool]
"""The text of a result, and whether it is an error."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GoldCall:
    """A call that the benchmark gives as part of the solution."""

    server: str
    tool: str
    arguments: Mapping[str, Any]
    source: str = ""
    """The line of Python that the benchmark has, if it writes calls so."""
    fits: bool = True
    """Whether the arguments fit the tool's own schema; if they do not, toolbus sends nothing."""

    @property
    def name(self) -> str:
        """The public name on a bus with the default naming."""
        return f"{self.server}_{self.tool}"


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskTurn:
    """A message of the user, and the calls that answer it."""

    text: str
    calls: Sequence[GoldCall]
    appearing: Sequence[tuple[str, str]] = ()
    """Tools, with their servers, that are missing until this turn."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """A conversation with its data."""

    id: str
    kind: str
    turns: Sequence[TaskTurn]
    scenarios: Mapping[str, Any]
    """The data that each server starts with."""

    @property
    def calls(self) -> list[GoldCall]:
        return [call for turn in self.turns for call in turn.calls]

    @property
    def late(self) -> Iterator[tuple[str, str]]:
        """Tools, with their servers, that appear in the middle of the task."""
        return (tool for turn in self.turns for tool in turn.appearing)


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskOutcome:
    """The results of a task's calls, and the state of its servers after them."""

    results: Sequence[Answer]
    states: Mapping[str, Any]

    def difference(self, other: "TaskOutcome", calls: Sequence[GoldCall] = ()) -> str:
        """In which way another outcome differs; empty if it does not.

        A call whose arguments do not fit has to fail.
        """
        fits = [one.fits for one in calls] or [True] * len(self.results)
        changed = [
            number
            for number, (one, two, right) in enumerate(zip(self.results, other.results, fits, strict=False))
            if not (same(one, two) if right else two[1])
        ]
        if len(self.results) != len(other.results):
            return f"{len(other.results)} results instead of {len(self.results)}"
        if changed:
            return f"the result of call {changed[0]}: {other.results[changed[0]]!r:.200}"
        return "" if self.states == other.states else "the final state"


def same(one: Answer, two: Answer) -> bool:
    """Whether two results are the same; spaces in JSON do not count, because scripts get values."""
    return one[1] == two[1] and (one[0] == two[0] or _value(one[0]) == _value(two[0]))


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def checked(tasks: Sequence[Task], definitions: Mapping[str, Sequence[Mapping[str, Any]]]) -> list[Task]:
    """The tasks, with each call compared with the schema of its tool."""
    schemas: dict[tuple[str, str], Any] = {
        (server, tool["name"]): Draft202012Validator(tool["inputSchema"])
        for server, tools in definitions.items()
        for tool in tools
    }

    def call(one: GoldCall) -> GoldCall:
        return replace(one, fits=schemas[one.server, one.tool].is_valid(one.arguments))

    def turn(one: TaskTurn) -> TaskTurn:
        return replace(one, calls=[call(gold) for gold in one.calls])

    return [replace(task, turns=[turn(one) for one in task.turns]) for task in tasks]


@dataclass(slots=True, kw_only=True)
class PathOutcome:
    """The outcomes of all tasks on one path."""

    tasks: int = 0
    calls: int = 0
    refused: int = 0
    """Tasks with a call that breaks the schema of its own tool; they equal a run without that call."""
    equal: int = 0
    different: dict[str, str] = field(default_factory=dict[str, str])
    """The difference of each task that has one."""

    def add(self, task: Task, expected: TaskOutcome, got: TaskOutcome) -> None:
        """Count a task."""
        self.tasks += 1
        self.calls += len(task.calls)
        if difference := expected.difference(got, task.calls):
            self.different[task.id] = difference
        elif not all(call.fits for call in task.calls):
            self.refused += 1
        else:
            self.equal += 1
