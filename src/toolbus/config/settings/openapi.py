"""The `openapi` of a server: the document of an HTTP API, and the part of it that becomes tools."""

import re
from collections.abc import Iterator
from typing import Annotated, TypeAlias

from pydantic import Field, Strict

from toolbus.config.base import ConfigModel, Text, TextOrTexts, Texts
from toolbus.config.location import Location
from toolbus.config.settings.auth import header_name_problem, web_url
from toolbus.core.values.records import JSON

METHODS = ("GET", "PUT", "POST", "DELETE", "OPTIONS", "HEAD", "PATCH", "TRACE")
"""The methods that a document can describe."""
BASE_URL_QUERY = "has a query or a fragment; keep the part before it, and set parameters in openapi.query"
_EXAMPLE = "write {document: openapi.yaml, base_url: https://api.example.com}, or the file or URL alone"


class OperationPattern(ConfigModel):
    """A pattern for operations: an operation matches if it matches every key that is set."""

    _expected = "expected a mapping such as {tag: pets}, {method: GET} or {path: /pets/*}"
    _expects = {
        "tag": "expected a tag, or a list of tags",
        "method": "expected a method such as GET, or a list of methods",
        "path": "expected a path such as /pets/*, or a list of paths",
    }

    tag: TextOrTexts = ()
    """Tags of the document; globs."""
    method: TextOrTexts = ()
    """HTTP methods, such as `GET`."""
    path: TextOrTexts = ()
    """Paths as the document writes them, such as `/pets/{id}`; globs."""

    def _check(self) -> None:
        if not (self.tag or self.method or self.path):
            raise Location().error("is empty; set tag, method or path")
        for index, method in enumerate(self.method):
            if method.upper() not in METHODS:
                raise Location().error(f"expected one of {', '.join(METHODS)}", f"method[{index}]")


Patterns: TypeAlias = Annotated[tuple[OperationPattern, ...], Strict(False)]
_EXPECTED_PATTERNS = "expected a list of patterns, such as [{tag: pets}, {method: GET, path: /pets/*}]"


class OpenApi(ConfigModel):
    """An HTTP API with an OpenAPI document: each operation is a tool."""

    _expected = f"expected a file, a URL or a mapping; {_EXAMPLE}"
    _expects = {"include": _EXPECTED_PATTERNS, "exclude": _EXPECTED_PATTERNS}
    _missing = f"is missing; {_EXAMPLE}"

    document: Text
    """The file or URL of the document; a relative file is relative to the config's folder."""
    base_url: str | None = Field(default=None, min_length=1)
    """The URL of the API; by default the first server of the document."""
    query: dict[str, str] = {}
    """Parameters added to the URL of every request, such as an API key: `{key: "${KEY}"}`."""
    include: Patterns = ()
    """The operations that become tools, by tag, method and path; empty means all."""
    exclude: Patterns = ()
    """The operations to leave out, in the same format."""
    allow_origins: Texts = ()
    """Further public origins that requests may go to, such as `https://uploads.example.com`; without
    credentials."""
    allow_private: bool = False
    """Whether requests may go to any address in your own network, not only to `base_url`."""

    @property
    def is_url(self) -> bool:
        """Whether the document is at a URL; a reference may turn out to be either."""
        return re.match(r"https?://", self.document, re.IGNORECASE) is not None

    def texts(self) -> Iterator[tuple[str, str]]:
        """Every text that may contain references, with the name of its key."""
        yield "document", self.document
        if self.base_url is not None:
            yield "base_url", self.base_url
        yield from ((f"query.{name}", text) for name, text in self.query.items())

    @classmethod
    def _from_file(cls, value: JSON) -> dict[str, JSON]:
        return super()._from_file({"document": value} if isinstance(value, str) else value)

    def _check(self) -> None:
        for key, text in (("document", self.document if self.is_url else None), ("base_url", self.base_url)):
            if text is not None and "${" not in text and web_url(text) is None:
                raise Location().error("expected a URL that starts with http:// or https://", key)
        if self.base_url is not None and re.search(r"[?#]", re.sub(r"\$\{[^{}]*\}", "", self.base_url)):
            raise Location().error(BASE_URL_QUERY, "base_url")
        for index, text in enumerate(self.allow_origins):
            parts = web_url(text)
            if parts is None or parts.path not in ("", "/") or parts.query or parts.fragment:
                problem = "expected an origin, such as https://uploads.example.com"
                raise Location().error(problem, f"allow_origins[{index}]")
        for name in self.query:
            if header_name_problem(name) and not re.fullmatch(r"[^\s&=#?]+", name):
                raise Location().error("expected the name of a parameter", f"query.{name}")
