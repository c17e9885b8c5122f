"""The operations of a document: each becomes a tool, or is refused with a reason."""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from hashlib import sha256
from typing import cast
from urllib.parse import urljoin, urlsplit

from openapi_pydantic.v3.v3_1 import SecurityScheme
from openapi_pydantic.v3.v3_1 import Server as ServerModel

from toolbus.config.location import near_miss
from toolbus.config.settings.openapi import METHODS, OpenApi, OperationPattern
from toolbus.connect.http.url import parse_url
from toolbus.openapi.arguments import ToolArguments, is_json_type, valid
from toolbus.openapi.document import ApiDocument, DocumentError
from toolbus.openapi.operation import ApiOperation, Security, SecurityKind
from toolbus.openapi.schemas import Steps, resolved, self_contained, shortened_text
from toolbus.schema.values import JSON, Node, entries_of, is_object, items_of

_LONGEST_NAME = 64
_LONGEST_DESCRIPTION = 1_000
_LONGEST_TITLE = 100
_MOST_OUTPUT = 600
"""Values of an output schema, which no model has to read."""
_READ_ONLY = frozenset(("GET", "HEAD", "OPTIONS", "TRACE"))
_IDEMPOTENT = _READ_ONLY | {"PUT", "DELETE"}


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusedOperation:
    """An operation that is no tool."""

    method: str
    path: str
    reason: str

    def __str__(self) -> str:
        return f"{self.method} {self.path}: {self.reason}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiSource:
    """The settings of an API, with their references filled in."""

    setting: OpenApi = field(hash=False)
    document_url: str | None = None
    base_url: str | None = None
    given: frozenset[str] = frozenset()
    """The parameters that the config sends with every request: `header:x-api-key`, `query:key`."""
    most: int = 3_000
    """Values of an input schema."""


@dataclass(frozen=True, slots=True, kw_only=True, weakref_slot=True)
class Api:
    """The tools of an API."""

    title: str
    version: str
    base_url: str
    description: str = ""
    operations: tuple[ApiOperation, ...] = ()
    refused: tuple[RefusedOperation, ...] = ()
    left_out: int = 0
    """The number of operations that the config leaves out."""
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Entry:
    """An operation as the document has it."""

    method: str
    path: str
    node: Node
    shared: Node
    """The path item, with what all its operations share."""
    at: Steps

    @property
    def tags(self) -> tuple[str, ...]:
        return tuple(tag for tag in items_of(self.node.get("tags")) if isinstance(tag, str))


def read_api(document: ApiDocument, source: ApiSource, is_over: Callable[[], bool] = lambda: False) -> Api:
    """The tools of a document; `DocumentError` if none of it can be used, or `is_over` before the end."""
    reader = _Reader(document, source)
    refused: list[RefusedOperation] = []
    entries = list(_entries(document, refused))
    chosen = [entry for entry in entries if _is_chosen(entry, source.setting)]
    found: list[ApiOperation] = []
    for entry in chosen:
        if is_over():
            raise DocumentError("takes too long to read")
        try:
            found.append(reader.operation(entry))
        except DocumentError as error:
            refused.append(RefusedOperation(method=entry.method, path=entry.path, reason=str(error)))
    others = _paths_of_others(reader, entries, found)
    found = [replace(one, others=others.get(one.method, ())) for one in found]
    info = entries_of(document.root.get("info"))
    return Api(
        title=str(info.get("title") or "API")[:_LONGEST_TITLE],
        version=str(info.get("version") or "")[:_LONGEST_TITLE],
        base_url=reader.base_url,
        description=shortened_text(str(info.get("description") or ""), _LONGEST_DESCRIPTION),
        operations=tuple(_with_distinct_names(found)),
        refused=tuple(refused),
        left_out=len(entries) - len(chosen),
        warnings=tuple(_unmatched(entries, source.setting)),
    )


def _paths_of_others(
    reader: "_Reader", entries: Sequence[_Entry], found: Sequence[ApiOperation]
) -> dict[str, tuple[str, ...]]:
    """By method, the paths of the operations that are no tools, behind the path of their server."""
    tools = {(one.method, one.path) for one in found}
    paths: dict[str, list[str]] = {}
    for entry in entries:
        if (entry.method, entry.path) not in tools:
            paths.setdefault(entry.method, []).append(reader.path_of(entry))
    return {method: tuple(dict.fromkeys(ones)) for method, ones in paths.items()}


def _entries(document: ApiDocument, refused: list[RefusedOperation]) -> Iterator[_Entry]:
    for path, item in entries_of(document.root.get("paths")).items():
        if path.startswith("x-"):
            continue
        try:
            if not path.startswith("/"):
                raise DocumentError("a path begins with a slash", ("paths", path))
            at, shared = document.object_at(item, ("paths", path))
        except DocumentError as error:
            refused.append(RefusedOperation(method="*", path=path, reason=str(error)))
            continue
        if item is not shared and is_object(item):
            shared = {**shared, **{key: value for key, value in item.items() if key != "$ref"}}
        for method in METHODS:
            node = shared.get(method.lower())
            if is_object(node):
                yield _Entry(method, path, node, shared, (*at, method.lower()))
            elif node is not None:
                refused.append(RefusedOperation(method=method, path=path, reason="expected an object"))


# The choice of operations


def _is_chosen(entry: _Entry, setting: OpenApi) -> bool:
    is_included = not setting.include or any(_matches(entry, one) for one in setting.include)
    return is_included and not any(_matches(entry, one) for one in setting.exclude)


def _matches(entry: _Entry, pattern: OperationPattern) -> bool:
    return (
        (not pattern.tag or any(fnmatchcase(tag, one) for tag in entry.tags for one in pattern.tag))
        and (not pattern.method or entry.method in map(str.upper, pattern.method))
        and (not pattern.path or any(fnmatchcase(entry.path, one) for one in pattern.path))
    )


def _unmatched(entries: Sequence[_Entry], setting: OpenApi) -> Iterator[str]:
    """A warning for each tag, method and path of a pattern that no operation has."""
    for key, patterns in (("include", setting.include), ("exclude", setting.exclude)):
        for index, pattern in enumerate(patterns):
            known = {tag for entry in entries for tag in entry.tags}
            paths = {entry.path for entry in entries}
            for name, wanted, words in (
                ("tag", pattern.tag, known),
                ("method", pattern.method, {entry.method.lower() for entry in entries}),
                ("path", pattern.path, paths),
            ):
                for one in wanted:
                    glob = one.lower() if name == "method" else one
                    if not any(fnmatchcase(word, glob) for word in words):
                        where = f"openapi.{key}[{index}].{name}"
                        yield f"{where}: no operation has the {name} {one!r}{near_miss(one, words)}"


# Names


def _with_distinct_names(operations: Sequence[ApiOperation]) -> Iterator[ApiOperation]:
    """The operations with names that are theirs alone; a repeated one gets a digest of method and path."""
    counts = Counter(one.name.lower() for one in operations)
    for one in operations:
        if counts[one.name.lower()] > 1 or len(one.name) > _LONGEST_NAME:
            digest = sha256(f"{one.method} {one.path}".encode()).hexdigest()[:8]
            yield replace(one, name=f"{one.name[: _LONGEST_NAME - 9]}_{digest}")
        else:
            yield one


def _tool_name(entry: _Entry) -> str:
    wanted = entry.node.get("operationId")
    text = wanted if isinstance(wanted, str) and wanted.strip() else f"{entry.method.lower()}_{entry.path}"
    name = re.sub(r"(?:[^A-Za-z0-9_-]|_)+", "_", text).strip("_-")
    return name or f"{entry.method.lower()}_root"


# The operations


@dataclass(slots=True)
class _Reader:
    """Reads the operations of one document."""

    document: ApiDocument
    source: ApiSource
    base_url: str = field(init=False)
    _schemes: dict[str, Security | None] = field(default_factory=dict[str, Security | None])

    def __post_init__(self) -> None:
        self.base_url = self.source.base_url or self._server(self.document.root.get("servers"), ("servers",))
        self.base_url = self.base_url.rstrip("/")

    def operation(self, entry: _Entry) -> ApiOperation:
        """The record of an operation; `DocumentError` if it is no tool."""
        node = entry.node
        arguments = ToolArguments(document=self.document, path=entry.path, given=self.source.given)
        arguments.add_parameters(self._parameters(entry))
        if node.get("requestBody") is not None:
            at, body = self.document.object_at(node["requestBody"], (*entry.at, "requestBody"))
            arguments.add_body(body, at)
        accept, output, is_wrapped = self._response(entry)
        summary = str(node.get("summary") or entry.shared.get("summary") or "").strip()
        is_deprecated = node.get("deprecated") is True
        return ApiOperation(
            name=_tool_name(entry),
            method=entry.method,
            path=entry.path,
            server=self._server_of(entry),
            title=shortened_text(summary, _LONGEST_TITLE) or None,
            description=_description(entry, summary, is_deprecated),
            tags=entry.tags,
            parameters=tuple(arguments.parameters),
            body=arguments.body,
            accept=accept,
            input_schema=self._input_schema(arguments, entry.at),
            output_schema=output,
            wrapped=is_wrapped,
            security=self._security(entry),
            deprecated=is_deprecated,
            read_only=entry.method in _READ_ONLY,
            destructive=entry.method not in _READ_ONLY,
            idempotent=entry.method in _IDEMPOTENT,
        )

    def _input_schema(self, arguments: ToolArguments, at: Steps) -> Node:
        schema: Node = {"type": "object", "properties": arguments.properties}
        if arguments.required:
            schema["required"] = arguments.required
        most = self.source.most * 4 // 5  # what is added later has to fit, too
        written = self_contained(self.document, schema, at, "request", most)
        return {**written, "additionalProperties": False}

    def _parameters(self, entry: _Entry) -> dict[tuple[str, str], tuple[Steps, Node]]:
        """The parameters by name and place; an operation overrides the parameters of its path."""
        found: dict[tuple[str, str], tuple[Steps, Node]] = {}
        for nodes, at in ((entry.shared, entry.at[:-1]), (entry.node, entry.at)):
            for index, one in enumerate(items_of(nodes.get("parameters"))):
                place, node = self.document.object_at(one, (*at, "parameters", str(index)))
                if not isinstance(node.get("name"), str) or node.get("in") not in (
                    "path",
                    "query",
                    "header",
                    "cookie",
                ):
                    raise DocumentError(
                        "a parameter needs a name, and in: path, query, header or cookie", place
                    )
                found[node["name"], node["in"]] = place, node
        return found

    def _response(self, entry: _Entry) -> tuple[str, Node | None, bool]:
        """The media types of the successful responses, and the schema of the output if there is only one."""
        schemas: list[tuple[Steps, JSON]] = []
        kinds: list[str] = []
        is_sure = True
        for status, response in entries_of(entry.node.get("responses")).items():
            if not re.fullmatch(r"2(\d\d|XX)", status, re.IGNORECASE):
                continue
            at, node = self.document.object_at(response, (*entry.at, "responses", status))
            content = entries_of(node.get("content"))
            kinds += [kind for kind in content if kind not in kinds]
            is_sure = is_sure and bool(content)
            for kind, media in content.items():
                schema = entries_of(media).get("schema")
                if is_json_type(kind) and is_object(schema) and schema:
                    if all(schema != known for _, known in schemas):
                        schemas.append(((*at, "content", kind, "schema"), schema))
                else:
                    is_sure = False
        json_kinds = [kind for kind in kinds if is_json_type(kind)]
        accept = ", ".join([*(json_kinds or kinds)[:5], *(["*/*;q=0.1"] if json_kinds else [])]) or "*/*"
        if len(schemas) != 1 or not is_sure:
            return accept, None, False
        return accept, *self._output(*schemas[0])

    def _output(self, at: Steps, schema: JSON) -> tuple[Node | None, bool]:
        place, root = resolved(self.document, schema, at)
        is_object_schema = root.get("nullable") is not True and (
            root.get("type") == "object" or ("type" not in root and self._is_all_objects(root, place))
        )
        if not is_object_schema:
            root = {"type": "object", "properties": {"result": root}, "required": ["result"]}
        written = self_contained(self.document, root, place, "response", _MOST_OUTPUT)
        return {**written, "type": "object"}, not is_object_schema

    def _is_all_objects(self, root: Node, at: Steps) -> bool:
        if "properties" in root and root.keys().isdisjoint(("anyOf", "oneOf", "allOf")):
            return True
        members = [
            resolved(self.document, one, (*at, "allOf", str(index)))[1]
            for index, one in enumerate(items_of(root.get("allOf")))
        ]
        return any(one.get("type") == "object" or "properties" in one for one in members)

    # Servers

    def _server_of(self, entry: _Entry) -> str:
        for nodes, at in ((entry.node, entry.at), (entry.shared, entry.at[:-1])):
            if items_of(nodes.get("servers")):
                server = self._server(nodes["servers"], (*at, "servers")).rstrip("/")
                self._check_origin(server, (*at, "servers"))
                return server
        return self.base_url

    def path_of(self, entry: _Entry) -> str:
        """The path of an operation, behind the path of its server."""
        try:
            server = self._server_of(entry)
        except DocumentError:
            server = self.base_url
        return urlsplit(server).path.rstrip("/") + entry.path

    def _check_origin(self, server: str, at: Steps) -> None:
        allowed = [parse_url(one).origin for one in (self.base_url, *self.source.setting.allow_origins)]
        if parse_url(server).origin not in allowed:
            parts = urlsplit(server)
            origin = f"{parts.scheme}://{parts.netloc}"
            raise DocumentError(
                f"its server is {origin}, another origin; add it to openapi.allow_origins", at
            )

    def _server(self, servers: JSON, at: Steps) -> str:
        """The URL of the first server, absolute."""
        node = next(iter(items_of(servers)), {"url": "/"})
        if not is_object(node):
            raise DocumentError("expected an object", (*at, "0"))
        model = valid(ServerModel, node, (*at, "0"))
        variables = model.variables or {}
        text = re.sub(
            r"\{([^{}]+)\}",
            lambda match: variables[match[1]].default if match[1] in variables else match[0],
            model.url,
        )
        base = self.source.base_url if at[0] != "servers" else None
        whole = urljoin(base or self.source.document_url or "", text)
        try:
            parse_url(whole)
        except ValueError:
            reason = f"its server {text[:200]!r} is no whole URL; set openapi.base_url to the URL of the API"
            raise DocumentError(reason, at) from None
        return whole.partition("?")[0].partition("#")[0]

    # Security

    def _security(self, entry: _Entry) -> tuple[tuple[Security, ...], ...]:
        wanted = entry.node.get("security", self.document.root.get("security"))
        found: list[tuple[Security, ...]] = []
        for alternative in items_of(wanted):
            if not alternative:
                return ()  # it works without
            schemes = [(self._scheme(name), scopes) for name, scopes in entries_of(alternative).items()]
            if schemes and all(scheme for scheme, _ in schemes):
                found.append(
                    tuple(
                        replace(cast("Security", scheme), scopes=tuple(map(str, items_of(scopes))))
                        for scheme, scopes in schemes
                    )
                )
        return tuple(found)

    def _scheme(self, name: str) -> Security | None:
        if name not in self._schemes:
            self._schemes[name] = self._read_scheme(name)
        return self._schemes[name]

    def _read_scheme(self, name: str) -> Security | None:
        at = ("components", "securitySchemes", name)
        try:
            at, node = self.document.object_at(self.document.at(at), at)
            model = valid(SecurityScheme, {**node, "flows": None}, at)
        except DocumentError:
            return None  # what it cannot mean, no config can give
        kind = model.type.lower() if model.type != "http" else (model.scheme or "").lower()
        kinds: Mapping[str, SecurityKind] = {
            "apikey": "apiKey",
            "oauth2": "oauth2",
            "openidconnect": "openIdConnect",
            "bearer": "bearer",
            "basic": "basic",
        }
        if kind not in kinds:
            return None
        place = node.get("in") if kind == "apikey" else None
        return Security(
            scheme=name,
            kind=kinds[kind],
            place=place if place in ("query", "header", "cookie") else None,
            name=model.name if kind == "apikey" else None,
        )


def _description(entry: _Entry, summary: str, is_deprecated: bool) -> str:
    """The summary, then the description, in few words."""
    more = str(entry.node.get("description") or entry.shared.get("description") or "").strip()
    texts = [summary] if summary and not more.startswith(summary) else []
    texts += [shortened_text(more, _LONGEST_DESCRIPTION)] if more else []
    text = "\n\n".join(texts) or f"{entry.method} {entry.path}"
    return f"Deprecated. {text}" if is_deprecated else text
