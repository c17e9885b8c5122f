"""Read the content of a message, in any of the four wire formats, into its text and its decoded media."""

import base64
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from tests.wire.turn import JSON

Kind = Literal["text", "images", "audio", "files"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Content:
    """The text parts joined with newlines, and the bytes of inline files; remote URLs are left out."""

    text: str = ""
    images: tuple[bytes, ...] = ()
    audio: tuple[bytes, ...] = ()
    files: tuple[bytes, ...] = ()


def content_of(parts: JSON) -> Content:
    """The content given as null, one text, one part or a list of parts."""
    listed = listed_of(parts)
    found = [piece for part in listed if (piece := _piece(part)) is not None]

    def media(kind: Kind) -> tuple[bytes, ...]:
        return tuple(data for source in _only(found, kind) if (data := _decoded(source)) is not None)

    return Content(
        text="\n".join(_only(found, "text")),
        images=media("images"),
        audio=media("audio"),
        files=media("files"),
    )


def listed_of(parts: JSON) -> list[JSON]:
    """A list as it is, null as an empty one, anything else as the only element."""
    if parts is None:
        return []
    return list(parts) if isinstance(parts, list) else [parts]  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]  JSON


def _only(found: Iterable[tuple[Kind, str]], kind: Kind) -> list[str]:
    return [value for of, value in found if of == kind]


def _piece(part: JSON) -> tuple[Kind, str] | None:
    match part:
        case (
            str(text)
            | {"text": str(text)}
            | {"type": "document", "source": {"type": "text", "data": str(text)}}
        ):
            return "text", text
        case {"type": "image_url" | "input_image", "image_url": str(source) | {"url": str(source)}} | {
            "type": "image",
            "source": {"data": str(source)},
        }:
            return "images", source
        case {"type": "input_audio", "input_audio": {"data": str(source)}}:
            return "audio", source
        case (
            {"type": "document", "source": {"data": str(source)}}
            | {"type": "file", "file": {"file_data": str(source)}}
            | {"type": "input_file", "file_data": str(source)}
        ):
            return "files", source
        case (
            {"inlineData": {"mimeType": str(mime), "data": str(source)}}
            | {"inlineData": {"mime_type": str(mime), "data": str(source)}}  # as google-genai spells it
            | {"inline_data": {"mime_type": str(mime), "data": str(source)}}
        ):
            return _kind_of(mime), source
        case _:
            return None


def _kind_of(mime: str) -> Kind:
    if mime.startswith("image/"):
        return "images"
    return "audio" if mime.startswith("audio/") else "files"


def _decoded(source: str) -> bytes | None:
    if source.startswith(("http://", "https://", "gs://")):
        return None
    encoded = source.partition(",")[2] if source.startswith("data:") else source
    # Google's package writes the URL-safe alphabet, the others the standard one; padding may be missing.
    standard = encoded.translate(str.maketrans("-_", "+/")).rstrip("=")
    return base64.b64decode(standard + "=" * (-len(standard) % 4))
