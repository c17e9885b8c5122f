"""The tools and prompts of a bus for LangChain and LangGraph: `create_agent(model, tools(bus))`."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeAlias

from pydantic import PrivateAttr

from toolbus.adapters.calls import facts, parsed, unseen
from toolbus.adapters.declared import declared
from toolbus.adapters.extra import needs
from toolbus.adapters.langchain_pictures import with_pictures_beside
from toolbus.adapters.media import Document, encoded, taken
from toolbus.adapters.prompts import Part, Turn, turns
from toolbus.adapters.tool_list import Bus, Offer, Servers, Source
from toolbus.bus.tool import Tool
from toolbus.core.errors import ToolNotFound
from toolbus.core.records import JSON, PromptResult, Text, ToolResult
from toolbus.shape import Dialect, rendered_text

with needs("langchain"):
    from langchain.agents.middleware import (
        AgentMiddleware,
        AgentState,
        ModelRequest,
        ModelResponse,
        hook_config,
    )
    from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, InvalidToolCall, ToolMessage
    from langchain_core.tools import StructuredTool, ToolException
    from langgraph.prebuilt.tool_node import ToolCallRequest
    from langgraph.types import Command

Content: TypeAlias = str | list[str | dict[Any, JSON]]
Answer: TypeAlias = ToolMessage | Command[Any]
# Forms that LangChain's models hand on as they are.
_FORMS: tuple[Dialect, ...] = ("openai", "openai-strict", "openai-responses", "anthropic")


def tools(source: Source, servers: Servers = None, *, dialect: Dialect = "openai") -> Offer["BusTool"]:
    """The tools, for `ainvoke` and `invoke`; the artifact of a message holds what the model is not told.

    LangChain gives a schema to its model nearly as it is: `dialect` is the one of the model's provider.
    An agent is built once for its tools; `live` is for a catalog that changes.
    """
    return Offer(source, lambda tool: structured_tool(tool, dialect=dialect), servers)


def live(bus: Bus, servers: Servers = None, *, dialect: Dialect = "openai") -> "LiveTools":
    """A middleware, `create_agent(model, middleware=[live(bus)])`: the tools as they are at every turn."""
    return LiveTools(Offer(bus, lambda tool: structured_tool(tool, dialect=dialect), servers, live=True))


def messages(prompt: PromptResult) -> list[AnyMessage]:
    """The messages of a prompt; pictures and PDFs are content blocks, sound is described in words."""
    return [*map(_message, turns(prompt.messages))]


def structured_tool(tool: Tool, *, dialect: Dialect = "openai") -> "BusTool":
    """One tool."""
    said = declared(tool, dialect)
    made = BusTool(
        name=said.name,
        description=said.description,
        args_schema=said.parameters,
        coroutine=tool.execute,
        response_format="content_and_artifact",
        metadata=facts(tool),
        extras=said.options or None,
        handle_tool_error=_told,
    )
    return made.bound(tool, dialect)


class BusTool(StructuredTool):
    """A structured tool whose arguments may have any name: LangChain's own would take `config` for itself."""

    _tool: Tool = PrivateAttr()
    _dialect: Dialect = PrivateAttr()

    def bound(self, tool: Tool, dialect: Dialect) -> "BusTool":
        """The same, which runs that tool."""
        self._tool, self._dialect = tool, dialect
        return self

    def for_request(self) -> "BusTool | dict[str, JSON]":
        """The tool, or the provider's own form of it if that says more: LangChain drops most options."""
        if self.extras is None or self._dialect not in _FORMS:
            return self
        return self._tool.definition(self._dialect)

    async def _arun(self, /, *args: Any, **kwargs: Any) -> tuple[Content, dict[str, JSON]]:
        return _answer(self._tool, await self._tool.execute(**kwargs))

    def _run(self, /, *args: Any, **kwargs: Any) -> tuple[Content, dict[str, JSON]]:
        return _answer(self._tool, self._tool.execute_sync(**kwargs))


class LiveTools(AgentMiddleware[Any, Any, Any]):
    """Offers the tools of a catalog that may change while the agent runs, and runs those that are called."""

    def __init__(self, offer: Offer[BusTool]) -> None:
        super().__init__()
        self._offer = offer
        self._own: list[str] = []
        """The names of the agent's own tools."""

    def wrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], ModelResponse[Any]]
    ) -> ModelResponse[Any]:
        """Let the model see what there is now."""
        return handler(self._with_tools(request))

    async def awrap_model_call(
        self,
        request: ModelRequest[Any],
        handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]],
    ) -> ModelResponse[Any]:
        """Let the model see what there is now."""
        return await handler(self._with_tools(request))

    @hook_config(can_jump_to=["model"])
    def after_model(self, state: AgentState[Any], runtime: Any) -> dict[str, Any] | None:
        """Tell the model of calls whose arguments are no JSON; LangChain would end the run without a word."""
        called = state["messages"][-1]
        if not isinstance(called, AIMessage) or not called.invalid_tool_calls:
            return None
        told: dict[str, Any] = {"messages": [*map(_refused, called.invalid_tool_calls)]}
        return told if called.tool_calls else {**told, "jump_to": "model"}

    def wrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Answer]
    ) -> Answer:
        """Run the tool, which the agent itself does not know."""
        found = self._with_tool(request)
        return found if isinstance(found, ToolMessage) else handler(found)

    async def awrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Awaitable[Answer]]
    ) -> Answer:
        """Run the tool, which the agent itself does not know."""
        found = self._with_tool(request)
        return found if isinstance(found, ToolMessage) else await handler(found)

    def _with_tools(self, request: ModelRequest[Any]) -> ModelRequest[Any]:
        self._offer.refresh()
        # What the agent was built with comes first: a tool of its own may bear the name of one of these.
        own = {tool.get("name") if isinstance(tool, dict) else tool.name for tool in request.tools}
        self._own = sorted(filter(None, own))
        return request.override(
            messages=with_pictures_beside(request.model, request.messages),
            tools=[*request.tools, *(tool.for_request() for tool in self._offer if tool.name not in own)],
        )

    def _with_tool(self, request: ToolCallRequest) -> ToolCallRequest | ToolMessage:
        """The request with its tool, or what the model is told if there is none."""
        if request.tool is not None:
            return request
        name = request.tool_call["name"]
        found = next((tool for tool in self._offer if tool.name == name), None)
        if found is not None:
            return request.override(tool=found)
        unknown = ToolNotFound(name, [*self._own, *(tool.name for tool in self._offer)])
        return _failed(request.tool_call["id"], name, ToolResult.failure(str(unknown)))


class Failed(ToolException):
    """A tool said that it failed; the model gets what it said."""

    def __init__(self, content: Content) -> None:
        self.content = content
        super().__init__(str(content))


def _told(error: ToolException) -> Content:
    return error.content if isinstance(error, Failed) else str(error)


def _refused(call: InvalidToolCall) -> ToolMessage:
    given = parsed(call["args"])
    if not isinstance(given, ToolResult):  # LangChain has another reason
        given = ToolResult.failure(call["error"] or "the call cannot be parsed")
    return _failed(call["id"], call["name"], given)


def _failed(call: str | None, name: str | None, result: ToolResult) -> ToolMessage:
    return ToolMessage(rendered_text(result), tool_call_id=call or "", name=name, status="error")


def _answer(tool: Tool, result: ToolResult) -> tuple[Content, dict[str, JSON]]:
    content = _blocks(taken(result))
    if result.is_error:
        raise Failed(content)
    # Plain values, which every checkpointer takes; what the message shows is not kept twice.
    return content, {**facts(tool, result), "content": unseen(result)}


def _message(turn: Turn) -> AnyMessage:
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
            name = {"filename": part.name}  # which OpenAI asks for
            return {"type": "file", "base64": encoded(part), "mime_type": part.mime_type, "extras": name}
        case _:
            return {"type": "image", "base64": encoded(part), "mime_type": part.mime_type}
