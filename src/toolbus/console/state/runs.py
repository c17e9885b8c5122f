"""Durable runs as the console sees them; whoever builds a console may give it a store of them."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from toolbus.core.values.elicitation import Answer, Pending


class RunQuestion(Protocol):
    """What a run waits for."""

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
        """The newest runs that have not ended; with `ended`, the others as well."""
        ...

    async def get(self, run: str) -> RunFacts:
        """One run."""
        ...

    async def steps(self, run: str) -> Sequence[RunStep]:
        """What is recorded of a run."""
        ...

    async def answer(self, run: str, answers: Mapping[str, Answer], *, question: str) -> None:
        """Answer what a run waits for; ValueError if an answer is invalid."""
        ...

    async def cancel(self, run: str) -> None:
        """Cancel a run."""
        ...

    async def retry(self, run: str) -> None:
        """Continue a run that failed or was cancelled."""
        ...

    async def accept_changes(self, run: str) -> Sequence[str]:
        """Accept the changed tools of a run, and return their names."""
        ...
