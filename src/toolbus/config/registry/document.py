"""A `server.json` as typed, validated records.

Anyone can publish one. So every text and list has a limit, and unknown keys are ignored. Names of packages
and versions must have the form that their registry gives them.
"""

import json
import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    model_validator,
)
from pydantic.alias_generators import to_camel

from toolbus.config.location import is_mapping
from toolbus.core.text.display import shortened
from toolbus.core.values.errors import ConfigError
from toolbus.core.values.records import JSON

MAX_DOCUMENT = 1 << 20
"""The most bytes of a document; the largest of the official registry has 61 kB."""
OFFICIAL = "io.modelcontextprotocol.registry/official"
"""The key under which a registry adds a server's status."""
KINDS = ("npm", "pypi", "oci", "nuget", "mcpb")
"""The package types that can be started, the preferred ones first."""
_NAME = re.compile(r"[A-Za-z0-9.-]{1,200}/[A-Za-z0-9._-]{1,200}")
_IDENTIFIERS = {
    "npm": re.compile(r"(?:@[A-Za-z0-9~_.-]+/)?[A-Za-z0-9~_][A-Za-z0-9~_.-]*"),
    "pypi": re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?(?:\[[A-Za-z0-9,._-]+\])?"),
    "nuget": re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*"),
    "oci": re.compile(
        r"[A-Za-z0-9][A-Za-z0-9._/-]*(?::\d+/[A-Za-z0-9._/-]+)?(?::[\w.-]+)?(?:@sha256:[0-9a-f]{64})?"
    ),
    "mcpb": re.compile(r"https?://[!-~]+"),
}
_EXAMPLE = re.compile(r"<[^<>]*>|your[_-].*|.*/path/to/.*|.*\byourname\b.*", re.IGNORECASE)
_VERSION = re.compile(r"[A-Za-z0-9][A-Za-z0-9.+_!-]*")


def _text(value: Any) -> Any:
    """Defaults and choices may be numbers or booleans; they are texts in a command line."""
    return json.dumps(value) if isinstance(value, bool | int | float) else value


def _plain(text: str) -> str:
    if "\0" in text:
        raise ValueError("contains NUL")
    return text


def _settled(text: str) -> str:
    """The text; empty if it only shows where a value belongs."""
    return "" if _EXAMPLE.fullmatch(text) else text


_Short: TypeAlias = Annotated[str, BeforeValidator(_text), AfterValidator(_plain), Field(max_length=1000)]
_Long: TypeAlias = Annotated[str, BeforeValidator(_text), AfterValidator(_plain), Field(max_length=20_000)]

_Value: TypeAlias = Annotated[_Long, AfterValidator(_settled)]


class _Record(BaseModel):
    """A frozen part of the document; keys in camel case, or in snake case as in the first drafts."""

    model_config = ConfigDict(
        frozen=True,
        extra="ignore",
        alias_generator=to_camel,
        populate_by_name=True,
        hide_input_in_errors=True,
    )

    @model_validator(mode="before")
    @classmethod
    def _without_null(cls, value: Any) -> Any:
        return {key: one for key, one in value.items() if one is not None} if is_mapping(value) else value


class PublishedInput(_Record):
    """A variable, header or argument, or a part of one, that may need a value of the user."""

    name: _Short = ""
    type: Literal["positional", "named", ""] = ""
    description: _Long = ""
    is_required: bool = False
    is_secret: bool = False
    is_repeated: bool = False
    format: Literal["string", "number", "boolean", "filepath"] | None = None
    default: _Value = ""
    placeholder: _Long = ""
    choices: Annotated[tuple[_Short, ...], Field(max_length=1000)] = ()
    value: _Value = ""
    """A value that the publisher has set; it may have `{variables}`."""
    value_hint: _Short = ""
    variables: Annotated[dict[_Short, "PublishedInput"], Field(max_length=100)] = {}

    @property
    def is_named(self) -> bool:
        """Whether it is an argument with a name, such as `--port 80`."""
        return self.type == "named" or (not self.type and self.name.startswith("-"))

    @property
    def label(self) -> str:
        """The name by which a user sets it."""
        return self.name.lstrip("-") or self.value_hint or "argument"


_Fields: TypeAlias = Annotated[tuple[PublishedInput, ...], Field(max_length=300)]


class RemoteServer(_Record):
    """A URL where the server runs, or will run once its package has been started."""

    type: Literal["stdio", "streamable-http", "sse"] = "stdio"
    url: _Long = ""
    headers: _Fields = ()
    variables: Annotated[dict[_Short, PublishedInput], Field(max_length=100)] = {}


class PublishedPackage(_Record):
    """A package that contains the server."""

    registry_type: _Short
    identifier: _Short
    version: _Short = ""
    transport: RemoteServer = RemoteServer()
    runtime_hint: _Short = ""
    runtime_arguments: _Fields = ()
    package_arguments: _Fields = ()
    environment_variables: _Fields = ()
    file_sha256: Annotated[_Short, Field(alias="fileSha256")] = ""

    @property
    def problem(self) -> str | None:
        """The reason why it cannot be used; None if its registry could have it."""
        if self.registry_type not in KINDS:
            return None
        if not _IDENTIFIERS[self.registry_type].fullmatch(self.identifier):
            return f"{shortened(self.identifier)!r} is not the name of an {self.registry_type} package"
        if self.version and not _VERSION.fullmatch(self.version):
            return f"{shortened(self.version)!r} is not a version"
        if self.registry_type == "mcpb" and not re.fullmatch(r"(?i)[0-9a-f]{64}", self.file_sha256):
            return "it has no fileSha256, so the file cannot be verified"
        return None


class PublishedServer(_Record):
    """A server of a registry: its name, and every way to start or reach it."""

    name: _Short
    version: _Short = ""
    title: _Short = ""
    description: _Long = ""
    website_url: _Short = ""
    packages: Annotated[tuple[PublishedPackage, ...], Field(max_length=100)] = ()
    remotes: Annotated[tuple[RemoteServer, ...], Field(max_length=100)] = ()
    status: Annotated[_Short, Field(exclude=True)] = "active"
    """`active`, `deprecated` or `deleted`, as the registry says."""

    @property
    def origin(self) -> str:
        """Its name and version, as an entry of a config has it."""
        return f"{self.name}@{self.version}" if self.version else self.name


def server_json(document: JSON, *, file: str | None = None) -> PublishedServer:
    """The server in a `server.json`, or in a registry's `{server, _meta}`; ConfigError if it is invalid."""
    inner: JSON = document.get("server", document) if is_mapping(document) else None
    if not is_mapping(inner):
        raise ConfigError("expected a server.json: a mapping with name and packages or remotes", file=file)
    try:
        server = PublishedServer.model_validate({**inner, "status": _status(document)})
    except ValidationError as error:
        problem, key = _first(error)
    else:
        if _NAME.fullmatch(server.name):
            return server
        problem, key = "expected a name such as io.github.user/thing", "name"
    # Outside of `except`: the validation error holds the document.
    raise ConfigError(f"not a valid server.json: {problem}", file=file, key=key)


def _status(document: JSON) -> JSON:
    meta: JSON = document.get("_meta") if is_mapping(document) else None
    official: JSON = meta.get(OFFICIAL) if is_mapping(meta) else None
    return official.get("status", "active") if is_mapping(official) else "active"


def _first(error: ValidationError) -> tuple[str, str]:
    found = error.errors(include_url=False, include_input=False, include_context=False)[0]
    at = ".".join(str(step) for step in found["loc"])
    return shortened(found["msg"], 120), shortened(at, 120)


def parsed_document(content: bytes, *, file: str | None = None) -> Mapping[JSON, JSON]:
    """The JSON object in a file or a response, which may begin with a BOM; ConfigError if there is none."""
    if len(content) > MAX_DOCUMENT:
        raise ConfigError(f"has more than {MAX_DOCUMENT:,} bytes, which no server.json needs", file=file)
    try:
        value: JSON = json.loads(content.decode("utf-8-sig"))
    except (ValueError, RecursionError):
        value = None
    if not is_mapping(value):
        raise ConfigError("expected a JSON object", file=file)
    return value
