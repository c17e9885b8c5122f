"""The errors of durable runs."""

from collections.abc import Sequence

from toolbus.core.values.errors import ToolbusError

__all__ = [
    "NotWaiting",
    "RunCancelled",
    "RunDiverged",
    "RunFailed",
    "RunNotFound",
    "RunStoreError",
]


class RunNotFound(ToolbusError):
    """The database of durable runs has no run with that id.
    Fix: look for it with `toolbus runs --all`.
    """

    def __init__(self, run: str, place: str) -> None:
        self.run = run
        super().__init__(f"no run {run!r} in {place}; toolbus runs --all lists them")


class RunFailed(ToolbusError):
    """A durable run ended with an error; `kind` is the name of its class.
    Fix: see its steps with `toolbus runs show ID`, then continue it with `toolbus runs resume ID`.
    """

    def __init__(self, run: str, kind: str, message: str) -> None:
        self.run, self.kind = run, kind
        super().__init__(f"run {run!r} failed: {message}")


class RunCancelled(ToolbusError):
    """A durable run was cancelled.
    Fix: start a new run, or continue this one with `toolbus runs resume ID`.
    """

    def __init__(self, run: str) -> None:
        self.run = run
        super().__init__(f"run {run!r} was cancelled")


class NotWaiting(ToolbusError):
    """A run does not wait for that: it was answered already, or has ended.
    Fix: see its state with `toolbus runs show ID`.
    """


class RunDiverged(ToolbusError):
    """A resumed run differs from its record: the program or its settings have changed.

    `missing` are the tools that the run has called, and that no live worker has.
    Fix: start the earlier program and run `toolbus runs resume ID`, or start a new run.
    """

    def __init__(self, run: str, missing: Sequence[str] = ()) -> None:
        self.missing = tuple(missing)
        problem = (
            "this program does not repeat what the run recorded: its tools or settings have changed since"
        )
        if missing:
            names = ", ".join(map(repr, missing))
            problem = (
                f"the run has called {names}, and no live worker has {'it' if len(missing) == 1 else 'them'}"
            )
        super().__init__(
            f"{problem}; start the earlier program, then 'toolbus runs resume {run}' continues it"
        )


class RunStoreError(ToolbusError):
    """The database of durable runs cannot be used; `place` names it without its password.

    `may_pass` if it is worth waiting for: it cannot be reached now, or has no room.
    Fix: check the URL and the server; use one database in a process, and give each program its own name.
    """

    def __init__(self, place: str, problem: str, step: str, *, may_pass: bool = False) -> None:
        self.place, self.may_pass = place, may_pass
        super().__init__(f"the store of runs {place}: {problem}; {step}")
