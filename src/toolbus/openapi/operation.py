"""One operation of an HTTP API, as a tool needs it: plain records without a reference to the document."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from toolbus.core.values.records import JSONObject

Place: TypeAlias = Literal["path", "query", "header", "cookie"]
Style: TypeAlias = Literal[
    "simple", "label", "matrix", "form", "spaceDelimited", "pipeDelimited", "deepObject"
]
SecurityKind: TypeAlias = Literal["bearer", "basic", "apiKey", "oauth2", "openIdConnect"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """A parameter of a request outside its body."""

    name: str
    """Its name in the request."""
    place: Place
    argument: str
    """The key of its value in the arguments of the tool, which no other parameter has."""
    style: Style
    explode: bool
    allow_reserved: bool = False
    required: bool = False
    content_type: str | None = None
    """The media type that its value is written in; then `style` says nothing."""
    schema: JSONObject


@dataclass(frozen=True, slots=True, kw_only=True)
class PartEncoding:
    """The format of one property in a form or a multipart body; None is the default of OpenAPI."""

    content_type: str | None = None
    style: Style | None = None
    explode: bool | None = None
    allow_reserved: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Body:
    """The body of a request."""

    content_type: str
    argument: str | None
    """The argument that is the whole body; None if the properties of the body are arguments."""
    schema: JSONObject
    required: bool = False
    properties: Mapping[str, str] = field(default_factory=dict[str, str])
    """The property of the body behind each argument, if `argument` is None."""
    encoding: Mapping[str, PartEncoding] = field(default_factory=dict[str, PartEncoding])
    """The format of each property that has one."""
    files: frozenset[str] = frozenset()
    """The arguments that are files, or lists of files: their bytes are sent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Security:
    """One credential that an operation wants."""

    scheme: str
    """Its name in the document."""
    kind: SecurityKind
    place: Literal["query", "header", "cookie"] | None = None
    """The place of an API key."""
    name: str | None = None
    """The header, parameter or cookie of an API key."""
    scopes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiOperation:
    """An operation of a document, and the tool that it becomes."""

    name: str
    """The name of the tool."""
    method: str
    """The HTTP method in upper case."""
    path: str
    """The template below `server`: `/pets/{petId}`."""
    server: str
    """The absolute base URL, without a slash at the end."""
    description: str = ""
    title: str | None = None
    tags: tuple[str, ...] = ()
    parameters: tuple[Parameter, ...] = ()
    body: Body | None = None
    accept: str = "*/*"
    """The media types of its responses, for the header `Accept`."""
    input_schema: JSONObject
    output_schema: JSONObject | None = None
    wrapped: bool = False
    """Whether the structured output is `{"result": BODY}`, because the body is not an object."""
    security: tuple[tuple[Security, ...], ...] = ()
    """The alternatives, each a set of credentials that are sent together; empty for none."""
    others: tuple[str, ...] = ()
    """The paths of other operations with this method that are no tools: no argument may lead to one."""
    deprecated: bool = False
    read_only: bool = False
    destructive: bool = True
    idempotent: bool = False
