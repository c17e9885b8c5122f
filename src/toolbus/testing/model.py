"""A model that follows a script, so that an agent runs without a provider."""

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from contextvars import ContextVar
from typing import Any, TypeAlias

from pydantic_ai import RunContext
from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
)
from pydantic_ai.models import ModelRequestParameters, StreamedResponse
from pydantic_ai.models.function import AgentInfo, DeltaToolCall, FunctionModel
from pydantic_ai.settings import ModelSettings

from toolbus.testing.calls import ToolCall

Reply: TypeAlias = str | ToolCall | Sequence[ToolCall]
"""A text, or calls of tools."""
Turn: TypeAlias = Reply | Callable[[list[str]], Reply]
"""The text or calls of the model, or a function that returns them from the texts of all results so far."""


_KEY: ContextVar[int | None] = ContextVar("toolbus scripted agent", default=None)
"""The agent whose response is streamed."""


class ScriptedModel(FunctionModel):
    """A fake model that replays its turns in order, regardless of the input.

    Each agent has its own place in the script, and each durable run begins with the first turn. So one model
    may serve several at once. A durable run that another process began continues after the turns it has had.
    """

    def __init__(self, turns: Sequence[Turn]) -> None:
        self.turns = list(turns)
        self.requests: list[list[ModelMessage]] = []
        """The messages it received at every turn."""
        self.offered: list[list[str]] = []
        """The names of the tools it was offered at every turn."""
        self._played: dict[int | str | None, int] = {}
        """The number of turns each agent or run has had; requests outside of a run share None."""
        self._agents: dict[int, object] = {}
        """Kept, so that no other agent gets the id of one."""
        super().__init__(self._answer, stream_function=self._stream, model_name="scripted")

    @asynccontextmanager
    async def request_stream(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
        run_context: RunContext[Any] | None = None,
    ) -> AsyncGenerator[StreamedResponse]:
        """Play the next turn of the agent that streams it."""
        agent = None if run_context is None else run_context.agent
        self._agents[id(agent)] = agent
        _KEY.set(None if agent is None else id(agent))
        try:
            streamed = super().request_stream(messages, model_settings, model_request_parameters, run_context)
            async with streamed as response:
                yield response
        finally:
            _KEY.set(None)  # not by a token: it may end in another context

    def _answer(self, messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        turn = self._next_turn(messages, info)
        if isinstance(turn, str):
            return ModelResponse([TextPart(turn)])
        first = 1 + sum(isinstance(part, ToolCallPart) for message in messages for part in message.parts)
        return ModelResponse(
            [
                ToolCallPart(call.name, call.arguments, tool_call_id=f"call_{number}")
                for number, call in enumerate(turn, first)
            ]
        )

    async def _stream(self, messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[Any]:
        match self._answer(messages, info).parts:
            case [TextPart(content=text)]:
                for at, word in enumerate(text.split(" ")):
                    yield f" {word}" if at else word
            case parts:
                yield {
                    at: DeltaToolCall(
                        part.tool_name, _arguments_as_written(part), tool_call_id=part.tool_call_id
                    )
                    for at, part in enumerate(parts)
                    if isinstance(part, ToolCallPart)
                }

    def _next_turn(self, messages: list[ModelMessage], info: AgentInfo) -> str | list[ToolCall]:
        at = self._place(messages)
        self.requests.append(list(messages))
        self.offered.append([tool.name for tool in info.function_tools])
        if at >= len(self.turns):
            raise AssertionError(
                f"the script has {len(self.turns)} turns, but the agent asked for another one"
            )
        turn = self.turns[at]
        reply = turn(_results(messages)) if callable(turn) else turn
        if isinstance(reply, str):
            return reply
        return [reply] if isinstance(reply, ToolCall) else list(reply)

    def _place(self, messages: list[ModelMessage]) -> int:
        """The number of the next turn."""
        runs = [message.run_id for message in messages]
        key = _KEY.get() or runs[-1]
        if key in self._played or isinstance(key, int) or not any(runs):
            at = self._played.get(key, 0)
        else:  # a run that is new here; another process may have begun it
            earlier = (self._played[run] for run in reversed(runs) if run in self._played)
            had = sum(isinstance(one, ModelResponse) and one.run_id == key for one in messages)
            at = next(earlier, 0) + had
        if key is not None or not any(runs):  # else the prompt was added to the end of an interrupted run
            self._played[key] = at + 1
        return at


def _arguments_as_written(part: ToolCallPart) -> str:
    # `args_as_json_str` would wrap a string that is not JSON.
    return part.args if isinstance(part.args, str) else part.args_as_json_str()


def _results(messages: list[ModelMessage]) -> list[str]:
    parts = [part for message in messages if isinstance(message, ModelRequest) for part in message.parts]
    returned = [part for part in parts if isinstance(part, ToolReturnPart)]
    return [part.model_response_str(wrap_if_error=False) for part in returned]
