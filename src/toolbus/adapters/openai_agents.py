"""The tools and prompts of a bus for the OpenAI Agents SDK: `Agent(tools=tools(bus))`."""

from typing import Any, TypeAlias

from toolbus.adapters import openai
from toolbus.adapters.approval import ApprovalRule, NeedsApproval, needs_approval
from toolbus.adapters.calls import executed, facts
from toolbus.adapters.extra import needs
from toolbus.adapters.media import data_url, documents, taken
from toolbus.adapters.tool_list import Offer, Servers, Source
from toolbus.bus.tool import Tool
from toolbus.core.records import JSON, PromptResult, Text, ToolResult

with needs("openai-agents"):
    from agents import (
        FunctionTool,
        ToolOutputFileContent,
        ToolOutputImage,
        ToolOutputText,
        TResponseInputItem,
    )
    from agents import Tool as AgentTool
    from agents.tool import FunctionToolCustomDataContext
    from agents.tool_context import ToolContext

WAITING = 100
"""Results of one tool that may wait for their custom data to be asked for."""
Output: TypeAlias = ToolOutputText | ToolOutputImage | ToolOutputFileContent


def tools(
    source: Source,
    servers: Servers = None,
    *,
    approve: ApprovalRule[NeedsApproval] = "never",
    follow: bool = False,
) -> Offer[AgentTool]:
    """The tools as `FunctionTool`; `approve` says which interrupt the run until a person agrees.

    With `follow` the list changes with the catalog, also in mid-run. Where runs overlap the SDK then wants
    an agent for each, `agent.clone(tools=tools(bus, follow=True))`: it fails runs that share a list which
    changes. Without it, `refresh()` brings the list up to date.
    """
    return Offer(source, lambda tool: function_tool(tool, approve=approve), servers, follow=follow)


def messages(prompt: PromptResult) -> list[TResponseInputItem]:
    """The messages of a prompt as the input of a run; sound is described in words."""
    return openai.messages(prompt, dialect="openai-responses")


def function_tool(tool: Tool, *, approve: ApprovalRule[NeedsApproval] = "never") -> FunctionTool:
    """One tool. The output items of a run carry server, annotations and structured content as custom data."""
    definition = tool.definition("openai-responses")
    results: dict[str, ToolResult] = {}

    async def invoke(context: ToolContext[Any], arguments: str) -> Any:
        result = results[context.tool_call_id] = await executed(tool, arguments)
        if len(results) > WAITING:
            del results[next(iter(results))]  # a realtime session never asks for them
        return _output(result)

    def custom_data(context: FunctionToolCustomDataContext) -> dict[str, JSON]:
        return facts(tool, results.pop(context.tool_context.tool_call_id, None))

    return FunctionTool(
        name=definition["name"],
        description=definition["description"],
        params_json_schema=definition["parameters"],
        on_invoke_tool=invoke,
        strict_json_schema=definition["strict"],
        needs_approval=needs_approval(tool.spec, approve),
        custom_data_extractor=custom_data,
        defer_loading=definition.get("defer_loading", False),
    )


def _output(result: ToolResult) -> str | list[Output]:
    shown: list[Output] = [
        ToolOutputText(text=block.text)
        if isinstance(block, Text)
        else ToolOutputImage(image_url=data_url(block))
        for block in taken(result)
    ]
    shown += [
        ToolOutputFileContent(file_data=data_url(document), filename=document.name)
        for document in documents(result)
    ]
    match shown:
        case [ToolOutputText(text=text)]:
            return text
        case _:
            return shown
