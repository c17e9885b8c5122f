"""One run of a script: calls are made when it waits for them; calls awaited together run concurrently.

A call that needs a person's decision blocks only the code that waits for it. When nothing else goes on, the
script is suspended. No call is in flight then, so the saved state agrees with the calls made so far.
"""

import asyncio
from collections.abc import Coroutine, Mapping
from dataclasses import replace
from typing import Any, Protocol, TypeAlias

from toolbus.code.journal import JournalEntry
from toolbus.code.outcome import for_script, from_script
from toolbus.code.sandbox import (
    CallFailure,
    SandboxCall,
    SandboxResult,
    SandboxWait,
    ScriptError,
    ScriptSandbox,
    Slept,
    Turn,
)
from toolbus.code.stubs import Stub, cut
from toolbus.code.suspended import SuspendedScript, UnfinishedCall, new_id
from toolbus.core.values.elicitation import Answer, Pending
from toolbus.core.values.errors import ToolbusError
from toolbus.core.values.records import JSON, ToolResult, ToolSpec

Answers: TypeAlias = Mapping[str, Answer] | Answer | None


class Tools(Protocol):
    """The way a script's calls are made: each takes the path of every operation."""

    async def call(self, spec: ToolSpec, arguments: Mapping[str, JSON], /) -> ToolResult: ...

    async def resume(self, pending: Pending, answers: Answers, /) -> ToolResult: ...


class ScriptRun:
    """A script on its way."""

    def __init__(
        self, box: ScriptSandbox, script: str, stubs: Mapping[str, Stub], tools: Tools, most_calls: int
    ) -> None:
        self._box = box
        self._script = script
        self._source = script.encode()
        self._stubs = stubs
        self._tools = tools
        self._most_calls = most_calls
        self.tool = ""
        """The tool that the script is; empty for any other script."""
        self.input: dict[str, JSON] = {}
        """The types of its variables."""
        self.calls: list[JournalEntry] = []
        self._open: dict[int, UnfinishedCall] = {}
        self._running: dict[int, asyncio.Task[ToolResult]] = {}
        self._sleeping: dict[int, asyncio.Task[None]] = {}

    async def drive(self, turn: Turn) -> SandboxResult | SuspendedScript:
        """Run to the end, or until it waits for a person; `ScriptError` if it fails."""
        try:
            while not isinstance(turn, SandboxResult):
                match turn:
                    case SandboxCall():
                        turn = await self._announce(turn)
                    case Slept(is_awaited=False):
                        await asyncio.sleep(turn.seconds)
                        turn = await self._box.answer(None)
                    case Slept():
                        self._sleeping[turn.id] = asyncio.create_task(asyncio.sleep(turn.seconds))
                        turn = await self._box.defer()
                    case SandboxWait():
                        results = await self._results(turn)
                        if not results:
                            return await self._suspended(turn)
                        turn = await self._box.settle(results)
            return turn
        finally:
            await self._cancel()

    async def continue_(
        self, saved: SuspendedScript, answers: Answers, turn: Turn
    ) -> SandboxResult | SuspendedScript:
        """Go on with a saved script: first with the call that a person has answered about."""
        self.calls, self._open = saved.calls, dict(saved.open)
        one = self._open[saved.first]
        self._open[saved.first] = replace(one, pending=None)
        self._start(saved.first, self._tools.resume(saved.waiting, answers))
        return await self.drive(turn)

    # Calls

    async def _announce(self, call: SandboxCall) -> Turn:
        """Note a call; it is made when the script waits for it."""
        line = self._source[: call.offset].count(b"\n") + 1
        stub = self._stubs.get(call.name)
        entry = JournalEntry(tool=stub.spec.name if stub else call.name, line=line)
        self.calls.append(entry)
        if len(self.calls) > self._most_calls:
            raise ScriptError(
                "limit", f"the script made more than {self._most_calls} calls, the most it may make"
            )
        try:
            arguments = self._arguments(call, stub)
        except TypeError as error:
            entry.state, entry.error = "failed", str(error)
            return await self._box.answer(CallFailure(f"{call.name}: {error}"))
        self._open[call.id] = UnfinishedCall(entry=len(self.calls) - 1, name=call.name, arguments=arguments)
        return await self._box.defer()

    def _arguments(self, call: SandboxCall, stub: Stub | None) -> dict[str, JSON]:
        if stub is None:
            raise TypeError("no such tool")
        if call.positional:
            first = next(iter(stub.arguments), "name")
            raise TypeError(f"pass it by name: {call.name}({first}=...)")
        return stub.tool_arguments({key: from_script(value) for key, value in call.arguments.items()})

    def _start(self, number: int, work: Coroutine[Any, Any, ToolResult]) -> None:
        self.calls[self._open[number].entry].state = "running"
        self._running[number] = asyncio.create_task(work)

    async def _results(self, turn: SandboxWait) -> dict[int, JSON | CallFailure]:
        """Make the calls that the script waits for; returns the first results.

        Nothing, if all that it waits for needs the answer of a person.
        """
        for number in turn.ids:
            one = self._open.get(number)
            if one is not None and one.pending is None and number not in self._running:
                self._start(number, self._tools.call(self._stubs[one.name].spec, one.arguments))
        results: dict[int, JSON | CallFailure] = {}
        while not results and (tasks := {*self._running.values(), *self._sleeping.values()}):
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for number in [number for number, task in self._sleeping.items() if task.done()]:
                del self._sleeping[number]
                results[number] = None
            for number in [number for number, task in self._running.items() if task.done()]:
                self._take(number, self._running.pop(number), results)
        return results

    def _take(
        self, number: int, task: asyncio.Task[ToolResult], results: dict[int, JSON | CallFailure]
    ) -> None:
        """The end of one call: its result for the script, or the question that it waits for."""
        one = self._open[number]
        entry = self.calls[one.entry]
        try:
            result = task.result()
        except ToolbusError as error:
            result = ToolResult.failure(error.public, sent=error.sent)
        if result.pending is not None:
            entry.state = "waits"
            self._open[number] = replace(one, pending=result.pending.to_json())
            return
        del self._open[number]
        if result.is_error:
            entry.state, entry.error = "failed", cut(result.text, 300)
            results[number] = CallFailure(f"{entry.tool}: {result.text.removeprefix('MCP error: ')}")
        else:
            entry.state = "done"
            results[number] = for_script(result)

    async def _suspended(self, turn: SandboxWait) -> SuspendedScript:
        """The script as it stands, with the questions of its calls."""
        first = min(number for number in turn.ids if self._open[number].pending is not None)
        return SuspendedScript(
            id=new_id(),
            script=self._script,
            snapshot=await self._box.save(),
            tools={name: str(stub.spec.origin) for name, stub in self._stubs.items()},
            calls=self.calls,
            open=self._open,
            first=first,
            printed=self._box.printed,
            tool=self.tool,
            input=self.input,
        )

    async def _cancel(self) -> None:
        """End the calls and waits that remain when the script has ended."""
        tasks: list[asyncio.Task[Any]] = [*self._running.values(), *self._sleeping.values()]
        for number in self._running:
            self.calls[self._open[number].entry].state = "cancelled"
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.gather(*tasks, return_exceptions=True)
