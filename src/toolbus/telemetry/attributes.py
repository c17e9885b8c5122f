"""The attributes of requests and connections, without secrets and of limited length."""

import json
from collections.abc import Mapping
from typing import TypeAlias

from toolbus.config.location import is_mapping
from toolbus.config.secrets.redact import redacted_by_all
from toolbus.core.operation.tracing import ConnectionFacts
from toolbus.core.values.records import JSON, Audio, Block, Embedded, Image, ToolResult
from toolbus.telemetry import names

Attributes: TypeAlias = dict[str, str | int]
LONGEST_NAME = 200
LONGEST_URI = 1_000
LONGEST_CONTENT = 64 * 1024
"""The maximum length in characters."""
_OF_RESOURCES = frozenset({"resources/read", "resources/subscribe", "resources/unsubscribe"})


def of_target(method: str, tool: object = None, prompt: object = None, uri: object = None) -> Attributes:
    attributes: Attributes = {names.METHOD: method[:LONGEST_NAME]}
    if method == "tools/call":
        attributes[names.GEN_AI_OPERATION] = names.EXECUTE_TOOL
        if isinstance(tool, str):
            attributes[names.TOOL] = tool[:LONGEST_NAME]
    if isinstance(prompt, str):
        attributes[names.PROMPT] = prompt[:LONGEST_NAME]
    if isinstance(uri, str):
        attributes[names.RESOURCE] = str(redacted_by_all(uri))[:LONGEST_URI]
    return attributes


def of_params(method: str, params: Mapping[str, JSON] | None) -> Attributes:
    """The target of a request, by its params, which may be anything."""
    params = params or {}
    name = params.get("name")
    match params.get("ref"):
        case {"type": "ref/prompt", "name": str() as completed}:
            prompt: object = completed
        case _:
            prompt = name if method == "prompts/get" else None
    return of_target(method, name, prompt, params.get("uri") if method in _OF_RESOURCES else None)


def span_name(attributes: Mapping[str, str | int]) -> str:
    method = attributes[names.METHOD]
    target = attributes.get(names.TOOL) or attributes.get(names.PROMPT)
    return str(method) if target is None else f"{method} {target}"


def of_connection(connection: ConnectionFacts) -> Attributes:
    attributes: Attributes = {}
    if connection.transport:
        attributes[names.TRANSPORT] = connection.transport
        if connection.transport != "pipe":
            attributes |= {names.NETWORK_PROTOCOL: "http", names.NETWORK_VERSION: "1.1"}
    if connection.protocol is not None:
        attributes[names.PROTOCOL] = connection.protocol
    if connection.session is not None:
        attributes[names.SESSION] = connection.session[:LONGEST_NAME]
    if connection.address is not None:
        attributes[names.SERVER_ADDRESS] = connection.address
    if connection.port is not None:
        attributes[names.SERVER_PORT] = connection.port
    return attributes


def in_metrics(attributes: Mapping[str, str | int]) -> Attributes:
    """Those that a duration is counted by."""
    return {key: value for key, value in attributes.items() if key in names.IN_METRICS}


# Content: only if the config wants it.


def content(value: JSON) -> str | None:
    """A value as JSON, without secrets; None if JSON cannot express it."""
    plain: JSON = dict(value) if is_mapping(value) else value
    try:
        return json.dumps(redacted_by_all(plain), ensure_ascii=False, default=_size)[:LONGEST_CONTENT]
    except (ValueError, RecursionError, TypeError):
        return None


def result_content(result: ToolResult) -> str | None:
    """The result of a call as JSON: its structured content, or else its blocks without their data."""
    if result.structured is not None:
        return content(result.structured)
    return content([_block(block) for block in result.content])


def variables(arguments: Mapping[str, JSON]) -> Attributes:
    found: Attributes = {}
    for key, value in arguments.items():
        if isinstance(value, str):
            name = f"{names.VARIABLE}{key}"[:LONGEST_NAME]
            found[name] = str(redacted_by_all(value))[:LONGEST_CONTENT]
    return found


def text_content(text: str) -> str:
    return str(redacted_by_all(text))[:LONGEST_CONTENT]


def _block(block: Block) -> JSON:
    kind = type(block).__name__.lower()
    if isinstance(block, Image | Audio):
        return {"type": kind, "mimeType": block.mime_type, "bytes": len(block.data)}
    if isinstance(block, Embedded):
        return {"type": "resource", "uri": block.uri, "text": block.text, "bytes": len(block.data or b"")}
    return {"type": kind, "text": getattr(block, "text", None) or getattr(block, "uri", None)}


def _size(value: object) -> str:
    return f"{len(value)} bytes" if isinstance(value, bytes) else type(value).__name__
