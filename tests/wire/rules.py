"""Rules of the providers beyond their published types: the order of turns, names, schemas.

Each function yields the errors of a request, in the provider's own words where they are known.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import cast

from tests.wire.turn import JSON

_OPENAI_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_ANTHROPIC_NAME = re.compile(r"[a-zA-Z0-9_-]{1,128}")
_GOOGLE_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_.:-]{0,63}")
_IMAGE = re.compile(r"https?://.*|data:image/(png|jpeg|gif|webp);base64,[A-Za-z0-9+/]+=*", re.DOTALL)
_ID_PREFIXES = {"function_call": "fc", "message": "msg", "reasoning": "rs"}
_CALLS = {"function_call": "function_call_output", "tool_search_call": "tool_search_output"}


def chat_errors(body: JSON, _called: Mapping[str, str]) -> Iterator[str]:
    """Errors of OpenAI's Chat Completions."""
    yield from _openai_tools([tool["function"] for tool in _dicts(body.get("tools")) if "function" in tool])
    waiting: list[str] = []
    for place, message in enumerate([*_dicts(body["messages"]), {"role": "the end"}]):
        if message["role"] == "tool":
            if message["tool_call_id"] not in waiting:
                yield "messages with role 'tool' must be a response to a preceding message with 'tool_calls'"
            else:
                waiting.remove(message["tool_call_id"])
            continue
        if waiting:
            yield f"messages.{place}: tool_call_ids did not have response messages: {', '.join(waiting)}"
        calls = _dicts(message.get("tool_calls"))
        waiting = [call["id"] for call in calls]
        yield from _odd_names(
            [call["function"]["name"] for call in calls if "function" in call], _OPENAI_NAME
        )
        if message["role"] == "assistant" and not calls and message.get("content") is None:
            yield f"messages.{place}: content of an assistant message is required without 'tool_calls'"
        for part in _dicts(message.get("content")):
            if part["type"] == "image_url" and not _IMAGE.fullmatch(part["image_url"]["url"]):
                yield f"messages.{place}: unsupported image {part['image_url']['url'][:40]!r}"


def responses_errors(body: JSON, called: Mapping[str, str]) -> Iterator[str]:
    """Of OpenAI's Responses; `called` are the calls that the provider keeps itself."""
    yield from _openai_tools([tool for tool in _dicts(body.get("tools")) if tool["type"] == "function"])
    items = _dicts(body.get("input"))
    known = set(called) if body.get("previous_response_id") else set[str]()
    answered = {item["call_id"] for item in items if item.get("type") in _CALLS.values()}
    for item in items:
        kind = item.get("type")
        if kind in _CALLS:
            known.add(item["call_id"])
            if item["call_id"] not in answered:
                yield f"No tool output found for function call {item['call_id']}."
        elif kind in _CALLS.values() and item["call_id"] not in known:
            yield f"No tool call found for function call output with call_id {item['call_id']}."
        prefix = _ID_PREFIXES.get(str(kind))
        if prefix and item.get("id") and not item["id"].startswith(prefix):
            yield f"Invalid 'id': {item['id']!r}. Expected an ID that begins with {prefix!r}."
        for part in _dicts(item.get("content")) + _dicts(item.get("output")):
            if part["type"] == "input_image" and not _IMAGE.fullmatch(part.get("image_url") or "https://"):
                yield f"unsupported image {part['image_url'][:40]!r}"


def anthropic_errors(body: JSON, _called: Mapping[str, str]) -> Iterator[str]:
    """Errors of Anthropic's Messages."""
    yield from _anthropic_tools(body)
    waiting: list[str] = []
    messages = _dicts(body["messages"])
    if [message["role"] for message in messages[:1]] != ["user"]:
        yield "messages: first message must use the 'user' role"
    for place, message in enumerate(messages):
        blocks = _dicts(message["content"])
        kinds = [block["type"] for block in blocks]
        results = [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"]
        if kinds[: len(results)] != ["tool_result"] * len(results):
            yield f"messages.{place}: tool_result blocks must come first"
        if Counter(results) != Counter(waiting):
            yield f"messages.{place}: tool_use ids {waiting} need tool_result blocks here, not {results}"
        waiting = [block["id"] for block in blocks if block["type"] == "tool_use"]
        inner = [part for block in blocks for part in _dicts(block.get("content"))]
        texts: list[str] = [message["content"]] if isinstance(message["content"], str) else []
        texts += [block["text"] for block in [*blocks, *inner] if block["type"] == "text"]
        if (not texts and not blocks) or not all(text.strip() for text in texts):
            yield f"messages.{place}: text content blocks must contain non-whitespace text"
        for block in blocks:
            parts = {part["type"] for part in _dicts(block.get("content"))}
            if block.get("is_error") and not parts <= {"text"}:
                yield f"messages.{place}: all content must be type `text` if `is_error` is true"
    if waiting:
        yield f"tool_use ids were found without tool_result blocks immediately after: {waiting}"


def google_errors(body: JSON, _called: Mapping[str, str]) -> Iterator[str]:
    """Errors of Google's generateContent."""
    groups = [
        _dicts(_either(tool, "functionDeclarations", "function_declarations"))
        for tool in _dicts(body.get("tools"))
    ]
    declared = [declaration for group in groups for declaration in group]
    names = [declaration["name"] for declaration in declared]
    yield from _odd_names(names, _GOOGLE_NAME)
    yield from (f"Duplicate function declaration found: {name}" for name in _repeated(names))
    for one in declared:
        schema = one.get("parameters") or _either(one, "parametersJsonSchema", "parameters_json_schema")
        yield from _odd_schema(one["name"], schema or {"type": "object"})
    waiting = 0
    for place, content in enumerate(
        [*_dicts(body["contents"]), {"role": "user", "parts": [{"text": "end"}]}]
    ):
        parts = _dicts(content.get("parts"))
        if not parts or not all(parts):
            yield f"contents.{place}: must include at least one parts field, with data"
        calls = [part for part in parts if _either(part, "functionCall", "function_call")]
        results = [part for part in parts if _either(part, "functionResponse", "function_response")]
        if len(results) != waiting:
            yield f"contents.{place}: {len(results)} function responses for {waiting} function calls"
        if calls and (place == 0 or content.get("role") != "model"):
            yield f"contents.{place}: a function call turn must come after a user or function response turn"
        waiting = len(calls)


def _openai_tools(functions: Iterable[JSON]) -> Iterator[str]:
    for function in functions:
        yield from _odd_names([function["name"]], _OPENAI_NAME)
        schema: JSON = function.get("parameters") or {"type": "object"}
        yield from _odd_schema(function["name"], schema)
        if function.get("strict"):
            yield from _loose(function["name"], schema)


def _anthropic_tools(body: JSON) -> Iterator[str]:
    tools = _dicts(body.get("tools"))
    names = [tool["name"] for tool in tools if "name" in tool]
    yield from _odd_names(names, _ANTHROPIC_NAME)
    yield from (f"tools: Tool names must be unique: {name}" for name in _repeated(names))
    for tool in tools:
        schema: Mapping[str, JSON] = tool.get("input_schema", {"type": "object"})
        if schema.get("type") != "object":
            yield f"tools: input_schema.type: Input should be 'object', not {schema.get('type')!r}"
        found = {"oneOf", "anyOf", "allOf"} & schema.keys()
        if found:
            yield f"tools: input_schema does not support {', '.join(sorted(found))} at the top level"
    if tools and all(tool.get("defer_loading") for tool in tools):
        yield "at least one tool must have defer_loading=false"
    if any(tool.get("defer_loading") and tool.get("cache_control") for tool in tools):
        yield "tools with defer_loading cannot use prompt caching"
    blocks = [block for message in _dicts(body["messages"]) for block in _dicts(message["content"])]
    for part in (part for block in blocks for part in _dicts(block.get("content"))):
        if part["type"] == "tool_reference" and part["tool_name"] not in names:
            yield f"tool reference {part['tool_name']!r} not found in tools"


def _odd_names(names: Iterable[str], pattern: re.Pattern[str]) -> Iterator[str]:
    for name in names:
        if not pattern.fullmatch(name):
            yield f"Invalid name {name!r}: string does not match pattern '^{pattern.pattern}$'"


def _repeated(names: Iterable[str]) -> list[str]:
    return [name for name, times in Counter(names).items() if times > 1]


def _odd_schema(name: str, schema: JSON) -> Iterator[str]:
    if str(schema.get("type")).lower() != "object":
        yield f"Invalid schema for function {name!r}: schema must be of 'type: \"object\"'"
    for inner in _schemas(schema):
        if str(inner.get("type")).lower() == "array" and not {"items", "prefixItems"} & inner.keys():
            yield f"Invalid schema for function {name!r}: array schema missing items"


def _loose(name: str, schema: JSON) -> Iterator[str]:
    for inner in _schemas(schema):
        properties: Mapping[str, JSON] = inner.get("properties") or {}
        if inner.get("type") == "object" and inner.get("additionalProperties") is not False:
            yield f"Invalid schema for function {name!r}: 'additionalProperties' is required to be false"
        if set(inner.get("required") or ()) != properties.keys():
            yield f"Invalid schema for function {name!r}: 'required' has to name every key in properties"


def _schemas(schema: JSON) -> Iterator[JSON]:
    """The schema and those in it."""
    if isinstance(schema, dict):
        known = cast(dict[str, JSON], schema)
        yield known
        named: list[dict[str, JSON]] = [known.get("properties") or {}, known.get("$defs") or {}]
        union: list[JSON] = known.get("anyOf") or known.get("any_of") or []
        for inner in [known.get("items"), *union, *(one for group in named for one in group.values())]:
            yield from _schemas(inner)


def _dicts(content: JSON) -> list[JSON]:
    listed = cast(list[JSON], content if isinstance(content, list) else [])
    return [part for part in listed if isinstance(part, dict)]


def _either(record: JSON, camel: str, snake: str) -> JSON:
    return record.get(camel, record.get(snake))
