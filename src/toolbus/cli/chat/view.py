"""Show a turn, on the terminal or as JSON: the model's text on stdout, everything else on stderr."""

import re
import time
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import fields
from pathlib import Path
from tempfile import mkdtemp
from typing import TYPE_CHECKING, assert_never

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
from toolbus.cli.output import results
from toolbus.cli.output.screen import Screen, escaped_json, one_line, visible
from toolbus.core.text.text import cleaned
from toolbus.core.values.records import JSON, ToolResult

if TYPE_CHECKING:
    from toolbus.cli.output.spinner import Spinner

MAX_ARGUMENTS = 80
"""Maximum length of a call's arguments in its line."""


class ChatView:
    """Shows a turn, but for what a view does not define."""

    def begin(self) -> None:
        """The prompt was sent to the model."""

    def on_event(self, event: RunEvent) -> None:
        """Show an event."""

    def approval_settled(self, call: str, *, allowed: bool) -> None:
        """A call was approved or denied."""

    def pause(self) -> None:
        """The user is being asked a server's question."""

    def resume(self) -> None:
        """The user has answered."""

    def finish(self, result: RunResult[str]) -> None:
        """The turn succeeded."""

    def stop(self) -> None:
        """The turn failed or was stopped."""


class TerminalView(ChatView):
    """Shows a turn to the user. Without `streams`, only the final answer goes to stdout."""

    def __init__(self, screen: Screen, out: Path | None, *, streams: bool) -> None:
        self._screen = screen
        self._out = out
        self._stream = TextStream() if streams else None
        self._spinner = _ChatSpinner(screen)
        self._calls: dict[str, tuple[str, float]] = {}
        """The pending calls: summary and start time."""
        self._denied: set[str] = set()

    def begin(self) -> None:
        self._spinner.show("thinking")

    def on_event(self, event: RunEvent) -> None:
        match event:
            case TextDelta():
                if self._stream is not None:
                    self._spinner.hide()
                    self._stream.write(event.text)
            case ThinkingDelta():
                pass  # the spinner shows it
            case ToolCalled():
                self._calls[event.id] = (call_summary(event.name, event.arguments), time.monotonic())
                self._show_spinner()
            case ToolProgressed():
                self._spinner.set_progress(event.progress, event.total, event.message)
            case ApprovalAsked():
                self._end_line()
            case ToolReturned():
                self._returned(event)
                self._show_spinner()
            case _:
                assert_never(event)

    def approval_settled(self, call: str, *, allowed: bool) -> None:
        """Restart the call's timer, or mark it as denied."""
        if not allowed:
            self._denied.add(call)
        elif call in self._calls:
            self._calls[call] = (self._calls[call][0], time.monotonic())
        self._show_spinner()

    def pause(self) -> None:
        """Hide the spinner while the user is asked."""
        self._end_line()

    def resume(self) -> None:
        self._show_spinner()

    def finish(self, result: RunResult[str]) -> None:
        """The turn succeeded."""
        self._end_line()
        if not result.text:
            self._screen.note("(the model returned no text)")
        elif self._stream is None:
            print(cleaned(result.text), flush=True)

    def stop(self) -> None:
        """The turn failed or was stopped; mark pending calls as stopped."""
        self._end_line()
        for shown, _ in self._calls.values():
            self._note(f"{shown}  stopped", "yellow")
        self._calls.clear()

    def _returned(self, event: ToolReturned) -> None:
        self._end_line()
        name = call_summary(event.name, {})
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
            for file in save_images(event, self._out).values():
                self._note(f"  saved as {file}", "dim", cut=False)

    def _show_spinner(self) -> None:
        """Show a spinner for the pending calls, or else for the model."""
        self._end_line()
        self._spinner.show(", ".join(shown for shown, _ in self._calls.values()) or "thinking")

    def _end_line(self) -> None:
        self._spinner.hide()
        if self._stream is not None:
            self._stream.end_line()

    def _note(self, text: str, style: str, *, cut: bool = True) -> None:
        line = Text(f"  {visible(text)}", style=style)
        if cut and self._screen.err.is_terminal:
            line.truncate(self._screen.err.width, overflow="ellipsis")
        self._screen.err.print(line)


class _ChatSpinner:
    """A spinner that can be shown and hidden repeatedly."""

    def __init__(self, screen: Screen) -> None:
        self._screen = screen
        self._shown: AbstractContextManager[Spinner] | None = None
        self._spinner: Spinner | None = None

    def show(self, text: str) -> None:
        self.hide()
        self._shown = self._screen.spinner(text)
        self._spinner = self._shown.__enter__()

    def set_progress(self, done: float, total: float | None, message: str | None) -> None:
        if self._spinner is not None:
            self._spinner.set_progress(done, total)
            if message:
                self._spinner.set_text(one_line(message))

    def hide(self) -> None:
        shown, self._shown, self._spinner = self._shown, None, None
        if shown is not None:
            shown.__exit__(None, None, None)


def save_images(event: ToolReturned, folder: Path) -> results.SavedFiles:
    """Save the images of a result in the folder."""
    return results.save_blobs(ToolResult(content=event.images), folder, event.name)


def call_summary(name: str, arguments: Mapping[str, JSON]) -> str:
    """A call in one line, with long arguments cut."""
    text = ", ".join(f"{visible(key)}={escaped_json(value)}" for key, value in arguments.items())
    flat = " ".join(text.split())
    return f"{one_line(name)}({flat if len(flat) <= MAX_ARGUMENTS else f'{flat[: MAX_ARGUMENTS - 3]}...'})"


def _duration(seconds: float) -> str:
    return f"{seconds * 1000:.0f} ms" if seconds < 1 else f"{seconds:.1f} s"


# What the next piece may continue: an escape sequence, a line ending, a joined emoji.
_UNFINISHED = re.compile(
    "[\x1b\x90\x98\x9b\x9d-\x9f][^\n]{0,80}\\Z|[\r\u200c\u200d\ufe0e\ufe0f\u2190-\u2bff\U0001f000-\U0001faff]+\\Z"
)


class TextStream:
    """Writes text piece by piece."""

    def __init__(self) -> None:
        self._held = ""
        self._in_line = False

    def write(self, piece: str) -> None:
        """Write a piece; an incomplete sequence at its end is held back for the next one."""
        text = self._held + piece
        cut = _UNFINISHED.search(text)
        self._held = "" if cut is None else text[cut.start() :]
        self._write(text if cut is None else text[: cut.start()])

    def end_line(self) -> None:
        """Write the held-back text, and move to the start of a line, for other output."""
        held, self._held = self._held, ""
        self._write(held)
        if self._in_line:
            self._write("\n")

    def _write(self, text: str) -> None:
        if plain := cleaned(text):
            print(plain, end="", flush=True)
            self._in_line = not plain.endswith("\n")


class JsonView(ChatView):
    """Prints events as JSON lines; images are base64, or with `out` file paths."""

    def __init__(self, out: Path | None) -> None:
        self._out = out

    def on_event(self, event: RunEvent) -> None:
        """Print the event."""
        match event:
            case TextDelta():
                _print_event("text", text=event.text)
            case ThinkingDelta():
                _print_event("thinking", text=event.text)
            case ToolCalled():
                _print_event("tool_called", **_facts(event))
            case ToolProgressed():
                _print_event("tool_progressed", **_facts(event))
            case ToolReturned():
                files: results.SavedFiles = {} if self._out is None else save_images(event, self._out)
                images = results.content_json(ToolResult(content=event.images), files)
                _print_event("tool_returned", **{**_facts(event), "images": images})
            case ApprovalAsked():
                _print_event("approval_asked", **_facts(event))
            case _:
                assert_never(event)

    def finish(self, result: RunResult[str]) -> None:
        """Print the result."""
        usage = {
            name: getattr(result.usage, name)
            for name in ("requests", "tool_calls", "input_tokens", "output_tokens")
        }
        calls = [
            {name: getattr(call, name) for name in ("id", "name", "server", "is_error", "seconds")}
            for call in result.calls
        ]
        _print_event("result", text=result.text, usage=usage, calls=calls)


def _facts(event: ToolCalled | ToolProgressed | ToolReturned | ApprovalAsked) -> dict[str, JSON]:
    """The event's fields that are JSON."""
    names = [field.name for field in fields(event) if field.name not in ("answer", "images")]
    return {name: getattr(event, name) for name in names}


def _print_event(event: str, **facts: JSON) -> None:
    print(escaped_json({"event": event, **facts}), flush=True)
