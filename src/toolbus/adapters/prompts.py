"""The turns of an MCP prompt, which every adapter's `messages` converts."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter
from typing import Literal, TypeAlias

from toolbus.adapters.media import IMAGE_TYPES, PDF, Document, Media, model_blocks, pdf_documents
from toolbus.core.values.records import Block, Embedded, PromptMessage, Text, ToolResult
from toolbus.shape import cleaned_block

Role: TypeAlias = Literal["user", "assistant"]
Part: TypeAlias = Text | Media | Document
PROMPT_TYPES = IMAGE_TYPES | {PDF}
"""Files that every vision model accepts in a user message."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptTurn:
    """One message: at least one part, and only text if it is the assistant's."""

    role: Role
    parts: tuple[Part, ...]

    @property
    def text(self) -> str:
        """The text parts, joined by line breaks."""
        return "\n".join(part.text for part in self.parts if isinstance(part, Text))

    @property
    def is_text(self) -> bool:
        """Whether all parts are text."""
        return all(isinstance(part, Text) for part in self.parts)


def prompt_turns(
    messages: Iterable[PromptMessage], types: Collection[str] = PROMPT_TYPES
) -> list[PromptTurn]:
    """One turn for every message that is not blank, without hidden characters.

    Providers reject media in assistant messages, so those are described in text.
    """
    turns = [
        PromptTurn(
            role=message.role,
            parts=message_parts(cleaned_block(message.content), types if message.role == "user" else ()),
        )
        for message in messages
    ]
    return [turn for turn in turns if turn.parts]


def merged_turns(turns: Iterable[PromptTurn]) -> list[PromptTurn]:
    """The same turns with consecutive ones of the same role merged."""
    return [
        PromptTurn(role=role, parts=tuple(part for turn in group for part in turn.parts))
        for role, group in groupby(turns, key=attrgetter("role"))
    ]


def message_parts(block: Block, types: Collection[str] = PROMPT_TYPES) -> tuple[Part, ...]:
    """A block as a model accepts it: files of these types unchanged, the rest as text; () if blank."""
    if isinstance(block, Text) and not block.text.strip():
        return ()
    result = ToolResult(content=(block,))
    if isinstance(block, Embedded) and PDF in types and (files := pdf_documents(result)):
        return (Text(text=f"[{block.uri}]"), *files)
    return model_blocks(result, {*types} - {PDF})
