"""Run a model's tool call, and describe tools and results in a framework's metadata."""

import base64
import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import cast

from toolbus.adapters.approval import approval_of
from toolbus.adapters.media import is_common_image
from toolbus.bus.catalog.tool import Tool
from toolbus.core.ask.approval import ApprovalRequest
from toolbus.core.values.records import JSON, Image, Text, ToolResult


async def run_tool(
    tool: Tool,
    arguments: str | Mapping[str, JSON] | None,
    approved_by: str | None = None,
    asked: ApprovalRequest | None = None,
) -> ToolResult:
    """Run the tool; arguments that are not a JSON object return a failed result for the model.

    `approved_by` is the framework in which a person approved the call, if one did; `asked` is its question.
    """
    given = parse_arguments(arguments, tool)
    if isinstance(given, ToolResult):
        return given
    return await tool.run(given, approval=approval_of(tool, given, approved_by, asked=asked))


def parse_arguments(
    arguments: str | Mapping[str, JSON] | None, tool: Tool | None = None
) -> dict[str, JSON] | ToolResult:
    """The arguments as a dict, or a failed result that tells the model what is wrong with them.

    With `tool`, the failure is also reported as a failed call of that tool.
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
        # Events do not carry the arguments: they may hold secrets.
        tool.report_unsent("not_json", "the arguments are not a JSON object; nothing was sent")
    return ToolResult.failure(problem)


def tool_metadata(tool: Tool, result: ToolResult | None = None) -> dict[str, JSON]:
    """Metadata about a tool, and about one of its results if given."""
    metadata: dict[str, JSON] = {
        "server": tool.server,
        "tool": tool.origin.tool,
        "annotations": dict(tool.spec.annotations),
        "reads_only": tool.spec.reads_only,
    }
    return metadata if result is None else metadata | result_metadata(result)


def result_metadata(result: ToolResult) -> dict[str, JSON]:
    """Metadata about a result."""
    return {"is_error": result.is_error, "structured": result.structured, "meta": dict(result.meta)}


def hidden_blocks(result: ToolResult) -> list[dict[str, JSON]]:
    """The blocks that a model sees at most as one line of text, as JSON values for metadata."""
    return [
        {"type": type(block).__name__, **{name: _json(value) for name, value in asdict(block).items()}}
        for block in result.content
        if not isinstance(block, Text) and not (isinstance(block, Image) and is_common_image(block))
    ]


def _json(value: object) -> JSON:
    return base64.b64encode(value).decode("ascii") if isinstance(value, bytes) else value
