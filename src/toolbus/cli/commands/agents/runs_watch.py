"""`toolbus runs watch`: the events of a run, also if its store cannot be reached for a while."""

import asyncio
from typing import TYPE_CHECKING

from toolbus.cli.command import Invocation, command
from toolbus.cli.commands.agents.runs import RunId, Store, open_runs
from toolbus.cli.errors import FAILED
from toolbus.cli.output.run_hints import Hints
from toolbus.cli.output.run_lines import event_line, note_end, run_json
from toolbus.cli.output.screen import Screen, escaped_json, visible

if TYPE_CHECKING:
    from toolbus.agent.durable import DurableEvent, RunInfo, Runs

_PAUSE = 1.0
"""Seconds between two attempts to reach a store."""


@command
async def watch(own: Invocation, run: RunId, store: Store = None) -> int:
    """Print the events of a run until it ends.

    Starts with the first event. With --json, prints one document per event.
    """
    screen = own.screen
    async with open_runs(screen, store) as opened:
        await opened.get(run)  # a store that cannot be reached now is an error; later, that is waited for
        info = await _Watcher(screen, opened, run, Hints(store)).until_end()
        has_worker = any(row.takes(info.queue) for row in await opened.workers())
    if screen.as_json:
        print(escaped_json({"event": "RunEnded", **run_json(info, has_worker=has_worker)}), flush=True)
    else:
        if info.structured is not None:
            screen.line(visible(info.output or ""))
        note_end(screen, info)
    return 0 if info.status == "done" else FAILED


class _Watcher:
    """Prints each event of a run once."""

    def __init__(self, screen: Screen, runs: "Runs", run: str, hints: Hints) -> None:
        self._screen = screen
        self._runs = runs
        self._run = run
        self._hints = hints
        self._printed = 0

    async def until_end(self) -> "RunInfo":
        from toolbus.agent.durable import RunStoreError

        while True:
            try:
                await self._print_events()
                return await self._runs.wait(self._run)
            except RunStoreError as error:
                self._screen.note(f"the store of runs {error.place} cannot be reached; waiting for it")
                await self._wait_for_store()
                self._screen.note(f"the store of runs {error.place} is back")

    async def _print_events(self) -> None:
        events = self._runs.events(self._run)
        number = 0
        try:
            async for event in events:
                number += 1
                if number > self._printed:
                    await self._print(event)
                    self._printed = number
        finally:
            await events.aclose()

    async def _print(self, event: "DurableEvent") -> None:
        from toolbus.agent.durable import QuestionAsked
        from toolbus.agent.durable.execution.timeline import event_json

        if self._screen.as_json:
            print(escaped_json(event_json(event)), flush=True)
            return
        asked = (await self._runs.get(self._run)).question if isinstance(event, QuestionAsked) else None
        self._screen.line(event_line(event))
        if asked is not None and isinstance(event, QuestionAsked) and asked.id == event.id:
            self._screen.note(self._hints.answer(self._run, asked))

    async def _wait_for_store(self) -> None:
        from toolbus.agent.durable import RunStoreError

        while True:
            await asyncio.sleep(_PAUSE)
            try:
                await self._runs.get(self._run)
            except RunStoreError:
                continue
            return
