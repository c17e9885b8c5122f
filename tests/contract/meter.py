"""A meter of two counts, for everything that a thread does.

calls
    Python functions that start, if they are toolbus's own or if toolbus's code calls them directly. Calls
    among other packages are left out, so the count hardly depends on the versions of Python and of our
    dependencies. A feature that only calls a library still shows.
bytes
    Memory that is allocated, even if it is freed soon: traced memory is read whenever a function starts or
    returns, and every rise is added up. This covers the whole process. It includes about 100 bytes for each
    function, because profiling makes an object of its frame.
"""

import dis
import os
import sys
import tracemalloc
from types import CodeType, FrameType
from typing import NamedTuple

import toolbus

OURS = os.path.dirname(toolbus.__file__) + os.sep
COMPREHENSIONS = {"<listcomp>", "<dictcomp>", "<setcomp>"}
"""Functions up to Python 3.11 only."""


class Cost(NamedTuple):
    """The cost of some work."""

    calls: float
    bytes: float

    def since(self, before: "Cost", times: int = 1) -> "Cost":
        """The cost of each of `times` pieces of work since then."""
        return Cost((self.calls - before.calls) / times, (self.bytes - before.bytes) / times)


class Meter:
    """Counts in the thread that starts it; any thread may read it."""

    def __init__(self) -> None:
        self._calls = 0
        self._bytes = 0
        self._traced = 0
        self._first: dict[CodeType, int] = {}
        self._own: dict[str, bool] = {}

    @property
    def cost(self) -> Cost:
        """Everything so far."""
        return Cost(self._calls, self._bytes)

    def start(self) -> None:
        """Count from now on."""
        tracemalloc.start()
        self._traced = tracemalloc.get_traced_memory()[0]
        sys.setprofile(self._take)

    def stop(self) -> None:
        """Stop counting."""
        sys.setprofile(None)
        tracemalloc.stop()

    def _take(self, frame: FrameType, event: str, _: object) -> None:
        traced = tracemalloc.get_traced_memory()[0]
        if traced > self._traced:
            self._bytes += traced - self._traced
        self._traced = traced
        if event == "call" and self._counts(frame):
            self._calls += 1

    def _counts(self, frame: FrameType) -> bool:
        code, caller = frame.f_code, frame.f_back
        if frame.f_lasti != self._start_of(code) or code.co_name in COMPREHENSIONS:
            return False
        return self._is_own(code) or (caller is not None and self._is_own(caller.f_code))

    def _start_of(self, code: CodeType) -> int:
        """The first place that reports a call; a coroutine that is resumed reports another one."""
        if code not in self._first:
            steps = dis.get_instructions(code)
            self._first[code] = next(step.offset for step in steps if step.opname == "RESUME")
        return self._first[code]

    def _is_own(self, code: CodeType) -> bool:
        file = code.co_filename
        if file not in self._own:
            self._own[file] = file.startswith(OURS)
        return self._own[file]
