"""The calls that a script made, in order, with their states."""

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from itertools import groupby
from typing import Any, Literal, TypeAlias

State: TypeAlias = Literal["not made", "running", "done", "failed", "waits", "cancelled"]
_MOST = 50
"""Lines of calls in a text."""


@dataclass(slots=True, kw_only=True)
class JournalEntry:
    """One call of a script."""

    tool: str
    """Its public name."""
    line: int
    state: State = "not made"
    error: str = ""

    def __str__(self) -> str:
        end = f": {self.error}" if self.error else ""
        return f"line {self.line}: {self.tool} {_WORDS[self.state]}{end}"


_WORDS: dict[State, str] = {
    "not made": "was not called",
    "running": "was called, and may have taken effect",
    "done": "was called",
    "failed": "failed",
    "waits": "waits for a person",
    "cancelled": "was called and cancelled, and may have taken effect",
}


def as_json(entries: Iterable[JournalEntry]) -> list[dict[str, Any]]:
    """The calls as JSON; those that did not fail have no `error`."""
    return [{key: value for key, value in asdict(one).items() if value != ""} for one in entries]


def described(entries: list[JournalEntry]) -> str:
    """The calls as lines for a model or a person."""
    if not entries:
        return "No tool was called."
    groups = [(text, len(list(same))) for text, same in groupby(map(str, entries))]
    lines = [f"  {text}" + (f" ({count} times)" if count > 1 else "") for text, count in groups[:_MOST]]
    if len(groups) > _MOST:
        lines.append(f"  ... and {sum(count for _, count in groups[_MOST:])} more calls")
    return "Calls of the script:\n" + "\n".join(lines)
