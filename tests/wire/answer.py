"""The scripted model's answer to one request, before a wire format spells it."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass

from tests.wire.asked import Asked, tokens_of
from tests.wire.turn import JSON

ARGUMENT_PIECE = 12


class Unsendable(Exception):
    """The wire format carries arguments as an object, and the script gave a text that is none."""

    def __init__(self, name: str, arguments: str) -> None:
        self.name = name
        self.arguments = arguments
        super().__init__(
            f"arguments of {name!r} must be a JSON object on this wire, the script has {arguments!r}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A tool call with the id that the provider gave it; the arguments are JSON text as a rule."""

    id: str
    name: str
    arguments: str

    @property
    def parsed(self) -> dict[str, JSON]:
        """The arguments as an object; raises Unsendable where they are none."""
        try:
            value: JSON = json.loads(self.arguments)
        except ValueError:
            raise Unsendable(self.name, self.arguments) from None
        if not isinstance(value, dict):
            raise Unsendable(self.name, self.arguments)
        return value  # pyright: ignore[reportUnknownVariableType]  JSON objects have str keys


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """One answer; `number` counts the requests of the provider, `breaks` ends a stream after the text."""

    asked: Asked
    number: int
    created: int
    text: str
    calls: tuple[Call, ...] = ()
    breaks: bool = False

    @property
    def tokens(self) -> int:
        """A guess of the answer's size."""
        return tokens_of(self.text) + sum(tokens_of(call.name + call.arguments) for call in self.calls)

    def text_pieces(self) -> list[str]:
        """The text as a stream brings it: word by word, nothing lost."""
        return re.findall(r"\s*\S+|\s+", self.text)


def argument_pieces(call: Call) -> Iterator[str]:
    """The arguments as a stream brings them: cut without regard to JSON."""
    for start in range(0, len(call.arguments), ARGUMENT_PIECE):
        yield call.arguments[start : start + ARGUMENT_PIECE]
