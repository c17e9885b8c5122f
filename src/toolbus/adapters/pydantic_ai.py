"""The tools and prompts of a bus for Pydantic AI: `Agent(model, toolsets=[toolset(bus)])`."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from toolbus.adapters.approval import ApprovalRule, NeedsApproval, check_rule, needs_approval
from toolbus.adapters.calls import facts, parsed, unseen
from toolbus.adapters.declared import declared, json_schema
from toolbus.adapters.extra import needs
from toolbus.adapters.media import PICTURES, SOUNDS, Document, documents, taken
from toolbus.adapters.prompts import SHOWN, Part, Turn, merged, turns
from toolbus.adapters.pydantic_ai_options import KEY, dialect_of, options_of, send_options
from toolbus.adapters.tool_list import Bus, Offer, Servers, Source, tools_of
from toolbus.bus.tool import Tool
from toolbus.core.records import JSON, PromptResult, Text, ToolResult
from toolbus.shape import Dialect, rendered_text

with needs("pydantic-ai"):
    from pydantic_ai import ApprovalRequired, BinaryContent, RunContext, ToolDefinition, ToolReturn
    from pydantic_ai.exceptions import ToolFailed
    from pydantic_ai.messages import ModelMessage, ModelRequest, ModelResponse, TextPart, UserPromptPart
    from pydantic_ai.toolsets import AbstractToolset, ToolsetTool

Content: TypeAlias = str | list[str | BinaryContent]
Partial: TypeAlias = bool | Literal["off", "on", "trailing-strings"]


def toolset(
    source: Source,
    servers: Servers = None,
    *,
    dialect: Dialect | None = None,
    approve: ApprovalRule[NeedsApproval] = "never",
    audio: bool = False,
    files: bool = False,
) -> "BusToolset":
    """The tools as they are at every step of a run, in the dialect of the run's model if none is given.

    `approve` says which calls end the run with `DeferredToolRequests` until a person agrees. Pictures are
    given to the model; `audio`, and `files` for PDFs, are for a model that takes these too.
    """
    check_rule(approve)
    return BusToolset(source, servers, dialect, ToolsetOptions(approve=approve, audio=audio, files=files))


def messages(prompt: PromptResult, *, audio: bool = False) -> list[ModelMessage]:
    """The messages of a prompt as the history of a run; `audio` is for a model that takes sound too."""
    return [*map(_message, merged(turns(prompt.messages, SHOWN | SOUNDS if audio else SHOWN)))]


def shown(part: Part) -> str | BinaryContent:
    """A part as a user's prompt holds it."""
    if isinstance(part, Text):
        return part.text
    name = part.name if isinstance(part, Document) else None
    return BinaryContent(part.data, media_type=part.mime_type, identifier=name)


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolsetOptions:
    """Whom to ask before a call, and what of its result to show."""

    approve: ApprovalRule[NeedsApproval] = "never"
    audio: bool = False
    files: bool = False


@dataclass(kw_only=True)
class BusTool(ToolsetTool[Any]):
    """A tool of one step of a run, with ours inside: wrappers may rename it on the way."""

    tool: Tool


class BusToolset(AbstractToolset[Any]):
    """A live catalog: the agent asks it for tools before every request to the model."""

    def __init__(
        self, source: Source, servers: Servers, dialect: Dialect | None, options: ToolsetOptions
    ) -> None:
        self._source: Source = source if isinstance(source, Bus) else list(source)
        self._servers = servers
        tools_of(self._source, servers)  # refuses a server that is not there
        self._dialect: Dialect | None = dialect
        self._options = options
        self._offers: dict[Dialect, Offer[tuple[Tool, ToolDefinition]]] = {}

    @property
    def id(self) -> str:
        """The same on every run, and other for other servers."""
        chosen = [self._servers] if isinstance(self._servers, str) else self._servers or ()
        return "-".join(["toolbus", *chosen])

    async def get_tools(self, ctx: RunContext[Any]) -> dict[str, ToolsetTool[Any]]:
        """What the catalog has now."""
        dialect: Dialect = self._dialect or dialect_of(ctx.model)
        if dialect not in self._offers:
            made = Offer(
                self._source, lambda tool: (tool, definition(tool, dialect)), self._servers, live=True
            )
            self._offers[dialect] = made
        self._offers[dialect].refresh()
        if any((said.metadata or {}).get(KEY) for _, said in self._offers[dialect]):
            send_options(ctx.model)
        return {
            said.name: BusTool(
                toolset=self,
                tool_def=said,
                max_retries=ctx.max_retries,
                args_validator=Arguments(tool),
                tool=tool,
            )
            for tool, said in self._offers[dialect]
        }

    async def call_tool(
        self, name: str, tool_args: dict[str, Any], ctx: RunContext[Any], tool: ToolsetTool[Any]
    ) -> ToolReturn[Any]:
        """Run the tool. What goes wrong is a failed result, which costs none of the tool's retries."""
        assert isinstance(tool, BusTool), f"{name!r} is not a tool of this toolset"
        ours = tool.tool
        if not ctx.tool_call_approved and needs_approval(ours.spec, self._options.approve):
            raise ApprovalRequired(metadata=facts(ours))
        result = await self.executed(ours, tool_args, ctx)
        return returned(result, facts(ours, result), self._options)

    async def executed(self, tool: Tool, arguments: dict[str, JSON], ctx: RunContext[Any]) -> ToolResult:
        """The result of one call."""
        return await tool.run(arguments)


def definition(tool: Tool, dialect: Dialect) -> ToolDefinition:
    """One tool as the framework declares it to a model."""
    said = declared(tool, dialect)
    # Where nothing is said, the framework would make the schema strict for OpenAI by rewriting it.
    loose = False if dialect.startswith("openai") else None
    return ToolDefinition(
        name=said.name,
        description=said.description,
        # The framework sends it to Google as JSON Schema, not as the `parameters` that the dialect is for.
        parameters_json_schema=json_schema(said.parameters) if dialect == "google" else said.parameters,
        strict=said.options.get("strict", loose),
        defer_loading=said.options.get("defer_loading") is True,
        metadata={**facts(tool), KEY: options_of(tool)},
    )


def returned(result: ToolResult, about: Mapping[str, JSON], options: ToolsetOptions) -> ToolReturn[Any]:
    """A result as the framework takes it; raises `ToolFailed` for one that is an error."""
    if result.is_error:
        raise ToolFailed(rendered_text(result))
    return ToolReturn(_content(result, options), metadata={**about, "content": unseen(result)})


class Arguments:
    """Takes whatever is an object: the bus mends and checks arguments, and says what is wrong with them."""

    def __init__(self, tool: Tool) -> None:
        self._tool = tool

    def validate_json(
        self,
        input: str | bytes | bytearray,  # noqa: A002  the framework's name for it
        *,
        allow_partial: Partial = False,
        **_: Any,
    ) -> dict[str, JSON]:
        """The object; ToolFailed for what is none, since a ValidationError would cost a retry."""
        given = parsed(input if isinstance(input, str) else input.decode(), self._tool)
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
        """The object as it is."""
        return dict(input)


def _content(result: ToolResult, options: ToolsetOptions) -> Content:
    types = PICTURES | SOUNDS if options.audio else PICTURES
    content = [*map(shown, (*taken(result, types), *(documents(result) if options.files else ())))]
    texts = [part for part in content if isinstance(part, str)]
    return "\n".join(texts) if len(texts) == len(content) else content


def _message(turn: Turn) -> ModelMessage:
    if turn.role == "assistant":
        return ModelResponse([TextPart(turn.text)])
    return ModelRequest([UserPromptPart(turn.text if turn.is_text else [*map(shown, turn.parts)])])
