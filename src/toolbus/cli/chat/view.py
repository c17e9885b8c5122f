"""What happens in a turn, for people: the model's words on stdout, all else on stderr."""

import time
from collections.abc import Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from tempfile import mkdtemp
from typing import TYPE_CHECKING, Protocol, assert_never

from rich.text import Text

from toolbus.agent import (
    ApprovalAsked,
    RunEvent,
    RunResult,
    TextDelta,
    ThinkingDelta,
    ToolCalled,
    ToolProgressed,
    ToolReturned,
)
from toolbus.cli.chat.words import Words
from toolbus.cli.output import results
from toolbus.cli.output.screen import Screen, escaped_json, one_line, visible
from toolbus.core.records import JSON, ToolResult
from toolbus.core.text import cleaned

if TYPE_CHECKING:
    from toolbus.cli.output.progress import Moving

SHORT = 80
"""Characters of a call's arguments that stand in its line."""


class View(Protocol):
    """Where a turn is shown."""

    def begin(self) -> None:
        """The model was asked."""
        ...

    def hear(self, event: RunEvent) -> None:
        """Something happened."""
        ...

    def settled(self, call: str, *, allowed: bool) -> None:
        """A call that waited for a word got it."""
        ...

    def pause(self) -> None:
        """The person is asked what a server wants to know."""
        ...

    def go_on(self) -> None:
        """The person has answered."""
        ...

    def finish(self, result: RunResult[str]) -> None:
        """All went well."""
        ...

    def stop(self) -> None:
        """It ended early."""
        ...


class Shown:
    """A view for people. Without `streams` only the final answer goes to stdout."""

    def __init__(self, screen: Screen, out: Path | None, *, streams: bool) -> None:
        self._screen = screen
        self._out = out
        self._words = Words() if streams else None
        self._waiting = _Waiting(screen)
        self._calls: dict[str, tuple[str, float]] = {}
        """The calls under way: how each is shown, and when it began."""
        self._denied: set[str] = set()

    def begin(self) -> None:
        """The model was asked."""
        self._waiting.show("thinking")

    def hear(self, event: RunEvent) -> None:
        """Something happened."""
        match event:
            case TextDelta():
                if self._words is not None:
                    self._waiting.hide()
                    self._words.say(event.text)
            case ThinkingDelta():
                pass  # the line that moves says so
            case ToolCalled():
                self._calls[event.id] = (shown_call(event.name, event.arguments), time.monotonic())
                self._wait()
            case ToolProgressed():
                self._waiting.came(event.progress, event.total, event.message)
            case ApprovalAsked():
                self._end_line()
            case ToolReturned():
                self._returned(event)
                self._wait()
            case _:
                assert_never(event)

    def settled(self, call: str, *, allowed: bool) -> None:
        """A call that waited for a word begins now, or never."""
        if not allowed:
            self._denied.add(call)
        elif call in self._calls:
            self._calls[call] = (self._calls[call][0], time.monotonic())
        self._wait()

    def pause(self) -> None:
        """Nothing moves while the person is asked."""
        self._end_line()

    def go_on(self) -> None:
        """The person has answered."""
        self._wait()

    def finish(self, result: RunResult[str]) -> None:
        """All went well."""
        self._end_line()
        if not result.text:
            self._screen.note("(the model returned no text)")
        elif self._words is None:
            print(cleaned(result.text), flush=True)

    def stop(self) -> None:
        """It ended early; what was under way says so."""
        self._end_line()
        for shown, _ in self._calls.values():
            self._note(f"{shown}  stopped", "yellow")
        self._calls.clear()

    def _returned(self, event: ToolReturned) -> None:
        self._end_line()
        name = shown_call(event.name, {})
        shown, began = self._calls.pop(event.id, (name, time.monotonic() - event.seconds))
        took = _duration(time.monotonic() - began)
        if event.id in self._denied:
            self._denied.remove(event.id)
            self._note(f"{shown}  not run", "yellow")
        elif event.is_error:
            self._note(f"{shown}  failed in {took}: {one_line(event.text)}", "red")
        else:
            self._note(f"{shown}  done in {took}", "cyan")
        if event.images:
            self._out = self._out or Path(mkdtemp(prefix="toolbus-chat-"))
            for file in saved(event, self._out).values():
                self._note(f"  saved as {file}", "dim", cut=False)

    def _wait(self) -> None:
        """Say what is waited for: the calls under way, else the model."""
        self._end_line()
        self._waiting.show(", ".join(shown for shown, _ in self._calls.values()) or "thinking")

    def _end_line(self) -> None:
        self._waiting.hide()
        if self._words is not None:
            self._words.end_line()

    def _note(self, text: str, style: str, *, cut: bool = True) -> None:
        line = Text(f"  {visible(text)}", style=style)
        if cut and self._screen.err.is_terminal:
            line.truncate(self._screen.err.width, overflow="ellipsis")
        self._screen.err.print(line)


class _Waiting:
    """The line that moves; on a terminal only."""

    def __init__(self, screen: Screen) -> None:
        self._screen = screen
        self._shown: AbstractContextManager[Moving] | None = None
        self._moving: Moving | None = None

    def show(self, text: str) -> None:
        self.hide()
        self._shown = self._screen.moving(text)
        self._moving = self._shown.__enter__()

    def came(self, done: float, total: float | None, message: str | None) -> None:
        if self._moving is not None:
            self._moving.came(done, total)
            if message:
                self._moving.say(one_line(message))

    def hide(self) -> None:
        shown, self._shown, self._moving = self._shown, None, None
        if shown is not None:
            shown.__exit__(None, None, None)


def saved(event: ToolReturned, folder: Path) -> results.Saved:
    """The images of a call as files in the folder."""
    return results.saved(ToolResult(content=event.images), folder, event.name)


def shown_call(name: str, arguments: Mapping[str, JSON]) -> str:
    """A call in one line, long arguments cut: it may be a whole file that a model writes."""
    told = ", ".join(f"{visible(key)}={escaped_json(value)}" for key, value in arguments.items())
    flat = " ".join(told.split())
    return f"{one_line(name)}({flat if len(flat) <= SHORT else f'{flat[: SHORT - 3]}...'})"


def _duration(seconds: float) -> str:
    return f"{seconds * 1000:.0f} ms" if seconds < 1 else f"{seconds:.1f} s"
