"""The `search` of a bus: which encoder finds tools by meaning."""

import re
from typing import Annotated, Literal, TypeAlias, get_args

from pydantic import Field, field_serializer

from toolbus.config.base import ConfigModel
from toolbus.config.location import Location, is_mapping, near_miss
from toolbus.config.secrets.reference import MASK, parsed
from toolbus.core.values.errors import ConfigError
from toolbus.core.values.records import JSON

KnownEncoder: TypeAlias = Literal["auto", "none", "minilm", "static"]
_KNOWN = get_args(KnownEncoder)
_EXPECTED = "expected auto, none, minilm, static, or {url: ..., model: ..., key: ...}"


class Embeddings(ConfigModel):
    """An embeddings service with the API of OpenAI."""

    url: str = Field(min_length=1)
    """The URL of the API, such as `http://localhost:11434/v1`; `/embeddings` is added."""
    model: str = Field(min_length=1)
    """The name of the model there."""
    key: Annotated[str | None, Field(repr=False, min_length=1)] = None
    """The key, sent as a bearer token, preferably a reference such as `${OPENAI_API_KEY}`."""

    @field_serializer("key")
    def _masked(self, text: str | None) -> str | None:
        """A reference as written; a secret itself, or a default, is not shown."""
        is_shown = text is None or (re.fullmatch(r"\$\{[^}]*\}", text) and ":-" not in text)
        return text if is_shown else MASK

    def _check(self) -> None:
        if not re.match(r"https?://[^/\s]", self.url, re.IGNORECASE) or re.search(r"[\s?#@]|\$\{", self.url):
            raise Location().error("expected a URL that starts with http:// or https://", "url")
        if self.key is not None:
            parsed(self.key, key="key")


class Search(ConfigModel):
    """How tools are found."""

    encoder: KnownEncoder | Embeddings = "auto"
    """What finds tools by meaning: the best that is installed (`auto`), a given one, a service, or `none`."""


DEFAULT_SEARCH = Search()


def read_search(value: JSON | Search, location: Location) -> Search:
    """The setting; ConfigError if it is invalid."""
    if isinstance(value, Search):
        return value
    if value is None:
        return DEFAULT_SEARCH
    if not is_mapping(value):
        raise location.error("expected a mapping, such as {encoder: auto}", "search")
    fields = {str(key): inner for key, inner in value.items() if inner is not None}
    try:
        if "encoder" in fields:
            fields["encoder"] = _encoder(fields["encoder"], location)
        return Search(**fields)
    except ConfigError as error:
        raise location.relocated(error, lambda key: _within("search", key)) from None


def is_search(value: object) -> bool:
    """Whether the value is our `search`: other hosts may use that key for something else."""
    return isinstance(value, Search) or (is_mapping(value) and value.keys() <= {"encoder"})


def _encoder(value: JSON, location: Location) -> JSON:
    if isinstance(value, Embeddings) or value in _KNOWN:
        return value
    if value is False:  # `none` in YAML is a text, but some people mean null, and some false
        return "none"
    if not is_mapping(value):
        raise Location().error(f"{_EXPECTED}{near_miss(value, _KNOWN)}", "encoder")
    try:
        return Embeddings(**{str(key): inner for key, inner in value.items() if inner is not None})
    except ConfigError as error:
        raise Location().relocated(error, lambda key: _within("encoder", key)) from None


def _within(name: str, key: str | None) -> str:
    if key is None or not key:
        return name
    return key if key.startswith(f"{name}.") or key == name else f"{name}.{key}"
