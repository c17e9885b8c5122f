"""Tools and prompts for LlamaIndex: `FunctionAgent(llm=llm, tools=tools(bus))`."""

import json
from collections.abc import Collection
from copy import deepcopy
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from toolbus.adapters.approval import (
    ApprovalRule,
    NeedsApproval,
    approval_metadata,
    approval_request,
    may_ask,
    needs_approval,
)
from toolbus.adapters.media import IMAGE_TYPES, Document, Part, attachments, prompt_turns
from toolbus.adapters.options import require_extra
from toolbus.adapters.tool_calls import definition_of, hidden_blocks, tool_metadata
from toolbus.adapters.tool_list import Servers, ToolList, ToolSource, shown
from toolbus.bus.catalog.tool import Tool
from toolbus.bus.rules.scope import Names
from toolbus.config.settings.expose import ExposeMode
from toolbus.core.ask.approval import ApprovalAnswer, ApprovalRequest, is_approval
from toolbus.core.values.records import JSON, PromptResult, Text, ToolResult
from toolbus.shape import Dialect, rendered_text

with require_extra("llama-index"):
    from llama_index.core.base.llms.types import ChatMessage, DocumentBlock, ImageBlock, TextBlock
    from llama_index.core.bridge.pydantic import BaseModel
    from llama_index.core.objects import ObjectRetriever
    from llama_index.core.schema import QueryType
    from llama_index.core.tools import BaseTool, FunctionTool, ToolMetadata, ToolOutput
    from llama_index.core.workflow import Context, HumanResponseEvent, InputRequiredEvent

__all__ = ["live", "messages", "tools"]

FACE = "llama-index"
# The argument in which LlamaIndex passes its context; a model never writes an argument of that name.
_CONTEXT = "context of the workflow"
# Dialects whose models accept a PDF in the output of a tool.
_PDF_DIALECTS: Collection[Dialect] = ("openai-responses", "anthropic", "google")


def tools(
    source: ToolSource,
    servers: Servers = None,
    *,
    approve: ApprovalRule[NeedsApproval] = "never",
    dialect: Dialect = "openai",
    expose: ExposeMode | None = None,
    always: Names = None,
) -> ToolList[BaseTool]:
    """The tools, for an agent or for `llm.predict_and_call`.

    The policy of the bus decides which calls need approval; `approve` may add more. LlamaIndex passes a
    schema to its model nearly unchanged, so set `dialect` to the model's provider: `openai-responses` for
    `OpenAIResponses`. An agent keeps the tools it was built with; use `live` for a catalog that changes.
    """
    return ToolList(
        shown(source, expose, always),
        lambda tool: BusTool(tool, approve=approve, dialect=dialect),
        servers,
        face=FACE,
    )


def live(
    source: ToolSource,
    servers: Servers = None,
    *,
    approve: ApprovalRule[NeedsApproval] = "never",
    dialect: Dialect = "openai",
    expose: ExposeMode | None = None,
    always: Names = None,
) -> "LiveTools":
    """A retriever that updates the tools every turn: `FunctionAgent(tool_retriever=live(bus))`."""
    convert = partial(BusTool, approve=approve, dialect=dialect)
    return LiveTools(ToolList(shown(source, expose, always), convert, servers, face=FACE, live=True))


def messages(prompt: PromptResult) -> list[ChatMessage]:
    """The messages of a prompt, for the `chat_history` of a run; audio is described in text."""
    return [
        ChatMessage(role=turn.role, blocks=[*map(_block, turn.parts)])
        for turn in prompt_turns(prompt.messages)
    ]


@dataclass
class BusMetadata(ToolMetadata):
    """Keeps the whole schema; LlamaIndex's own class keeps only five keywords."""

    parameters: dict[str, JSON] = field(default_factory=dict[str, JSON])
    options: dict[str, JSON] = field(default_factory=dict[str, JSON])
    about: dict[str, JSON] = field(default_factory=dict[str, JSON])
    """The server, its own name for the tool, and the annotations."""

    def get_parameters_dict(self) -> dict[str, JSON]:
        """A copy of the schema, because some clients write to it."""
        return deepcopy(self.parameters)

    def to_openai_tool(self, skip_length_check: bool = False) -> dict[str, JSON]:
        """The tool in OpenAI's format."""
        tool = super().to_openai_tool(skip_length_check)
        return {**tool, "function": {**tool["function"], **self.options}}


class BusTool(FunctionTool):
    """One tool, with arguments of any name."""

    def __init__(
        self, tool: Tool, *, approve: ApprovalRule[NeedsApproval] = "never", dialect: Dialect = "openai"
    ) -> None:
        definition = definition_of(tool, dialect)
        parameters: dict[str, JSON] = {"properties": {}, **definition.parameters}  # LlamaIndex counts them
        metadata = BusMetadata(
            name=definition.name,
            description=definition.description,
            fn_schema=_model(parameters),
            parameters=parameters,
            options=definition.options,
            about=tool_metadata(tool),
        )
        super().__init__(async_fn=tool.execute, metadata=metadata)
        self._tool = tool
        self._names: list[str] = list(parameters["properties"])
        self._dialect: Dialect = dialect
        self._asks = needs_approval(tool, approve)
        self.requires_context = self._asks or may_ask(tool)
        self.ctx_param_name = _CONTEXT if self.requires_context else None

    # Positional-only, so that a tool may have an argument called "self".
    def __call__(self, /, *args: Any, **kwargs: Any) -> ToolOutput:
        return self.call(*args, **kwargs)

    def call(self, /, *args: Any, **kwargs: Any) -> ToolOutput:
        """Run the tool from a thread without a loop; `approve` denies a call there that it asks about."""
        named = self._named(args, kwargs)
        return self._output(named, self._denial if self._asks else self._tool.execute_sync(**named))

    async def acall(self, /, *args: Any, **kwargs: Any) -> ToolOutput:
        """Run the tool, after approval if the call needs it."""
        context: Context[Any] | None = kwargs.pop(_CONTEXT, None)
        named = self._named(args, kwargs)
        return self._output(named, await self._run_approved(named, context))

    async def _run_approved(self, arguments: dict[str, JSON], context: Context[Any] | None) -> ToolResult:
        request = approval_request(self._tool, arguments)
        if context is None or not (self._asks or request):
            return self._denial if self._asks else await self._tool.run(arguments)
        answer = await _answer(context, self._tool, arguments, request)
        if request is None and not is_approval(answer):
            return self._denial
        # The guard of the bus takes the answer to its policy, also a denial.
        return await self._tool.run(arguments, approval=request and request.approved(FACE, answer))

    def _named(self, args: tuple[JSON, ...], kwargs: dict[str, JSON]) -> dict[str, JSON]:
        """The arguments by name; LlamaIndex passes a single one by position."""
        return {**dict(zip(self._names, args, strict=False)), **kwargs}

    @property
    def _denial(self) -> ToolResult:
        reason = f"{self._tool.name} was not run: the call was not approved"
        return ToolResult(content=(Text(text=reason),), is_error=True)

    def _output(self, arguments: dict[str, JSON], result: ToolResult) -> ToolOutput:
        # The text marks where each file was, for clients that drop files in a tool's output.
        blocks: list[Any] = [TextBlock(text=rendered_text(result))]
        types = IMAGE_TYPES - {"image/gif"} if self._dialect == "google" else IMAGE_TYPES
        for block in attachments(result, types):
            if not isinstance(block, Document) or self._dialect in _PDF_DIALECTS:
                blocks.append(_block(block))
        return ToolOutput(
            tool_name=self.metadata.get_name(),
            blocks=blocks,
            raw_input=arguments,
            raw_output={**tool_metadata(self._tool, result), "content": hidden_blocks(result)},
            is_error=result.is_error,
        )


class LiveTools(ObjectRetriever[BaseTool]):
    """Returns all tools of the catalog at every turn, whatever the query."""

    def __init__(self, tools: ToolList[BaseTool]) -> None:
        # Without super().__init__(), which requires an index of the tools.
        self._tools = tools

    def retrieve(self, str_or_query_bundle: QueryType) -> list[BaseTool]:
        """The current tools."""
        self._tools.refresh()
        return list(self._tools)

    async def aretrieve(self, str_or_query_bundle: QueryType) -> list[BaseTool]:
        """The current tools."""
        return self.retrieve(str_or_query_bundle)


def _block(part: Part) -> TextBlock | ImageBlock | DocumentBlock:
    match part:
        case Text():
            return TextBlock(text=part.text)
        case Document():
            return DocumentBlock(data=part.data, title=part.name, document_mimetype=part.mime_type)
        case _:
            return ImageBlock(image=part.data, image_mimetype=part.mime_type)


def _model(parameters: dict[str, JSON]) -> type[BaseModel]:
    """A pydantic model with this schema, for clients that read the schema from a model."""

    class Arguments(BaseModel):
        @classmethod
        def model_json_schema(cls, *args: Any, **kwargs: Any) -> dict[str, Any]:
            return deepcopy(parameters)

    return Arguments


async def _answer(
    context: Context[Any], tool: Tool, arguments: dict[str, JSON], request: ApprovalRequest | None
) -> ApprovalAnswer:
    """Ask with LlamaIndex's events: the run continues after a response event with the same `call`."""
    call = f"{tool.name} {json.dumps(arguments, ensure_ascii=False, sort_keys=True)}"
    fields: dict[str, JSON] = {"call": call, "tool_name": tool.name, "tool_kwargs": arguments}
    fields["prefix"] = f"Allow this call? {call} "
    fields |= approval_metadata(request)
    question = InputRequiredEvent(**fields)
    response = await context.wait_for_event(
        HumanResponseEvent, waiter_event=question, requirements={"call": call}
    )
    said = str(response.get("response", "")).strip()
    return {"y": True, "yes": True, "n": False, "no": False}.get(said.lower(), said)
