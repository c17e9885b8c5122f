"""Tools and prompts for LangChain and LangGraph: `create_agent(model, tools(bus))`."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeAlias

from pydantic import PrivateAttr

from toolbus.adapters.approval import AskedCalls, approval_metadata, approval_of
from toolbus.adapters.media import Document, Part, PromptTurn, base64_data, model_blocks, prompt_turns
from toolbus.adapters.options import require_extra
from toolbus.adapters.tool_calls import definition_of, hidden_blocks, parse_arguments, tool_metadata
from toolbus.adapters.tool_list import Bus, Servers, ToolList, ToolSource, shown
from toolbus.bus.catalog.tool import Tool
from toolbus.bus.rules.scope import Names
from toolbus.config.settings.expose import ExposeMode
from toolbus.core.ask.approval import Approval
from toolbus.core.values.records import JSON, PromptResult, Text, ToolResult
from toolbus.shape import Dialect, rendered_text

with require_extra("langchain"):
    from langchain.agents.middleware import (
        AgentMiddleware,
        AgentState,
        ModelRequest,
        ModelResponse,
        hook_config,
    )
    from langchain_core.language_models import BaseChatModel
    from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, InvalidToolCall, ToolMessage
    from langchain_core.tools import StructuredTool, ToolException
    from langgraph.config import get_config
    from langgraph.prebuilt.tool_node import ToolCallRequest
    from langgraph.types import Command, interrupt

__all__ = ["live", "messages", "tools"]

Content: TypeAlias = str | list[str | dict[Any, JSON]]
ToolOutput: TypeAlias = ToolMessage | Command[Any]
# Dialects that LangChain's models pass on unchanged.
_NATIVE_DIALECTS: tuple[Dialect, ...] = ("openai", "openai-strict", "openai-responses", "anthropic")


def tools(
    source: ToolSource,
    servers: Servers = None,
    *,
    dialect: Dialect = "openai",
    expose: ExposeMode | None = None,
    always: Names = None,
) -> ToolList["BusTool"]:
    """The tools, for `ainvoke` and `invoke`; a message's artifact holds what the model does not see.

    LangChain passes a schema to its model nearly unchanged, so set `dialect` to the model's provider. An
    agent keeps the tools it was built with; use `live` for a catalog that changes.
    """
    return ToolList(
        shown(source, expose, always),
        lambda tool: structured_tool(tool, dialect=dialect),
        servers,
        face=_FACE,
    )


def live(
    bus: Bus,
    servers: Servers = None,
    *,
    dialect: Dialect = "openai",
    expose: ExposeMode | None = None,
    always: Names = None,
) -> "LiveTools":
    """Middleware that updates the tools every turn: `create_agent(model, middleware=[live(bus)])`."""
    return LiveTools(
        ToolList(
            shown(bus, expose, always),
            lambda tool: structured_tool(tool, dialect=dialect),
            servers,
            face=_FACE,
            live=True,
        )
    )


def messages(prompt: PromptResult) -> list[AnyMessage]:
    """The messages of a prompt; images and PDFs are content blocks, audio is described in text."""
    return [*map(_message, prompt_turns(prompt.messages))]


def structured_tool(tool: Tool, *, dialect: Dialect = "openai") -> "BusTool":
    """One tool."""
    definition = definition_of(tool, dialect)
    converted = BusTool(
        name=definition.name,
        description=definition.description,
        args_schema=definition.parameters,
        coroutine=tool.execute,
        response_format="content_and_artifact",
        metadata=tool_metadata(tool),
        extras=definition.options or None,
        handle_tool_error=_error_content,
    )
    return converted.bind_tool(tool, dialect)


class BusTool(StructuredTool):
    """A structured tool with arguments of any name: LangChain's own would keep `config` for itself."""

    _tool: Tool = PrivateAttr()
    _dialect: Dialect = PrivateAttr()

    def bind_tool(self, tool: Tool, dialect: Dialect) -> "BusTool":
        """Set the tool to run, and return self."""
        self._tool, self._dialect = tool, dialect
        return self

    def for_request(self) -> "BusTool | dict[str, JSON]":
        """The tool, or its provider definition if it has options: LangChain drops most of them."""
        if self.extras is None or self._dialect not in _NATIVE_DIALECTS:
            return self
        return self._tool.definition(self._dialect)

    async def _arun(self, /, *args: Any, **kwargs: Any) -> tuple[Content, dict[str, JSON]]:
        approval = _approval_by_interrupt(self._tool, kwargs)
        return _content_and_artifact(self._tool, await self._tool.run(kwargs, approval=approval))

    def _run(self, /, *args: Any, **kwargs: Any) -> tuple[Content, dict[str, JSON]]:
        approval = _approval_by_interrupt(self._tool, kwargs)
        return _content_and_artifact(self._tool, self._tool.run_sync(kwargs, approval=approval))


class LiveTools(AgentMiddleware[Any, Any, Any]):
    """Offers and runs the tools of a catalog that may change while the agent runs."""

    def __init__(self, tools: ToolList[BusTool]) -> None:
        super().__init__()
        self._tools = tools
        self._agent_tools: list[str] = []
        """The names of the agent's own tools."""

    def wrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], ModelResponse[Any]]
    ) -> ModelResponse[Any]:
        """Offer the current tools to the model."""
        return handler(self._with_tools(request))

    async def awrap_model_call(
        self,
        request: ModelRequest[Any],
        handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]],
    ) -> ModelResponse[Any]:
        """Offer the current tools to the model."""
        return await handler(self._with_tools(request))

    @hook_config(can_jump_to=["model"])
    def after_model(self, state: AgentState[Any], runtime: Any) -> dict[str, Any] | None:
        """Report calls with invalid JSON to the model; LangChain would silently end the run."""
        message = state["messages"][-1]
        if not isinstance(message, AIMessage) or not message.invalid_tool_calls:
            return None
        update: dict[str, Any] = {"messages": [*map(_invalid_call_message, message.invalid_tool_calls)]}
        return update if message.tool_calls else {**update, "jump_to": "model"}

    def wrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], ToolOutput]
    ) -> ToolOutput:
        """Run a tool that the agent itself does not know."""
        found = self._with_tool(request)
        return found if isinstance(found, ToolMessage) else handler(found)

    async def awrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Awaitable[ToolOutput]]
    ) -> ToolOutput:
        """Run a tool that the agent itself does not know."""
        found = self._with_tool(request)
        return found if isinstance(found, ToolMessage) else await handler(found)

    def _with_tools(self, request: ModelRequest[Any]) -> ModelRequest[Any]:
        self._tools.refresh()
        # The agent's own tools win where names are the same.
        own = {tool.get("name") if isinstance(tool, dict) else tool.name for tool in request.tools}
        self._agent_tools = sorted(filter(None, own))
        return request.override(
            messages=_with_images_moved(request.model, request.messages),
            tools=[*request.tools, *(tool.for_request() for tool in self._tools if tool.name not in own)],
        )

    def _with_tool(self, request: ToolCallRequest) -> ToolCallRequest | ToolMessage:
        """The request with its tool, or an error message for the model if there is none."""
        if request.tool is not None:
            return request
        name = request.tool_call["name"]
        found = next((tool for tool in self._tools if tool.name == name), None)
        if found is not None:
            return request.override(tool=found)
        missing = self._tools.missing(name, [*self._agent_tools, *(tool.name for tool in self._tools)])
        return _error_message(request.tool_call["id"], name, ToolResult.failure(str(missing)))


class ToolCallFailed(ToolException):
    """A tool reported an error; the model gets its content."""

    def __init__(self, content: Content) -> None:
        self.content = content
        super().__init__(str(content))


def _error_content(error: ToolException) -> Content:
    return error.content if isinstance(error, ToolCallFailed) else str(error)


def _invalid_call_message(call: InvalidToolCall) -> ToolMessage:
    result = parse_arguments(call["args"])
    if not isinstance(result, ToolResult):  # LangChain has another reason
        result = ToolResult.failure(call["error"] or "the call cannot be parsed")
    return _error_message(call["id"], call["name"], result)


def _error_message(call: str | None, name: str | None, result: ToolResult) -> ToolMessage:
    return ToolMessage(rendered_text(result), tool_call_id=call or "", name=name, status="error")


def _content_and_artifact(tool: Tool, result: ToolResult) -> tuple[Content, dict[str, JSON]]:
    content = _blocks(model_blocks(result))
    if result.is_error:
        raise ToolCallFailed(content)
    # JSON values, which every checkpointer can store; content in the message is not repeated.
    return content, {**tool_metadata(tool, result), "content": hidden_blocks(result)}


def _message(turn: PromptTurn) -> AnyMessage:
    if turn.role == "assistant":
        return AIMessage(turn.text)
    return HumanMessage(_blocks(turn.parts))


def _blocks(parts: Sequence[Part]) -> Content:
    match parts:
        case [Text(text=text)]:
            return text
        case _:
            return [*map(_block, parts)]


def _block(part: Part) -> dict[Any, JSON]:
    match part:
        case Text():
            return {"type": "text", "text": part.text}
        case Document():
            name = {"filename": part.name}  # required by OpenAI
            return {"type": "file", "base64": base64_data(part), "mime_type": part.mime_type, "extras": name}
        case _:
            return {"type": "image", "base64": base64_data(part), "mime_type": part.mime_type}


_Blocks = list[str | dict[Any, Any]]


def _with_images_moved(model: BaseChatModel, messages: list[AnyMessage]) -> list[AnyMessage]:
    """The messages as the model's provider accepts them.

    Tool messages of OpenAI's Chat Completions API hold only text, yet LangChain puts images there. They are
    moved into a user message, which the Responses API also accepts. Other providers accept images in tool
    messages.
    """
    if "openai" not in model._llm_type or getattr(model, "use_responses_api", None) is True:  # pyright: ignore[reportPrivateUsage]  the only name of its kind
        return messages
    moved: list[AnyMessage] = []
    pending: _Blocks = []
    for message in messages:
        if pending and not isinstance(message, ToolMessage):
            moved.append(HumanMessage(pending))
            pending = []
        if isinstance(message, ToolMessage) and (images := [*filter(_is_image, message.content)]):
            pending += [_text(f"From the result of {message.name} ({message.tool_call_id}):"), *images]
            message = message.model_copy(update={"content": [*map(_described, message.content)]})
        moved.append(message)
    return [*moved, HumanMessage(pending)] if pending else moved


def _is_image(block: str | dict[Any, Any]) -> bool:
    return isinstance(block, dict) and block.get("type") == "image"


def _described(block: str | dict[Any, Any]) -> str | dict[Any, Any]:
    if not isinstance(block, dict) or not _is_image(block):
        return block
    return _text(f"[image: {block.get('mime_type')}, in the next message]")


def _text(text: str) -> dict[Any, Any]:
    """A part of content; LangChain passes a bare string on, which OpenAI rejects."""
    return {"type": "text", "text": text}


_FACE = "langchain"
# LangGraph has no public name for it. Without it, nobody is asked here, and the guard of the bus decides.
_CHECKPOINTER = "__pregel_checkpointer"
_ASKED = AskedCalls()


def _approval_by_interrupt(tool: Tool, arguments: Mapping[str, JSON]) -> Approval | None:
    """The answer about a call, if the policy asks and the graph can wait; first, it interrupts the graph.

    The result of the graph has the question under `__interrupt__`. It continues with
    `Command(resume=answer)`: `"once"`, `"session"`, `"always"`, `"never"`, False, or a reason for a denial.
    """
    task = _resumable_task()
    if task is None:
        return None
    # A resumed graph runs the tool again, up to here; the person was asked the first time.
    request = _ASKED.ask(task, tool, arguments, again=True)
    if request is None:
        return None
    about: dict[str, JSON] = {"server": tool.server, "tool": tool.origin.tool, "name": tool.name}
    answer: Any = interrupt({**about, **approval_metadata(request)})
    return approval_of(tool, arguments, _FACE, asked=_ASKED.find(task, tool), answer=answer)


def _resumable_task() -> str | None:
    """The task of the graph that runs the tool; None without a graph, or if it has no checkpointer."""
    try:
        config: Mapping[str, Any] = get_config().get("configurable", {})
    except RuntimeError:  # not in a graph
        return None
    return f"{config.get('thread_id')} {config.get('checkpoint_ns')}" if config.get(_CHECKPOINTER) else None
