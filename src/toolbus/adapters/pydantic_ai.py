"""Tools and prompts for Pydantic AI: `Agent(model, toolsets=[toolset(bus)])`."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from toolbus.adapters.approval import (
    ApprovalRule,
    AskedCalls,
    NeedsApproval,
    approval_metadata,
    approval_of,
    check_rule,
    needs_approval,
)
from toolbus.adapters.media import (
    Document,
    Part,
    PromptTurn,
    merged_turns,
    model_blocks,
    prompt_turns,
)
from toolbus.adapters.options import AdapterOptions, require_extra
from toolbus.adapters.pydantic_ai_options import OPTIONS_KEY, dialect_of, options_of, send_options
from toolbus.adapters.tool_calls import (
    definition_of,
    hidden_blocks,
    json_schema,
    parse_arguments,
    tool_metadata,
)
from toolbus.adapters.tool_list import (
    Bus,
    Servers,
    ToolList,
    ToolSource,
    current_tools,
    shown,
)
from toolbus.bus.catalog.exposure import SEARCH
from toolbus.bus.catalog.tool import Tool
from toolbus.bus.rules.scope import Names
from toolbus.config.settings.expose import ExposeMode
from toolbus.core.ask.approval import Approval
from toolbus.core.values.records import JSON, PromptResult, Text, ToolResult
from toolbus.shape import Dialect, rendered_text

with require_extra("pydantic-ai"):
    from pydantic_ai import ApprovalRequired, BinaryContent, RunContext, ToolDefinition, ToolReturn
    from pydantic_ai.exceptions import ToolFailed
    from pydantic_ai.messages import ModelMessage, ModelRequest, ModelResponse, TextPart, UserPromptPart
    from pydantic_ai.toolsets import AbstractToolset, ToolsetTool

__all__ = ["messages", "toolset"]

FACE = "pydantic-ai"
_ASKED = AskedCalls()
Content: TypeAlias = str | list[str | BinaryContent]
Partial: TypeAlias = bool | Literal["off", "on", "trailing-strings"]


def toolset(
    source: ToolSource,
    servers: Servers = None,
    *,
    dialect: Dialect | None = None,
    approve: ApprovalRule[NeedsApproval] = "never",
    audio: bool = False,
    files: bool = False,
    expose: ExposeMode | None = None,
    always: Names = None,
) -> "BusToolset":
    """A toolset that updates its tools every step of a run; the default dialect fits the run's model.

    Calls selected by `approve` end the run with `DeferredToolRequests` until they are approved. The model
    gets images. If it also accepts audio or PDFs, set `audio` or `files`.
    """
    check_rule(approve)
    return BusToolset(
        shown(source, expose, always),
        servers,
        dialect,
        AdapterOptions(approve=approve, audio=audio, files=files),
    )


def messages(prompt: PromptResult, *, audio: bool = False) -> list[ModelMessage]:
    """The messages of a prompt, as the history of a run; set `audio` if the model accepts audio."""
    return [*map(_message, merged_turns(prompt_turns(prompt.messages, audio=audio)))]


def user_content(part: Part) -> str | BinaryContent:
    """A part as content of a user prompt."""
    if isinstance(part, Text):
        return part.text
    name = part.name if isinstance(part, Document) else None
    return BinaryContent(part.data, media_type=part.mime_type, identifier=name)


@dataclass(kw_only=True)
class BusTool(ToolsetTool[Any]):
    """A tool in one step of a run. It holds the bus's tool, because wrappers may rename this one."""

    tool: Tool
    approval: Approval | None = None
    """The approval of one call."""


class BusToolset(AbstractToolset[Any]):
    """A live catalog: the agent gets its tools before every model request."""

    def __init__(
        self,
        source: ToolSource,
        servers: Servers,
        dialect: Dialect | None,
        options: AdapterOptions,
        face: str = FACE,
    ) -> None:
        self._source: ToolSource = source if isinstance(source, Bus) else list(source)
        self._servers = servers
        current_tools(self._source, servers)  # raises for an unknown server
        self._dialect: Dialect | None = dialect
        self._options = options
        self._face = face
        self._tool_lists: dict[tuple[Dialect, bool], ToolList[tuple[Tool, ToolDefinition]]] = {}

    @property
    def id(self) -> str:
        """The same on every run, and different for different servers."""
        selected = [self._servers] if isinstance(self._servers, str) else self._servers or ()
        return "-".join(["toolbus", *selected])

    async def get_tools(self, ctx: RunContext[Any]) -> dict[str, ToolsetTool[Any]]:
        """The current tools of the catalog."""
        dialect: Dialect = self._dialect or dialect_of(ctx.model)
        loadable = self.loads_tools(ctx)
        if (dialect, loadable) not in self._tool_lists:
            self._tool_lists[dialect, loadable] = ToolList(
                self._source,
                lambda tool: (tool, tool_definition(tool, dialect)),
                self._servers,
                face=self._face,
                live=True,
                loadable=loadable,
            )
        tools = self._tool_lists[dialect, loadable]
        tools.refresh()
        if any((definition.metadata or {}).get(OPTIONS_KEY) for _, definition in tools):
            send_options(ctx.model)
        return {
            definition.name: BusTool(
                toolset=self,
                tool_def=definition,
                max_retries=ctx.max_retries,
                args_validator=ArgumentsValidator(tool),
                tool=tool,
            )
            for tool, definition in tools
            if not loadable or tool.spec.route != SEARCH  # the framework has its own
        }

    def loads_tools(self, ctx: RunContext[Any]) -> bool:
        """Whether the framework searches for tools with us, and the provider loads the found tools."""
        return False

    async def call_tool(
        self, name: str, tool_args: dict[str, Any], ctx: RunContext[Any], tool: ToolsetTool[Any]
    ) -> ToolReturn[Any]:
        """Run the tool. Failures are failed results, which do not use up the tool's retries."""
        assert isinstance(tool, BusTool), f"{name!r} is not a tool of this toolset"
        result = await self.run_tool(tool, tool_args, ctx)
        return tool_return(result, tool_metadata(tool.tool, result), self._options)

    async def run_tool(self, tool: BusTool, arguments: dict[str, JSON], ctx: RunContext[Any]) -> ToolResult:
        """Run one call; `ApprovalRequired` if a person has to approve it first."""
        called = tool.tool
        if ctx.tool_call_approved:
            asked = _ASKED.find(ctx.tool_call_id, called)
            return await called.run(arguments, approval=approval_of(called, arguments, FACE, asked=asked))
        question = _ASKED.ask(ctx.tool_call_id, called, arguments)
        if question is not None or needs_approval(called, self._options.approve, arguments):
            raise ApprovalRequired(metadata={**tool_metadata(called), **approval_metadata(question)})
        return await called.run(arguments)


def tool_definition(tool: Tool, dialect: Dialect) -> ToolDefinition:
    """One tool as the framework defines it for a model."""
    definition = definition_of(tool, dialect)
    # If unset, the framework would rewrite the schema to make it strict for OpenAI.
    default = False if dialect.startswith("openai") else None
    return ToolDefinition(
        name=definition.name,
        description=definition.description,
        # The framework sends JSON Schema to Google, not the `parameters` that the dialect is for.
        parameters_json_schema=json_schema(definition.parameters)
        if dialect == "google"
        else definition.parameters,
        strict=definition.options.get("strict", default),
        defer_loading=definition.options.get("defer_loading") is True,
        metadata={**tool_metadata(tool), OPTIONS_KEY: options_of(tool)},
    )


def tool_return(result: ToolResult, metadata: Mapping[str, JSON], options: AdapterOptions) -> ToolReturn[Any]:
    """A result in the framework's type; raises `ToolFailed` if it is an error."""
    if result.is_error:
        raise ToolFailed(rendered_text(result))
    return ToolReturn(_content(result, options), metadata={**metadata, "content": hidden_blocks(result)})


class ArgumentsValidator:
    """Accepts any object: the bus repairs and validates arguments, and reports what is wrong."""

    def __init__(self, tool: Tool) -> None:
        self._tool = tool

    def validate_json(
        self,
        input: str | bytes | bytearray,  # noqa: A002  the framework's name for it
        *,
        allow_partial: Partial = False,
        **_: Any,
    ) -> dict[str, JSON]:
        """The object; ToolFailed for anything else, because a ValidationError would use up a retry."""
        given = parse_arguments(input if isinstance(input, str) else input.decode(), self._tool)
        if isinstance(given, ToolResult):
            raise ToolFailed(rendered_text(given))
        return given

    def validate_python(
        self,
        input: Any,  # noqa: A002  the framework's name for it
        *,
        allow_partial: Partial = False,
        **_: Any,
    ) -> dict[str, JSON]:
        """The object, unchanged."""
        return dict(input)


def _content(result: ToolResult, options: AdapterOptions) -> Content:
    content = [*map(user_content, (*model_blocks(result, options.media_types), *options.documents(result)))]
    texts = [part for part in content if isinstance(part, str)]
    return "\n".join(texts) if len(texts) == len(content) else content


def _message(turn: PromptTurn) -> ModelMessage:
    if turn.role == "assistant":
        return ModelResponse([TextPart(turn.text)])
    return ModelRequest([UserPromptPart(turn.text if turn.is_text else [*map(user_content, turn.parts)])])
