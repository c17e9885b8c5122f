"""What a prompt says, turn by turn: where `messages` of every adapter begins."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter
from typing import Literal, TypeAlias

from toolbus.adapters.media import PDF, PICTURES, Document, Media, documents, taken
from toolbus.core.records import Block, Embedded, PromptMessage, Text, ToolResult

Role: TypeAlias = Literal["user", "assistant"]
Part: TypeAlias = Text | Media | Document
SHOWN = PICTURES | {PDF}
"""What a user may show to every model that sees."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """What one side says: at least one part, and of the assistant nothing but text."""

    role: Role
    parts: tuple[Part, ...]

    @property
    def text(self) -> str:
        """The text parts, joined by line breaks."""
        return "\n".join(part.text for part in self.parts if isinstance(part, Text))

    @property
    def is_text(self) -> bool:
        """Whether there is nothing to see or to hear."""
        return all(isinstance(part, Text) for part in self.parts)


def turns(messages: Iterable[PromptMessage], types: Collection[str] = SHOWN) -> list[Turn]:
    """A turn for every message that says anything.

    Models do not say pictures, and providers refuse those that do: what the assistant shows is described.
    """
    said = [
        Turn(role=message.role, parts=parts(message.content, types if message.role == "user" else ()))
        for message in messages
    ]
    return [turn for turn in said if turn.parts]


def merged(turns: Iterable[Turn]) -> list[Turn]:
    """The same, in which the sides take turns."""
    sides = groupby(turns, key=attrgetter("role"))
    return [
        Turn(role=role, parts=tuple(part for turn in said for part in turn.parts)) for role, said in sides
    ]


def parts(block: Block, types: Collection[str] = SHOWN) -> tuple[Part, ...]:
    """A block as a model takes it: files of these types as they are, all else in words, and nothing blank."""
    if isinstance(block, Text) and not block.text.strip():
        return ()
    result = ToolResult(content=(block,))
    if isinstance(block, Embedded) and PDF in types and (files := documents(result)):
        return (Text(text=f"[{block.uri}]"), *files)
    return taken(result, {*types} - {PDF})
