"""The tools and prompts of a bus for LlamaIndex: `FunctionAgent(llm=llm, tools=tools(bus))`."""

import json
from collections.abc import Collection
from copy import deepcopy
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from toolbus.adapters.approval import ApprovalRule, NeedsApproval, needs_approval
from toolbus.adapters.calls import facts, unseen
from toolbus.adapters.declared import declared
from toolbus.adapters.extra import needs
from toolbus.adapters.media import PICTURES, Document, attached
from toolbus.adapters.prompts import Part, turns
from toolbus.adapters.tool_list import Offer, Servers, Source
from toolbus.bus.tool import Tool
from toolbus.core.records import JSON, PromptResult, Text, ToolResult
from toolbus.shape import Dialect, rendered_text

with needs("llama-index"):
    from llama_index.core.base.llms.types import ChatMessage, DocumentBlock, ImageBlock, TextBlock
    from llama_index.core.bridge.pydantic import BaseModel
    from llama_index.core.objects import ObjectRetriever
    from llama_index.core.schema import QueryType
    from llama_index.core.tools import BaseTool, FunctionTool, ToolMetadata, ToolOutput
    from llama_index.core.workflow import Context, HumanResponseEvent, InputRequiredEvent

# The argument by which LlamaIndex gives its context; no model makes one of that name.
_CONTEXT = "context of the workflow"
# Whose models take a PDF within the output of a tool.
_READ_FILES: Collection[Dialect] = ("openai-responses", "anthropic", "google")


def tools(
    source: Source,
    servers: Servers = None,
    *,
    approve: ApprovalRule[NeedsApproval] = "never",
    dialect: Dialect = "openai",
) -> Offer[BaseTool]:
    """The tools, for an agent or for `llm.predict_and_call`; `approve` says which a person is asked for.

    LlamaIndex gives a schema to its model nearly as it is: `dialect` is the one of the model's provider,
    `openai-responses` for `OpenAIResponses`. An agent keeps the tools it is made with; `live` is for a
    catalog that changes.
    """
    return Offer(source, lambda tool: BusTool(tool, approve=approve, dialect=dialect), servers)


def live(
    source: Source,
    servers: Servers = None,
    *,
    approve: ApprovalRule[NeedsApproval] = "never",
    dialect: Dialect = "openai",
) -> "LiveTools":
    """For `FunctionAgent(tool_retriever=live(bus))`: the tools as they are at every turn."""
    made = partial(BusTool, approve=approve, dialect=dialect)
    return LiveTools(Offer(source, made, servers, live=True))


def messages(prompt: PromptResult) -> list[ChatMessage]:
    """The messages of a prompt, as the `chat_history` of a run; sound is described in words."""
    return [ChatMessage(role=turn.role, blocks=[*map(_block, turn.parts)]) for turn in turns(prompt.messages)]


@dataclass
class BusMetadata(ToolMetadata):
    """Gives the schema as it is; LlamaIndex's own keeps five keywords of a model's."""

    parameters: dict[str, JSON] = field(default_factory=dict[str, JSON])
    options: dict[str, JSON] = field(default_factory=dict[str, JSON])
    about: dict[str, JSON] = field(default_factory=dict[str, JSON])
    """Server, the server's own name of the tool, annotations."""

    def get_parameters_dict(self) -> dict[str, JSON]:
        """The schema; yours, as some clients write into it."""
        return deepcopy(self.parameters)

    def to_openai_tool(self, skip_length_check: bool = False) -> dict[str, JSON]:
        """The tool as OpenAI takes it."""
        made = super().to_openai_tool(skip_length_check)
        return {**made, "function": {**made["function"], **self.options}}


class BusTool(FunctionTool):
    """One tool, whose arguments may have any name."""

    def __init__(
        self, tool: Tool, *, approve: ApprovalRule[NeedsApproval] = "never", dialect: Dialect = "openai"
    ) -> None:
        said = declared(tool, dialect)
        parameters: dict[str, JSON] = {"properties": {}, **said.parameters}  # LlamaIndex counts them
        metadata = BusMetadata(
            name=said.name,
            description=said.description,
            fn_schema=_model(parameters),
            parameters=parameters,
            options=said.options,
            about=facts(tool),
        )
        super().__init__(async_fn=tool.execute, metadata=metadata)
        self._tool = tool
        self._names: list[str] = list(parameters["properties"])
        self._dialect: Dialect = dialect
        self.requires_context = needs_approval(tool.spec, approve)
        self.ctx_param_name = _CONTEXT if self.requires_context else None

    # Positional-only, so that a tool may have an argument called "self".
    def __call__(self, /, *args: Any, **kwargs: Any) -> ToolOutput:
        return self.call(*args, **kwargs)

    def call(self, /, *args: Any, **kwargs: Any) -> ToolOutput:
        """Run it from a thread without a loop; not what a person is asked for, as nobody can be asked."""
        given = self._given(args, kwargs)
        refused = self.requires_context
        return self._output(given, self._refusal if refused else self._tool.execute_sync(**given))

    async def acall(self, /, *args: Any, **kwargs: Any) -> ToolOutput:
        """Run it, after a person was asked if that is wanted."""
        context: Context[Any] | None = kwargs.pop(_CONTEXT, None)
        given = self._given(args, kwargs)
        refused = self.requires_context and (context is None or not await _agreed(context, self._tool, given))
        return self._output(given, self._refusal if refused else await self._tool.execute(**given))

    def _given(self, args: tuple[JSON, ...], kwargs: dict[str, JSON]) -> dict[str, JSON]:
        """The arguments by their names; LlamaIndex gives an only one without."""
        return {**dict(zip(self._names, args, strict=False)), **kwargs}

    @property
    def _refusal(self) -> ToolResult:
        why = f"{self._tool.name} was not run: the call was not approved"
        return ToolResult(content=(Text(text=why),), is_error=True)

    def _output(self, arguments: dict[str, JSON], result: ToolResult) -> ToolOutput:
        # The text says where each medium stood, for clients that leave it out of a tool's output.
        blocks: list[Any] = [TextBlock(text=rendered_text(result))]
        types = PICTURES - {"image/gif"} if self._dialect == "google" else PICTURES
        for block in attached(result, types):
            if not isinstance(block, Document) or self._dialect in _READ_FILES:
                blocks.append(_block(block))
        return ToolOutput(
            tool_name=self.metadata.get_name(),
            blocks=blocks,
            raw_input=arguments,
            raw_output={**facts(self._tool, result), "content": unseen(result)},
            is_error=result.is_error,
        )


class LiveTools(ObjectRetriever[BaseTool]):
    """Asked for its tools at every turn; gives all that the catalog has then, whatever the question is."""

    def __init__(self, offer: Offer[BaseTool]) -> None:
        # Not the base's, which wants an index of nodes that stand for tools.
        self._offer = offer

    def retrieve(self, str_or_query_bundle: QueryType) -> list[BaseTool]:
        """The tools that there are now."""
        self._offer.refresh()
        return list(self._offer)

    async def aretrieve(self, str_or_query_bundle: QueryType) -> list[BaseTool]:
        """The tools that there are now."""
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
    """For clients that ask a model for its schema."""

    class Arguments(BaseModel):
        @classmethod
        def model_json_schema(cls, *args: Any, **kwargs: Any) -> dict[str, Any]:
            return deepcopy(parameters)

    return Arguments


async def _agreed(context: Context[Any], tool: Tool, arguments: dict[str, JSON]) -> bool:
    """Ask in the way of LlamaIndex: the run goes on when an answer with the same `call` has come."""
    call = f"{tool.name} {json.dumps(arguments, ensure_ascii=False, sort_keys=True)}"
    about: dict[str, JSON] = {"call": call, "tool_name": tool.name, "tool_kwargs": arguments}
    about["prefix"] = f"Allow this call? {call} "
    question = InputRequiredEvent(**about)
    answer = await context.wait_for_event(
        HumanResponseEvent, waiter_event=question, requirements={"call": call}
    )
    return str(answer.get("response", "")).strip().lower() in ("y", "yes")
