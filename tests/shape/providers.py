"""The published rules of each provider for a tool, written down once, each with its source.

A checker takes what the provider would be sent and gives the violations, `path: what is wrong`. Where a
provider publishes a rule only as the answer to a request that breaks it, the source is a thread that quotes
that answer. The checkers share nothing with `toolbus.shape.dialects`, which they judge.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping

from tests.shape.reading import JSON, accepts, fault, is_object

Found = Iterator[str]
TYPES = {"string", "number", "integer", "boolean", "object", "array", "null"}
NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")


def openai(tool: JSON) -> list[str]:
    """Chat Completions: https://platform.openai.com/docs/api-reference/chat/create (tools).

    Names: 1 to 64 of letters, digits, `_`, `-`. The description's limit of 1,024 characters, no longer in the
    reference, is what Azure and gateways answer: https://github.com/getsentry/sentry-mcp/issues/106.
    """
    function = tool.get("function", {})
    found = [*_keys(tool, {"type", "function"}, "tool")]
    found += _keys(function, {"name", "description", "parameters", "strict"}, "function", also=True)
    found += [] if tool.get("type") == "function" else ["type: not function"]
    return [*found, *_openai_function(function)]


def openai_responses(tool: JSON) -> list[str]:
    """Responses: https://platform.openai.com/docs/api-reference/responses/create (tools).

    The form is flat, and `strict` is required: it is taken for true where it is missing.
    """
    found = [*_keys(tool, {"type", "name", "description", "parameters", "strict"}, "tool", also=True)]
    found += [] if tool.get("type") == "function" else ["type: not function"]
    found += [] if isinstance(tool.get("strict"), bool) else ["strict: missing"]
    return [*found, *_openai_function(tool)]


def openai_strict(tool: JSON) -> list[str]:
    """As `openai`; whether a tool is strict or fell back, it has to say so."""
    said = isinstance(tool.get("function", {}).get("strict"), bool)
    return openai(tool) + ([] if said else ["strict: not said"])


def _openai_function(function: JSON) -> Found:
    yield from _head(function, NAME)
    if len(function.get("description", "")) > 1024:
        yield "description: longer than 1024"
    schema = function.get("parameters")
    if not is_object(schema):
        yield "parameters: no schema"
    else:
        yield from strict_schema(schema) if function.get("strict") else openai_schema(schema)


def openai_schema(schema: JSON) -> Found:
    """The parts that OpenAI refuses in a schema that is not strict.

    The top: https://github.com/langchain-ai/langchainjs/issues/9804 (an object, without oneOf, anyOf, allOf,
    enum, not); arrays without items: https://github.com/PrefectHQ/fastmcp/issues/2464; propertyNames:
    https://github.com/vercel/ai/pull/20621; references only into the schema itself.
    """
    yield from _json_schema(schema)
    if schema.get("type") != "object":
        yield "/: type is not object"
    for key in {"oneOf", "anyOf", "allOf", "enum", "not"} & schema.keys():
        yield f"/: {key} at the top"
    if "properties" not in schema:
        yield "/: object schema missing properties"
    for path, node in nodes(schema):
        if isinstance(node, bool):
            if not path.endswith("additionalProperties"):
                yield f"{path}: a boolean is no schema object"
            continue
        if "array" in _types(node) and "items" not in node:
            yield f"{path}: array schema missing items"
        if "propertyNames" in node:
            yield f"{path}: propertyNames is not permitted"


STRICT_FORMATS = set("date-time time date duration email hostname ipv4 ipv6 uuid".split())  # noqa: SIM905
STRICT_KEYWORDS = {
    "object": {"properties", "required", "additionalProperties"},
    "array": {"items", "minItems", "maxItems"},
    "string": {"pattern", "format"},
    "number": {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"},
}
STRICT_KEYWORDS["integer"] = STRICT_KEYWORDS["number"]


def strict_schema(schema: JSON) -> Found:
    """https://developers.openai.com/api/docs/guides/structured-outputs (supported schemas).

    All properties are required, and additional ones are refused. The top is an object without a choice.
    Limits: 5,000 properties, 10 levels, 1,000 enum values, 120,000 characters of names and values, 15,000 in
    one enum of more than 250.
    """
    yield from _json_schema(schema)
    if schema.get("type") != "object" or "anyOf" in schema:
        yield "/: the top is not a plain object"
    properties = values = text = 0
    for path, node in nodes(schema):
        if path.endswith("/additionalProperties"):
            continue
        yield from _strict_node(path, node)
        enum = node.get("enum", [])
        length = sum(len(value) for value in enum if isinstance(value, str))
        if len(enum) > 250 and length > 15_000:
            yield f"{path}: enum too long"
        properties += len(node.get("properties", {}))
        values += len(enum)
        text += length + sum(map(len, node.get("properties", {})))
    if properties > 5_000 or values > 1_000 or text > 120_000:
        yield f"/: too large: {properties} properties, {values} enum values, {text} characters"
    if (levels := _levels(schema)) > 10:
        yield f"/: {levels} levels of nesting exceed the limit of 10"


def _strict_node(path: str, node: JSON) -> Found:
    types = _types(node)
    if not types and "anyOf" not in node:
        yield f"{path}: no type"
    allowed = {"type", "description", "enum", "const", "anyOf", "$ref", "$defs"}
    for name in types:
        allowed |= STRICT_KEYWORDS.get(name, set())
    for key in node.keys() - allowed:
        yield f"{path}: {key} is not permitted"
    if "object" in types and node.get("additionalProperties") is not False:
        yield f"{path}: additionalProperties is not false"
    if "object" in types and sorted(node.get("required", [])) != sorted(node.get("properties", {"": 1})):
        yield f"{path}: not every property is required, or not only they"
    if "array" in types and not is_object(node.get("items")):
        yield f"{path}: array schema missing items"
    yield from _strict_values(path, node, types)


def _strict_values(path: str, node: JSON, types: set[str]) -> Found:
    if node.get("format", "uuid") not in STRICT_FORMATS:
        yield f"{path}: {node['format']!r} is not a valid format"
    if re.search(r"\(\?<?[=!]", node.get("pattern", "")):
        yield f"{path}: lookaround in a pattern"
    for value in node.get("enum", []):
        if types and not accepts({"type": list(types)}, value):
            yield f"{path}: enum value {value!r} is not of the type"


def _levels(node: JSON) -> int:
    inside = max((_levels(child) for _, child in _below(node, "") if is_object(child)), default=0)
    return inside + ("properties" in node)


def anthropic(tool: JSON) -> list[str]:
    """https://docs.claude.com/en/api/messages (tools): an `input_schema` in JSON Schema draft 2020-12.

    No oneOf, allOf, anyOf at the top: https://github.com/anthropics/claude-code/issues/40075; names of
    properties: https://github.com/anthropics/claude-code/issues/79418 (checked here at every level).
    """
    found = [*_keys(tool, {"name", "description", "input_schema"}, "tool", also=True), *_head(tool, NAME)]
    schema = tool.get("input_schema")
    if not is_object(schema):
        return [*found, "input_schema: no schema"]
    found += _json_schema(schema)
    if schema.get("type") != "object":
        found.append("/: type is not object")
    found += [f"/: {key} at the top" for key in ("oneOf", "anyOf", "allOf") if key in schema]
    for path, node in nodes(schema):
        for name in node.get("properties", {}) if is_object(node) else ():
            if not re.fullmatch(r"[a-zA-Z0-9_.-]{1,64}", name):
                found.append(f"{path}: property key {name!r}")
    return found


GOOGLE_KEYWORDS = {
    "": {"type", "description", "title", "nullable", "enum", "format", "example", "default"},
    "object": {"properties", "required", "minProperties", "maxProperties", "propertyOrdering"},
    "array": {"items", "minItems", "maxItems"},
    "string": {"minLength", "maxLength", "pattern"},
    "number": {"minimum", "maximum"},
    "integer": {"minimum", "maximum"},
}
GOOGLE_FORMATS = {
    "string": {"date-time", "enum"},
    "number": {"float", "double"},
    "integer": {"int32", "int64"},
}


def google(tool: JSON) -> list[str]:
    """https://ai.google.dev/api/caching#FunctionDeclaration and #Schema; names of functions and parameters:
    https://cloud.google.com/vertex-ai/docs/reference/rest/v1beta1/FunctionDeclaration.

    As answers: anyOf stands alone (https://github.com/anomalyco/opencode/issues/15795); enum only for strings
    (https://github.com/directus/directus/issues/27100); a keyword only for its type
    (https://github.com/anomalyco/opencode/issues/11889); parameters are left out where there are none
    (https://github.com/AstrBotDevs/AstrBot/issues/288).
    """
    found = [*_keys(tool, {"name", "description"}, "tool", also=True)]
    found += _head(tool, re.compile(r"[a-zA-Z_][a-zA-Z0-9_.:-]{0,63}"))
    if "parameters" not in tool:
        return found
    schema = tool["parameters"]
    if schema.get("type") != "object" or not schema.get("properties"):
        found.append("parameters: not an object with properties")
    for path, node in nodes(schema):
        found += [f"{path}: {what}" for what in _google_node(node)]
    return found


def _google_node(node: JSON) -> Found:
    if "anyOf" in node:
        if node.keys() != {"anyOf"} or not node["anyOf"]:
            yield "anyOf does not stand alone"
        return
    kind = node.get("type")
    if kind not in TYPES:
        yield f"type {kind!r}"
        return
    for key in node.keys() - GOOGLE_KEYWORDS[""] - GOOGLE_KEYWORDS.get(kind, set()):
        yield f"{key}: unknown, or not for {kind}"
    yield from _google_fields(node, kind)


def _google_fields(node: JSON, kind: str) -> Found:
    if "enum" in node and (
        kind != "string" or not node["enum"] or not all(_is_text(v) for v in node["enum"])
    ):
        yield "enum: only for strings, and not empty"
    if node.get("format") not in {None, *GOOGLE_FORMATS.get(kind, ())}:
        yield f"format {node['format']!r}"
    if kind == "array" and not is_object(node.get("items")):
        yield "items: missing field"
    for name in node.get("properties", {}):
        if not re.fullmatch(r"[a-zA-Z_][a-zA-Z0-9_]{0,63}", name):
            yield f"property {name!r}"
    for name in node.get("required", ()):
        if name not in node.get("properties", {}):
            yield f"required: property {name!r} is not defined"
    if "nullable" in node and not isinstance(node["nullable"], bool):
        yield "nullable: no flag"


def mcp(tool: JSON) -> list[str]:
    """https://modelcontextprotocol.io/specification/2025-11-25/schema#tool."""
    known = {"name", "title", "description", "inputSchema", "outputSchema", "annotations", "_meta", "icons"}
    found = [f"tool: unknown {key}" for key in tool.keys() - known]
    return found + [f"tool: no {key}" for key in ("name", "inputSchema") if key not in tool]


CHECKERS: Mapping[str, Callable[[JSON], list[str]]] = {
    "openai": openai,
    "openai-strict": openai_strict,
    "openai-responses": openai_responses,
    "anthropic": anthropic,
    "google": google,
    "mcp": mcp,
}


def nodes(schema: JSON, path: str = "") -> Iterator[tuple[str, JSON]]:
    """Every schema inside a schema with its path, the outermost first."""
    yield path or "/", schema
    if is_object(schema):
        for below, child in _below(schema, path):
            yield from nodes(child, below)


def _below(node: JSON, path: str) -> Iterator[tuple[str, JSON]]:
    for key in ("properties", "patternProperties", "dependentSchemas", "$defs"):
        for name, child in node.get(key, {}).items():
            yield f"{path}/{key}/{name}", child
    for key in ("anyOf", "oneOf", "allOf", "prefixItems"):
        for number, child in enumerate(node.get(key, ())):
            yield f"{path}/{key}/{number}", child
    for key in ("items", "additionalProperties", "not", "if", "then", "else", "contains", "propertyNames"):
        if isinstance(node.get(key), dict | bool):
            yield f"{path}/{key}", node[key]


def _json_schema(schema: JSON) -> Found:
    try:
        json.dumps(schema, allow_nan=False)
    except ValueError as error:
        yield f"/: cannot be sent as JSON: {error}"
    if (wrong := fault(schema)) is not None:
        yield f"/: no draft 2020-12 schema: {wrong}"
    for path, node in nodes(schema):
        if is_object(node) and "pattern" in node:
            try:
                re.compile(node["pattern"])
            except re.error as error:
                yield f"{path}: pattern cannot be read: {error}"
        if is_object(node) and "$ref" in node:
            yield f"{path}: a reference is left"


def _head(tool: JSON, name: re.Pattern[str]) -> Found:
    if not name.fullmatch(tool.get("name", "")):
        yield f"name: {tool.get('name')!r}"
    if not isinstance(tool.get("description", ""), str):
        yield "description: no text"


def _keys(given: JSON, wanted: set[str], what: str, *, also: bool = False) -> Found:
    for key in wanted - given.keys() - {"strict", "parameters"}:
        yield f"{what}: no {key}"
    for key in () if also else given.keys() - wanted:
        yield f"{what}: unknown {key}"


def _types(node: JSON) -> set[str]:
    given: JSON = node.get("type", []) if is_object(node) else []
    return {given} if isinstance(given, str) else set(given)


def _is_text(value: JSON) -> bool:
    return isinstance(value, str) and value != ""
