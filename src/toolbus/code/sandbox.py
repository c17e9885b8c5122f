"""A script in Monty's worker process: no files, no network, no environment; time and memory are bounded.

The only file that imports pydantic_monty. It drives the synchronous interpreter in a thread. The asynchronous
one of 1.4 sometimes aborts the whole process when Python exits: its threads outlive the interpreter.
"""

import asyncio
import os
import signal
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import partial
from types import TracebackType
from typing import Any, TypeAlias, TypeVar

from toolbus.config.settings.limits import CodeLimits
from toolbus.core.values.errors import ExtraMissing, ToolbusError
from toolbus.core.values.records import JSON

try:
    import pydantic_monty as monty
except ImportError as error:
    raise ExtraMissing("scripts", "code", "pydantic-monty is not installed") from error

T = TypeVar("T")
NAME = "script.py"
_SLEEPS = ("system.sleep", "system.async_sleep")
_BEGIN = "toolbus_begin"
"""Stands before a script that is only checked: the interpreter asks for it before anything else runs."""
_PRINTED = 8
"""The number of printed characters to keep, for each token of the output limit."""


class ScriptError(ToolbusError):
    """A script failed; `kind` is `types`, `syntax`, `runtime` or `sandbox`."""

    def __init__(self, kind: str, text: str) -> None:
        self.kind = kind
        super().__init__(text)


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxCall:
    """The script calls a function."""

    id: int
    name: str
    arguments: dict[str, Any]
    positional: int
    offset: int
    """The offset of the call in the script, in bytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Slept:
    """The script sleeps; it is awaited if other calls go on meanwhile."""

    id: int
    seconds: float
    is_awaited: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxWait:
    """The script waits for calls."""

    ids: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxResult:
    """The script has ended."""

    value: Any


Turn: TypeAlias = SandboxCall | Slept | SandboxWait | SandboxResult


@dataclass(frozen=True, slots=True)
class CallFailure:
    """A call failed: the script gets a RuntimeError with this message."""

    message: str


class ScriptSandbox:
    """One worker process for one script; leaving it ends the process."""

    def __init__(self, limits: CodeLimits, name: str = NAME) -> None:
        """`name` stands for the script in messages."""
        self._limits = limits
        self._name = name
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="toolbus-script")
        self._stack = ExitStack()
        self._pool: Any = None
        self._session: Any = None
        self._snapshot: Any = None
        self._pid: int | None = None
        self._is_over = False
        self._printed: list[str] = []
        self._room = limits.output * _PRINTED
        self.lost = 0
        """Printed characters that were not kept."""

    @property
    def printed(self) -> str:
        """The text that the script printed, up to the limit."""
        return "".join(self._printed)

    @printed.setter
    def printed(self, text: str) -> None:
        self._printed, self._room = [text], max(0, self._limits.output * _PRINTED - len(text))

    async def __aenter__(self) -> "ScriptSandbox":
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._snapshot = None
        closing = asyncio.get_running_loop().run_in_executor(self._thread, self._stack.close)
        try:
            await asyncio.shield(closing)
        finally:
            self._thread.shutdown(wait=False)

    async def check(self, script: str, stubs: str) -> None:
        """Check the types without running anything; `ScriptError` lists what is wrong."""
        stubs += f"\n{_BEGIN}: int\n"
        try:
            await self._in_thread(self._begin, f"{_BEGIN}\n{script}", stubs, None, _BEGIN)
        except ScriptError as error:
            raise ScriptError(error.kind, _moved_up(str(error), self._name)) from None

    async def start(self, script: str, stubs: str, inputs: Mapping[str, JSON]) -> Turn:
        """Check the types, and run up to the first call."""
        return await self._in_thread(self._begin, script, stubs, dict(inputs))

    async def load(self, snapshot: bytes) -> Turn:
        """Go on with a script that was saved: only with bytes of our own, because Monty trusts them."""
        return await self._in_thread(self._load, snapshot)

    async def defer(self) -> Turn:
        """Let the script go on; the result of its last call comes later."""
        return await self._in_thread(self._resume, {"future": ...})

    async def answer(self, value: JSON | CallFailure) -> Turn:
        """Give the result of its last call at once."""
        return await self._in_thread(self._resume, _settled(value))

    async def settle(self, results: Mapping[int, "JSON | CallFailure"]) -> Turn:
        """Give the results of calls that it waits for."""
        settled = {number: _settled(value) for number, value in results.items()}
        return await self._in_thread(self._resume, settled)

    async def save(self) -> bytes:
        """The state of a script that waits."""
        return await self._in_thread(lambda: bytes(self._snapshot.dump()))

    # In the thread

    async def _in_thread(self, work: Callable[..., T], *arguments: Any) -> T:
        running = asyncio.get_running_loop().run_in_executor(self._thread, work, *arguments)
        try:
            return await asyncio.shield(running)
        except asyncio.CancelledError:
            if not running.done():
                self._is_over = True  # before the process is looked for: it may be just starting
                self._kill()  # the thread ends when its worker does
            with suppress(BaseException):
                await asyncio.wait([running], timeout=10)
                running.exception()
            raise

    def _open(self, stubs: str) -> None:
        limits = self._limits
        # A worker of its own: nothing of one script can reach the next.
        pool = monty.Monty(min_processes=0, max_processes=1, request_timeout=limits.time + 5)
        self._pool = self._stack.enter_context(pool)
        session = self._pool.checkout(
            script_name=self._name,
            limits=monty.ResourceLimits(
                max_feed_duration_secs=limits.time,
                max_memory=limits.memory,
                max_total_sleep_secs=limits.time,
                max_suspensions=10 * limits.calls + 1000,
            ),
            type_check=bool(stubs),
            type_check_stubs=stubs or None,
            type_check_format="concise",
            os_policy=monty.OSPolicy(sleep="system", sleep_system_max=limits.time),
        )
        self._session = self._stack.enter_context(session)
        self._pid = self._session.worker_pid
        if self._is_over:
            self._kill()

    def _kill(self) -> None:
        if self._pid is not None:
            with suppress(ProcessLookupError):
                os.kill(self._pid, signal.SIGTERM if os.name == "nt" else signal.SIGKILL)

    def _begin(
        self, script: str, stubs: str, inputs: dict[str, JSON] | None, stop: str | None = None
    ) -> Turn:
        self._open(stubs)
        first = partial(self._session.feed_start, script, inputs=inputs, print_callback=self._print)
        return self._advance(first, stop)

    def _load(self, snapshot: bytes) -> Turn:
        self._open("")
        return self._advance(partial(self._session.load_snapshot, snapshot, print_callback=self._print))

    def _resume(self, result: Any) -> Turn:
        return self._advance(partial(self._snapshot.resume, result))

    def _advance(self, step: Callable[[], Any], stop: str | None = None) -> Turn:
        """Run up to the next call; every failure of the interpreter is a `ScriptError`."""
        try:
            return self._next(step, stop)
        except monty.MontyTypingError as error:
            raise ScriptError("types", error.display().strip()) from None
        except monty.MontySyntaxError as error:
            raise ScriptError("syntax", error.display("type-msg")) from None
        except monty.MontyRuntimeError as error:
            raise ScriptError("runtime", error.display().replace("<python-input-0>", self._name)) from None
        except monty.MontyCrashedError as error:
            raise ScriptError("sandbox", f"its process was ended: {error}") from None
        except monty.MontyError as error:
            raise ScriptError("sandbox", str(error)) from None

    def _next(self, step: Callable[[], Any], stop: str | None) -> Turn:
        """The next turn; names are answered here, and what a script may not do is refused."""
        while True:
            self._snapshot = found = step()
            match found:
                case monty.MontyComplete():
                    return SandboxResult(value=found.output)
                case monty.NameLookupSnapshot():
                    if found.variable_name == stop:
                        return SandboxResult(value=None)
                    step = partial(found.resume, value=_function(found.variable_name))
                case monty.FutureSnapshot():
                    return SandboxWait(ids=tuple(sorted(found.pending_call_ids)))
                case _ if not found.is_os_function:
                    return _called(found)
                case _ if found.function_name in _SLEEPS:
                    is_awaited = found.function_name == "system.async_sleep"
                    return Slept(id=found.call_id, seconds=found.args[0], is_awaited=is_awaited)
                case _:
                    step = found.resume_not_handled

    def _print(self, _: str, text: str) -> None:
        kept = text[: self._room]
        self._room -= len(kept)
        self.lost += len(text) - len(kept)
        if kept:
            self._printed.append(kept)


def _called(found: Any) -> SandboxCall:
    return SandboxCall(
        id=found.call_id,
        name=str(found.function_name),
        arguments=dict(found.kwargs),
        positional=len(found.args),
        offset=found.position.start,
    )


def _function(name: str) -> Callable[[], None]:
    """A function of that name as a value; calling it in the script is a call like any other."""

    def tool() -> None: ...

    tool.__name__ = name
    return tool


def _settled(value: Any) -> Any:
    if isinstance(value, CallFailure):
        return {"exc_type": "RuntimeError", "message": value.message}
    return {"return_value": value}


def _moved_up(text: str, script: str) -> str:
    """The messages with the line numbers of the script without its first line."""
    lines: list[str] = []
    for line in text.splitlines():
        head, _, rest = line.partition(":")
        number, _, tail = rest.partition(":")
        is_place = head == script and number.isdigit()
        lines.append(f"{head}:{int(number) - 1}:{tail}" if is_place else line)
    return "\n".join(lines)
