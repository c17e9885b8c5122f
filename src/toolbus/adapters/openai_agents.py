"""Tools and prompts for the OpenAI Agents SDK: `Agent(tools=tools(bus))`."""

from typing import Any, TypeAlias

from toolbus.adapters import openai
from toolbus.adapters.approval import ApprovalRule, AskedCalls, NeedsApproval, may_ask, needs_approval
from toolbus.adapters.media import data_url, model_blocks, pdf_documents
from toolbus.adapters.options import require_extra
from toolbus.adapters.tool_calls import run_tool, tool_metadata
from toolbus.adapters.tool_list import Servers, ToolList, ToolSource, shown
from toolbus.bus.catalog.tool import Tool
from toolbus.bus.rules.scope import Names
from toolbus.config.settings.expose import ExposeMode
from toolbus.core.values.records import JSON, PromptResult, Text, ToolResult

with require_extra("openai-agents"):
    from agents import (
        FunctionTool,
        RunContextWrapper,
        ToolOutputFileContent,
        ToolOutputImage,
        ToolOutputText,
        TResponseInputItem,
    )
    from agents import Tool as AgentTool
    from agents.tool import FunctionToolCustomDataContext
    from agents.tool_context import ToolContext

__all__ = ["messages", "tools"]

FACE = "openai-agents"
MAX_UNREAD_RESULTS = 100
"""Results of one tool to keep until the SDK reads their custom data."""
_ASKED = AskedCalls()
Output: TypeAlias = ToolOutputText | ToolOutputImage | ToolOutputFileContent


def tools(
    source: ToolSource,
    servers: Servers = None,
    *,
    approve: ApprovalRule[NeedsApproval] = "never",
    follow: bool = False,
    expose: ExposeMode | None = None,
    always: Names = None,
) -> ToolList[AgentTool]:
    """The tools as `FunctionTool`; a call that needs approval interrupts the run until it has it.

    The policy of the bus says which calls do; `approve` may name more.
    With `follow` the list changes with the catalog, even during a run. Concurrent runs then need one agent
    each, `agent.clone(tools=tools(bus, follow=True))`: the SDK fails runs that share a changing list. Without
    `follow`, call `refresh()` to update the list.
    """
    return ToolList(
        shown(source, expose, always),
        lambda tool: function_tool(tool, approve=approve),
        servers,
        face=FACE,
        follow=follow,
    )


def messages(prompt: PromptResult) -> list[TResponseInputItem]:
    """The messages of a prompt, as input for a run; audio is described in text."""
    return openai.messages(prompt, dialect="openai-responses")


def function_tool(tool: Tool, *, approve: ApprovalRule[NeedsApproval] = "never") -> FunctionTool:
    """One tool. Output items of a run have the server, annotations and structured content as custom data."""
    definition = tool.definition("openai-responses")
    results: dict[str, ToolResult] = {}

    async def asks(context: RunContextWrapper[Any], arguments: dict[str, JSON], call: str) -> bool:
        return _ASKED.ask(call, tool, arguments) is not None

    async def invoke(context: ToolContext[Any], arguments: str) -> Any:
        asked = _ASKED.find(context.tool_call_id, tool)
        result = await run_tool(tool, arguments, FACE if _is_approved(context) else None, asked)
        results[context.tool_call_id] = result
        if len(results) > MAX_UNREAD_RESULTS:
            del results[next(iter(results))]  # a realtime session never reads them
        return _output(result)

    def custom_data(context: FunctionToolCustomDataContext) -> dict[str, JSON]:
        return tool_metadata(tool, results.pop(context.tool_context.tool_call_id, None))

    return FunctionTool(
        name=definition["name"],
        description=definition["description"],
        params_json_schema=definition["parameters"],
        on_invoke_tool=invoke,
        strict_json_schema=definition["strict"],
        needs_approval=needs_approval(tool, approve) or (asks if may_ask(tool) else False),
        custom_data_extractor=custom_data,
        defer_loading=definition.get("defer_loading", False),
    )


def _is_approved(context: ToolContext[Any]) -> bool:
    """Whether a person approved the call, as the SDK has it; a host may run a tool without asking."""
    status = getattr(context, "is_tool_approved", None)  # a host may have a context of its own
    return callable(status) and status(context.tool_name, context.tool_call_id) is True


def _output(result: ToolResult) -> str | list[Output]:
    outputs: list[Output] = [
        ToolOutputText(text=block.text)
        if isinstance(block, Text)
        else ToolOutputImage(image_url=data_url(block))
        for block in model_blocks(result)
    ]
    outputs += [
        ToolOutputFileContent(file_data=data_url(document), filename=document.name)
        for document in pdf_documents(result)
    ]
    match outputs:
        case [ToolOutputText(text=text)]:
            return text
        case _:
            return outputs
