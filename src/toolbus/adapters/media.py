"""Pictures, sound and files in the spellings that frameworks share."""

import base64
import mimetypes
from collections.abc import Collection
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from toolbus.core.records import Audio, Embedded, Image, Text, ToolResult
from toolbus.shape import rendered

Media: TypeAlias = Image | Audio
PICTURES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
"""What every provider takes whose models see."""
SOUNDS = frozenset({"audio/wav", "audio/mpeg"})
"""What every provider takes whose models hear."""
PDF = "application/pdf"
_BEGINNINGS = {
    "image/png": b"\x89PNG\r\n\x1a\n",
    "image/jpeg": b"\xff\xd8\xff",
    "image/gif": b"GIF8",
    "image/webp": b"RIFF",
}
# Names that servers use, for the one that providers know.
_SPELT = {
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


def taken(result: ToolResult, types: Collection[str] = PICTURES) -> tuple[Text | Media, ...]:
    """The blocks for a model that takes media of these types; any other medium is described in one line.

    A provider refuses the whole request, and with it the run, for one picture of a type it does not know.
    """
    shown: list[Text | Media] = []
    for block in rendered(result, images=True, audio=True):
        if not isinstance(block, Text):
            block = replace(block, mime_type=_true_type(block))
            if block.mime_type not in types:
                block = told(block)
        shown.append(block)
    return tuple(shown)


def told(block: Media) -> Text:
    """The line that stands for a medium: `[image: image/png, 4.2 kB]`."""
    [line] = rendered(ToolResult(content=(block,)))
    assert isinstance(line, Text), f"{type(line).__name__} where none was asked for"
    return line


def is_picture(block: Image) -> bool:
    """Whether every model that sees takes it."""
    return _true_type(block) in PICTURES


def documents(result: ToolResult) -> list[Document]:
    """The PDFs that came along: the one kind of file that all of OpenAI, Anthropic and Google take."""
    found: list[Document] = []
    for block in result.content:
        if isinstance(block, Embedded) and block.data and (block.mime_type or "").lower() == PDF:
            name = block.uri.partition("?")[0].rpartition("/")[2]
            found.append(Document(name=name or "document.pdf", data=block.data))
    return found


def attached(result: ToolResult, types: Collection[str] = PICTURES) -> list[Media | Document]:
    """What a text beside it can only describe: the media of these types, and the PDFs."""
    media = [block for block in taken(result, types) if not isinstance(block, Text)]
    return [*media, *documents(result)]


def encoded(block: Media | Document) -> str:
    """The data as base64."""
    return base64.b64encode(block.data).decode("ascii")


def data_url(block: Media | Document) -> str:
    """The data as an address that holds it."""
    return f"data:{block.mime_type};base64,{encoded(block)}"


def audio_format(block: Audio) -> str:
    """The short name providers use: `wav`, `mp3`."""
    known = {"audio/mpeg": "mp3", "audio/x-wav": "wav", "audio/wave": "wav"}
    guessed = (mimetypes.guess_extension(block.mime_type) or "").removeprefix(".")
    return known.get(block.mime_type) or guessed or block.mime_type.partition("/")[2]


def _true_type(block: Media) -> str:
    """What the data is; a server may name it otherwise, and a provider refuses what is not what it says."""
    said = block.mime_type.lower()
    said = _SPELT.get(said, said)
    if said not in PICTURES:
        return said
    for kind, beginning in _BEGINNINGS.items():
        if block.data.startswith(beginning) and (kind != "image/webp" or block.data[8:12] == b"WEBP"):
            return kind
    return "application/octet-stream"
