"""What is compared of a tool: words for each field, and texts for an encoder."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

from toolbus.core.values.records import JSONObject, ToolSpec
from toolbus.search.bm25 import Field
from toolbus.search.words import parts, words

FIELDS = (Field(6.0, 0.6), Field(1.0, 0.75), Field(0.3, 0.75), Field(1.0, 0.3))
"""Name, description, arguments, server."""
_MOST_TEXT = 4_000
"""Characters of a description that count; what comes later is rarely about what a tool does."""
_MOST_ARGUMENTS = 50
_MOST_ARGUMENT_TEXT = 200


@dataclass(frozen=True, slots=True)
class Document:
    """One tool in the index."""

    spec: ToolSpec
    fields: tuple[list[str], ...]
    tool: frozenset[str]
    """The words of its name on its server."""

    @property
    def text(self) -> str:
        """Server, name and description, for an encoder."""
        server = " ".join(parts(self.spec.origin.server))
        return f"{server} {self.name}: {self.spec.description[:_MOST_TEXT]}"

    @property
    def name(self) -> str:
        """The name alone, in words."""
        return " ".join(parts(self.spec.origin.tool)) or self.spec.origin.tool

    @property
    def digests(self) -> tuple[bytes, bytes]:
        """What the vectors of its text and of its name are found by."""
        return digest(self.text), digest(self.name)

    @property
    def spellings(self) -> tuple[str, ...]:
        """The names by which it may be asked for."""
        origin = self.spec.origin
        return self.spec.name, origin.tool, f"{origin.server} {origin.tool}"


def digest(text: str) -> bytes:
    """What the vector of a text is found by."""
    return hashlib.sha256(text.encode("utf-8", "replace")).digest()[:16]


def document(spec: ToolSpec) -> Document:
    """The document of a tool."""
    fields = (
        words(f"{spec.origin.tool} {spec.title or ''}"),
        words(spec.description[:_MOST_TEXT]),
        words(_arguments(spec.input_schema)),
        words(spec.origin.server),
    )
    return Document(spec, fields, frozenset(words(spec.origin.tool)))


def _arguments(schema: JSONObject) -> str:
    properties = schema.get("properties")
    if not isinstance(properties, Mapping):
        return ""
    texts: list[str] = []
    for name, argument in list(cast("JSONObject", properties).items())[:_MOST_ARGUMENTS]:
        about = cast("JSONObject", argument).get("description") if isinstance(argument, Mapping) else None
        texts.append(f"{name} {about[:_MOST_ARGUMENT_TEXT]}" if isinstance(about, str) else name)
    return " ".join(texts)
