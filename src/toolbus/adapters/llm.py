"""Tools and prompts for `llm`: `model.chain("...", tools=tools(bus))`, or in a terminal `llm -T Toolbus`."""

from collections.abc import Callable, Sequence
from typing import TypeAlias

from toolbus.adapters.approval import approval_request
from toolbus.adapters.media import IMAGE_TYPES, Document, Media, Part, attachments, prompt_turns
from toolbus.adapters.options import require_extra
from toolbus.adapters.tool_calls import definition_of
from toolbus.adapters.tool_list import Servers, ToolList, ToolSource, shown
from toolbus.bus.catalog.tool import Tool
from toolbus.bus.rules.scope import Names
from toolbus.bus.sync import SyncMcpConnection, SyncTool, SyncView
from toolbus.config.settings.expose import ExposeMode
from toolbus.core.ask.approval import Approval, ApprovalAnswer, ApprovalRequest
from toolbus.core.values.records import JSON, PromptResult, Text, ToolResult
from toolbus.shape import Dialect, rendered_text

with require_extra("llm"):
    import llm
    from llm.models import ToolDef
    from llm.parts import AttachmentPart, Message, TextPart

__all__ = ["messages", "tools"]

FACE = "llm"
Ask: TypeAlias = Callable[[ApprovalRequest], ApprovalAnswer]
"""Answers a question of the policy about a call."""


class ToolFailed(Exception):
    """A tool failed, or could not be called; the message is what the model reads."""


def tools(
    source: ToolSource,
    servers: Servers = None,
    *,
    images: bool = True,
    ask: Ask | None = None,
    dialect: Dialect = "openai",
    expose: ExposeMode | None = None,
    always: Names = None,
) -> ToolList[ToolDef]:
    """The tools for a chain of `llm.get_model` (with a SyncToolbus) or `llm.get_async_model`.

    The list is a snapshot; call `refresh()` to update it for the next chain. Results have their images as
    attachments; with `images=False`, a line of text describes each. If the policy asks about a call, `ask`
    answers in the thread of the call; without it, the bus asks its own `Interactions`.
    """
    waits = isinstance(source, SyncView | SyncMcpConnection) or (
        isinstance(source, Sequence) and any(isinstance(tool, SyncTool) for tool in source)
    )
    return ToolList(
        shown(source, expose, always),
        lambda tool: _llm_tool(tool, dialect, ask, images=images, waits=waits),
        servers,
        face=FACE,
    )


def messages(prompt: PromptResult) -> list[Message]:
    """The messages of a prompt, for `model.chain(messages=...)`; audio is described in text."""
    return [
        Message(role=turn.role, parts=[*map(_part, turn.parts)]) for turn in prompt_turns(prompt.messages)
    ]


def _llm_tool(tool: Tool, dialect: Dialect, ask: Ask | None, *, images: bool, waits: bool) -> llm.Tool:
    definition = definition_of(tool, dialect)

    def asked(arguments: dict[str, JSON]) -> Approval | None:
        request = None if ask is None else approval_request(tool, arguments)
        return None if ask is None or request is None else request.approved(FACE, ask(request))

    async def run(**arguments: JSON) -> llm.ToolOutput:
        return _output(await tool.run(arguments, approval=asked(arguments)), images)

    def run_sync(**arguments: JSON) -> llm.ToolOutput:
        return _output(tool.run_sync(arguments, approval=asked(arguments)), images)

    return llm.Tool(
        name=definition.name,
        description=definition.description,
        input_schema=definition.parameters,
        # llm runs a coroutine function in a loop of its own, which fails in a notebook.
        implementation=run_sync if waits else run,
    )


def _output(result: ToolResult, images: bool) -> llm.ToolOutput:
    text = rendered_text(result)
    if result.is_error:
        raise ToolFailed(text)
    shown = (
        [block for block in attachments(result, IMAGE_TYPES) if isinstance(block, Media)] if images else []
    )
    return llm.ToolOutput(output=text, attachments=[*map(_attachment, shown)])


def _attachment(block: Media | Document) -> llm.Attachment:
    return llm.Attachment(type=block.mime_type, content=block.data)


def _part(part: Part) -> TextPart | AttachmentPart:
    if isinstance(part, Text):
        return TextPart(text=part.text)
    return AttachmentPart(attachment=_attachment(part))
