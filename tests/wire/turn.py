"""The possible turns of a script: a text, tool calls, both, or a fault."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

JSON = Any


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One call of a tool. Arguments given as a str are sent literally, even if they are not JSON.

    Google and the plain answer of Anthropic carry arguments as an object and not as text. There, a str that
    is not a JSON object is refused with status 400.
    """

    name: str
    arguments: dict[str, JSON] | str = field(default_factory=dict[str, JSON])


@dataclass(frozen=True, slots=True)
class Say:
    """A text, followed by tool calls if there are any."""

    text: str
    calls: Sequence[ToolCall] = ()


@dataclass(frozen=True, slots=True)
class Fault:
    """An answer that fails: an HTTP error, a connection that breaks off after `text`, or silence."""

    status: int = 500
    message: str = "the script fails here"
    retry_after: float | None = None
    breaks: bool = False
    text: str = ""
    hangs: bool = False


Turn = str | Say | list[ToolCall] | tuple[ToolCall, ...] | Fault


def spelt_out(turn: Turn) -> Say | Fault:
    """The turn without its short forms; raises TypeError for an invalid one."""
    match turn:
        case Say() | Fault():
            return turn
        case str():
            return Say(turn)
        case list() | tuple() if all(isinstance(call, ToolCall) for call in turn):  # pyright: ignore[reportUnnecessaryIsInstance]  scripts are written by hand
            return Say("", tuple(turn))
        case _:
            raise TypeError(f"a turn is a str, a Say, a list of ToolCall or a Fault, not {turn!r}")
