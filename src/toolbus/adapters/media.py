"""Images, audio and PDFs in the types and encodings that providers accept, and the turns of prompts."""

import base64
import mimetypes
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field, replace
from itertools import groupby
from operator import attrgetter
from typing import Literal, TypeAlias

from toolbus.core.values.records import Audio, Block, Embedded, Image, PromptMessage, Text, ToolResult
from toolbus.shape import rendered
from toolbus.shape.clean import cleaned_block

Media: TypeAlias = Image | Audio
IMAGE_TYPES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
"""Accepted by every provider with vision models."""
AUDIO_TYPES = frozenset({"audio/wav", "audio/mpeg"})
"""Accepted by every provider with audio models."""
PDF = "application/pdf"
_SIGNATURES = {
    "image/png": b"\x89PNG\r\n\x1a\n",
    "image/jpeg": b"\xff\xd8\xff",
    "image/gif": b"GIF8",
    "image/webp": b"RIFF",
}
# Other names that servers use, and the one that providers know.
_ALIASES = {
    "audio/mp3": "audio/mpeg",
    "audio/vnd.wave": "audio/wav",
    "audio/wave": "audio/wav",
    "audio/x-wav": "audio/wav",
    "image/jpg": "image/jpeg",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """A PDF."""

    name: str
    data: bytes = field(repr=False)
    mime_type: str = PDF


def model_blocks(result: ToolResult, types: Collection[str] = IMAGE_TYPES) -> tuple[Text | Media, ...]:
    """The blocks for a model that accepts media of these types; other media become one line of text.

    A provider rejects the whole request, and with it the run, if one image has a type it does not know.
    """
    blocks: list[Text | Media] = []
    for block in rendered(result, images=True, audio=True):
        if not isinstance(block, Text):
            block = replace(block, mime_type=_actual_type(block))
            if block.mime_type not in types:
                block = described(block)
        blocks.append(block)
    return tuple(blocks)


def described(block: Media) -> Text:
    """The line that replaces an image or audio: `[image: image/png, 4.2 kB]`."""
    [line] = rendered(ToolResult(content=(block,)))
    assert isinstance(line, Text), f"unexpected {type(line).__name__}"
    return line


def is_common_image(block: Image) -> bool:
    """Whether every vision model accepts it."""
    return _actual_type(block) in IMAGE_TYPES


def pdf_documents(result: ToolResult) -> list[Document]:
    """The embedded PDFs: the only kind of file that OpenAI, Anthropic and Google all accept."""
    found: list[Document] = []
    for block in result.content:
        if isinstance(block, Embedded) and block.data and (block.mime_type or "").lower() == PDF:
            name = block.uri.partition("?")[0].rpartition("/")[2]
            found.append(Document(name=name or "document.pdf", data=block.data))
    return found


def attachments(result: ToolResult, types: Collection[str] = IMAGE_TYPES) -> list[Media | Document]:
    """The media of these types, and the PDFs; text can only describe them."""
    media = [block for block in model_blocks(result, types) if not isinstance(block, Text)]
    return [*media, *pdf_documents(result)]


def base64_data(block: Media | Document) -> str:
    return base64.b64encode(block.data).decode("ascii")


def data_url(block: Media | Document) -> str:
    return f"data:{block.mime_type};base64,{base64_data(block)}"


def audio_format(block: Audio) -> str:
    """The short name that providers use: `wav`, `mp3`."""
    known = {"audio/mpeg": "mp3", "audio/x-wav": "wav", "audio/wave": "wav"}
    guessed = (mimetypes.guess_extension(block.mime_type) or "").removeprefix(".")
    return known.get(block.mime_type) or guessed or block.mime_type.partition("/")[2]


def _actual_type(block: Media) -> str:
    """The type of the data. Servers may name it wrong, and providers reject data of another type."""
    named = block.mime_type.lower()
    named = _ALIASES.get(named, named)
    if named not in IMAGE_TYPES:
        return named
    for mime_type, signature in _SIGNATURES.items():
        if block.data.startswith(signature) and (mime_type != "image/webp" or block.data[8:12] == b"WEBP"):
            return mime_type
    return "application/octet-stream"


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
        return "\n".join(part.text for part in self.parts if isinstance(part, Text))

    @property
    def is_text(self) -> bool:
        return all(isinstance(part, Text) for part in self.parts)


def prompt_turns(
    messages: Iterable[PromptMessage], types: Collection[str] = PROMPT_TYPES, *, audio: bool = False
) -> list[PromptTurn]:
    """One turn for every message that is not blank, without hidden characters.

    Providers reject media in assistant messages, so those are described in text. `audio` adds audio to
    the types that the model accepts.
    """
    types = {*types, *AUDIO_TYPES} if audio else types
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
