"""Print a turn as JSON: one document per event and line, the result last."""

from dataclasses import fields
from pathlib import Path
from typing import assert_never

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
from toolbus.cli.chat.view import save_images
from toolbus.cli.output import results
from toolbus.cli.output.screen import escaped_json
from toolbus.core.values.records import JSON, ToolResult


class JsonView:
    """Prints events as JSON lines; images are base64, or with `out` file paths."""

    def __init__(self, out: Path | None) -> None:
        self._out = out

    def begin(self) -> None:
        """Nothing to print."""

    def approval_settled(self, call: str, *, allowed: bool) -> None:
        """Nothing to print."""

    def pause(self) -> None:
        """Nothing to print."""

    def resume(self) -> None:
        """Nothing to print."""

    def on_event(self, event: RunEvent) -> None:
        """Print the event."""
        match event:
            case TextDelta():
                _print("text", text=event.text)
            case ThinkingDelta():
                _print("thinking", text=event.text)
            case ToolCalled():
                _print("tool_called", **_facts(event))
            case ToolProgressed():
                _print("tool_progressed", **_facts(event))
            case ToolReturned():
                files: results.SavedFiles = {} if self._out is None else save_images(event, self._out)
                images = results.content_json(ToolResult(content=event.images), files)
                _print("tool_returned", **{**_facts(event), "images": images})
            case ApprovalAsked():
                _print("approval_asked", **_facts(event))
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
        _print("result", text=result.text, usage=usage, calls=calls)

    def stop(self) -> None:
        """Nothing to print; the caller reports the error."""


def _facts(event: ToolCalled | ToolProgressed | ToolReturned | ApprovalAsked) -> dict[str, JSON]:
    """The event's fields that are JSON."""
    names = [field.name for field in fields(event) if field.name not in ("answer", "images")]
    return {name: getattr(event, name) for name in names}


def _print(event: str, **facts: JSON) -> None:
    print(escaped_json({"event": event, **facts}), flush=True)
