"""Run a call as a model spelt it."""

import base64
import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import cast

from toolbus.adapters.media import is_picture
from toolbus.bus.tool import Tool
from toolbus.core.records import JSON, Image, Text, ToolResult


async def executed(tool: Tool, arguments: str | Mapping[str, JSON] | None) -> ToolResult:
    """The result; also of arguments that are no JSON object, which is told to the model."""
    given = parsed(arguments, tool)
    return given if isinstance(given, ToolResult) else await tool.execute(**given)


def parsed(
    arguments: str | Mapping[str, JSON] | None, tool: Tool | None = None
) -> dict[str, JSON] | ToolResult:
    """The arguments as a dict, or the result that tells the model what is wrong with them.

    With the tool that they are for, the latter is reported as a call that failed.
    """
    if not isinstance(arguments, str):
        return dict(arguments or {})
    try:
        given: JSON = json.loads(arguments or "{}") or {}
    except (ValueError, RecursionError) as error:
        problem = f"the arguments are not valid JSON ({error}): {arguments[:200]}"
    else:
        if isinstance(given, dict):
            return cast(dict[str, JSON], given)
        problem = f"the arguments must be a JSON object, not {arguments[:200]}"
    if tool is not None:
        # What the model wrote stays out of the events: it may hold secrets.
        tool.report_unsent("not_json", "the arguments are not a JSON object; nothing was sent")
    return ToolResult.failure(problem)


def facts(tool: Tool, result: ToolResult | None = None) -> dict[str, JSON]:
    """What a framework's metadata holds about a tool, or about one result of it."""
    about: dict[str, JSON] = {
        "server": tool.server,
        "tool": tool.origin.tool,
        "annotations": dict(tool.spec.annotations),
    }
    return about if result is None else about | outcome(result)


def outcome(result: ToolResult) -> dict[str, JSON]:
    """What a framework's metadata holds about a result."""
    return {"is_error": result.is_error, "structured": result.structured, "meta": dict(result.meta)}


def unseen(result: ToolResult) -> list[dict[str, JSON]]:
    """The blocks of which a model gets a line at most, as plain values for a framework's metadata."""
    return [
        {"type": type(block).__name__, **{name: _json(value) for name, value in asdict(block).items()}}
        for block in result.content
        if not isinstance(block, Text) and not (isinstance(block, Image) and is_picture(block))
    ]


def _json(value: object) -> JSON:
    return base64.b64encode(value).decode("ascii") if isinstance(value, bytes) else value
