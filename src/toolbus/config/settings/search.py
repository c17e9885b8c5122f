"""The `search` of a bus: which encoder finds tools by meaning."""

import re
from typing import Annotated, Literal, TypeAlias, get_args

from pydantic import BeforeValidator, Field, field_serializer

from toolbus.config.base import ConfigModel, Text
from toolbus.config.location import Location, is_mapping, near_miss
from toolbus.config.secrets.reference import MASK, is_shown, parsed
from toolbus.core.values.records import JSON

KnownEncoder: TypeAlias = Literal["auto", "none", "minilm", "static"]
_KNOWN = get_args(KnownEncoder)
_EXPECTED = "expected auto, none, minilm, static, or {url: ..., model: ..., key: ...}"


class Embeddings(ConfigModel):
    """An embeddings service with the API of OpenAI."""

    url: Text
    """The URL of the API, such as `http://localhost:11434/v1`; `/embeddings` is added."""
    model: Text
    """The name of the model there."""
    key: Annotated[str | None, Field(repr=False, min_length=1)] = None
    """The key, sent as a bearer token, preferably a reference such as `${OPENAI_API_KEY}`."""

    @field_serializer("key")
    def _masked(self, text: str | None) -> str | None:
        """A reference as written; a secret itself, or a default, is not shown."""
        return text if text is None or is_shown(text) else MASK

    def _check(self) -> None:
        if not re.match(r"https?://[^/\s]", self.url, re.IGNORECASE) or re.search(r"[\s?#@]|\$\{", self.url):
            raise Location().error("expected a URL that starts with http:// or https://", "url")
        if self.key is not None:
            parsed(self.key, key="key")


def _encoder(value: JSON) -> JSON:
    if isinstance(value, Embeddings) or value in _KNOWN:
        return value
    if value is False:  # `none` in YAML is a text, but some people mean null, and some false
        return "none"
    if is_mapping(value):
        return Embeddings(**{str(key): one for key, one in value.items()})
    raise ValueError(f"{_EXPECTED}{near_miss(value, _KNOWN)}")


class Search(ConfigModel):
    """Settings of the tool search."""

    _expected = "expected a mapping, such as {encoder: auto}"

    encoder: Annotated[KnownEncoder | Embeddings, BeforeValidator(_encoder)] = "auto"
    """The encoder that finds tools by meaning: the best one (`auto`), a given one, a service, or `none`."""


DEFAULT_SEARCH = Search()
