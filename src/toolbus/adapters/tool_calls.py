"""A tool as a framework defines it, a model's call of it, and metadata about both."""

import asyncio
import base64
import json
from collections.abc import Callable, Mapping
from concurrent.futures import CancelledError
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import asdict, dataclass
from typing import Any, ParamSpec, TypeVar, cast

from toolbus.adapters.approval import approval_of
from toolbus.adapters.media import is_common_image
from toolbus.bus.catalog.tool import Tool
from toolbus.bus.inner import calls_of, view_of
from toolbus.core.ask.approval import ApprovalRequest
from toolbus.core.operation.events import Reason
from toolbus.core.values.errors import BusClosed, ToolbusError
from toolbus.core.values.records import JSON, Image, Text, ToolResult
from toolbus.shape import Dialect


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolDefinition:
    """A tool as a model sees it."""

    name: str
    description: str
    parameters: dict[str, JSON]
    options: dict[str, JSON]
    """Other options for the provider: `strict`, `defer_loading`."""


def definition_of(tool: Tool, dialect: Dialect) -> ToolDefinition:
    """The definition of a tool, for frameworks that pass it to their provider nearly unchanged."""
    definition = tool.definition(dialect)
    # Each provider has its own key for the parameters.
    function = cast(dict[str, JSON], definition.get("function", definition))
    keys = ("parameters", "input_schema", "inputSchema")
    empty: dict[str, JSON] = {"type": "object", "properties": {}}
    standard = {"type", "name", "description", *keys}
    return ToolDefinition(
        name=function["name"],
        description=function.get("description", ""),
        parameters=next((function[key] for key in keys if function.get(key)), empty),
        options={key: value for key, value in function.items() if key not in standard},
    )


def json_schema(schema: JSON) -> JSON:
    """Convert a schema from Google's dialect to JSON Schema: `nullable` becomes the type null."""
    if not isinstance(schema, dict):
        return schema
    node = cast(dict[str, JSON], schema)
    changed = {key: value for key, value in node.items() if key != "nullable"}
    nullable = node.get("nullable") is True
    if "properties" in node:
        changed["properties"] = {name: json_schema(inner) for name, inner in node["properties"].items()}
    if "items" in node:
        changed["items"] = json_schema(node["items"])
    if "anyOf" in node:
        nullable = nullable or any(option.get("nullable") is True for option in node["anyOf"])
        changed["anyOf"] = [json_schema({**option, "nullable": False}) for option in node["anyOf"]]
    if not nullable:
        return changed
    description = {"description": changed.pop("description")} if "description" in changed else {}
    options: list[JSON] = changed.pop("anyOf", None) or [changed]
    return {"anyOf": [*options, {"type": "null"}], **description}


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
    """The arguments as a dict, or a failed result that explains the problem to the model.

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
        report_unsent(tool, "not_json", "the arguments are not a JSON object; nothing was sent")
    return ToolResult.failure(problem, sent=False)


def report_unsent(tool: Tool, reason: Reason, error: str) -> None:
    """Emit the events of a call that was abandoned before it was made."""
    with suppress(BusClosed):  # there are no listeners any more
        calls_of(view_of(tool)).report_unsent(tool.name, reason, error, tool.origin)


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


P = ParamSpec("P")
T = TypeVar("T")


class ThreadCalls:
    """The calls that one thread makes."""

    def __init__(self) -> None:
        self.cancelled = False
        self._tasks: set[asyncio.Task[Any]] = set()

    async def run(self, tool: Tool, arguments: dict[str, JSON]) -> ToolResult:
        """Run a call that `cancel` can cancel."""
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            return await tool.run(arguments)
        finally:
            self._tasks.discard(task)

    def cancel(self) -> None:
        self.cancelled = True
        for task in list(self._tasks):
            task.get_loop().call_soon_threadsafe(task.cancel)


_CALLS: ContextVar[ThreadCalls | None] = ContextVar("toolbus_thread_calls", default=None)


async def in_thread(work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Run `work` in a thread. Cancelling this cancels the calls in flight; `work` ends at its next call."""
    calls = ThreadCalls()
    token = _CALLS.set(calls)
    try:
        return await asyncio.to_thread(work, *args, **kwargs)
    except asyncio.CancelledError:
        calls.cancel()
        raise
    finally:
        _CALLS.reset(token)


def run_tool_sync(tool: Tool, arguments: dict[str, JSON]) -> ToolResult:
    """Like `Tool.execute_sync`, but raises `asyncio.CancelledError` once `in_thread` is cancelled.

    It is not an `Exception`, which a framework would report to the model and continue.
    """
    calls = _CALLS.get()
    if calls is not None and calls.cancelled:
        raise asyncio.CancelledError
    try:
        return calls_of(view_of(tool)).wait(
            tool.run(arguments) if calls is None else calls.run(tool, arguments)
        )
    except ToolbusError as error:
        return ToolResult.failure(str(error), sent=error.sent)
    except CancelledError:
        raise asyncio.CancelledError from None
