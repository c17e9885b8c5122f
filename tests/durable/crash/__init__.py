"""The kill test of durable runs: workers that are killed in the middle, and checks afterwards.

Each run makes ten calls: writes that must not be repeated, writes that may be, and reads. Each run has one
point at which its worker kills itself with SIGKILL, once. The point is before a model request, or after the
intent of a call was recorded. It may also be on the server, before or after the effect, or before the result
is recorded.
"""

import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

STEPS = 10
Phase = Literal["model", "intent", "unsent", "effect", "unrecorded"]
PHASES: tuple[Phase, ...] = ("model", "intent", "unsent", "effect", "unrecorded")
"""The times at which a worker dies.

It dies at a model request, with the intent recorded, on the server before or after the effect, or with an
unrecorded result.
"""
TOOLS = ("write", "put", "look")
"""A write that must not be repeated; one that the config calls repeatable; a read by a trusted hint."""


@dataclass(frozen=True)
class Point:
    """The point at which the worker of a run dies."""

    step: int
    phase: Phase


def point_of(run: int) -> Point:
    """The points of all runs are spread evenly over steps and phases."""
    return Point(step=run // len(PHASES) % STEPS, phase=PHASES[run % len(PHASES)])


def tool_of(step: int) -> str:
    """The tool that a run calls at a step: six of ten are writes that must not be repeated."""
    return TOOLS[{2: 1, 5: 2, 7: 1, 9: 2}.get(step, 0)]


def note(folder: Path, line: str) -> None:
    """Append a line to the list of events; whole, even if the process is killed next."""
    handle = os.open(folder / "happened", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(handle, f"{time.time():.3f} {line}\n".encode())
    finally:
        os.close(handle)


def kill_here(folder: Path, run: int, step: int, phase: Phase, pid: int) -> bool:
    """Kill a worker if this is the point of the run, and the run has killed none before.

    A call that was in flight when another run killed the worker is not repeated, so the run may not reach its
    point. It is then the next point of its kind, or the end of the run.
    """
    point = point_of(run)
    if step < STEPS and (step < point.step or phase != point.phase):
        return False
    try:
        os.close(os.open(folder / f"killed-{run}", os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return False
    note(folder, f"kill {run} {step} {phase} {pid}")
    os.kill(pid, signal.SIGKILL)
    return True
