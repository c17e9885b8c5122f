"""What happens in a turn, for programs: a JSON document per line and event, the result last."""

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
from toolbus.cli.chat.view import saved
from toolbus.cli.output import results
from toolbus.cli.output.screen import escaped_json
from toolbus.core.records import JSON, ToolResult


class JsonLines:
    """A view for programs; images are base64, or with `out` the paths of their files."""

    def __init__(self, out: Path | None) -> None:
        self._out = out

    def begin(self) -> None:
        """The model was asked."""

    def settled(self, call: str, *, allowed: bool) -> None:
        """A call that waited for a word got it."""

    def pause(self) -> None:
        """Nobody is asked here."""

    def go_on(self) -> None:
        """Nobody was asked here."""

    def hear(self, event: RunEvent) -> None:
        """Something happened."""
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
                files: results.Saved = {} if self._out is None else saved(event, self._out)
                images = results.as_json(ToolResult(content=event.images), files)
                _print("tool_returned", **{**_facts(event), "images": images})
            case ApprovalAsked():
                _print("approval_asked", **_facts(event))
            case _:
                assert_never(event)

    def finish(self, result: RunResult[str]) -> None:
        """All went well."""
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
        """It ended early; the error is told by whoever caught it."""


def _facts(event: ToolCalled | ToolProgressed | ToolReturned | ApprovalAsked) -> dict[str, JSON]:
    """All there is but what is no JSON."""
    names = [field.name for field in fields(event) if field.name not in ("answer", "images")]
    return {name: getattr(event, name) for name in names}


def _print(event: str, **facts: JSON) -> None:
    print(escaped_json({"event": event, **facts}), flush=True)
