"""For your tests: a model that follows a script, so that an agent runs without a provider."""

from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from toolbus.core.errors import ExtraMissing
from toolbus.core.records import JSON

try:
    from pydantic_ai.messages import (
        ModelMessage,
        ModelRequest,
        ModelResponse,
        TextPart,
        ToolCallPart,
        ToolReturnPart,
        UserPromptPart,
    )
    from pydantic_ai.models.function import AgentInfo, DeltaToolCall, FunctionModel
except ImportError as error:
    raise ExtraMissing("toolbus.testing", "agent", str(error)) from error


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call that the script makes; arguments given as a string are sent unchanged."""

    name: str
    arguments: dict[str, JSON] | str = field(default_factory=dict[str, JSON])


Reply: TypeAlias = str | ToolCall | Sequence[ToolCall]
Turn: TypeAlias = Reply | Callable[[list[str]], Reply]
"""The text or calls of the model, or a function that returns them from the texts of all results so far."""


class ScriptedModel(FunctionModel):
    """A fake model that replays its turns in order, whatever the input.

    A durable run that another process began continues after the turns that it has had.
    """

    def __init__(self, turns: Sequence[Turn]) -> None:
        self.turns = list(turns)
        self.requests: list[list[ModelMessage]] = []
        """The messages it received at every turn."""
        self.offered: list[list[str]] = []
        """The names of the tools it was offered at every turn."""
        self._at = 0
        self._calls = 0
        super().__init__(self._answer, stream_function=self._stream, model_name="scripted")

    def _answer(self, messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        turn = self._next_turn(messages, info)
        if isinstance(turn, str):
            return ModelResponse([TextPart(turn)])
        first, self._calls = self._calls + 1, self._calls + len(turn)
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
        earlier = _calls_of_run(messages)
        at = max(self._at, len(earlier))
        self._at, self._calls = at + 1, max(self._calls, sum(earlier))
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


def _arguments_as_written(part: ToolCallPart) -> str:
    # `args_as_json_str` would wrap a string that is not JSON.
    return part.args if isinstance(part.args, str) else part.args_as_json_str()


def _calls_of_run(messages: list[ModelMessage]) -> list[int]:
    """How many calls each turn of the current run made."""
    calls: list[int] = []
    for message in messages:
        kinds = {type(part) for part in message.parts}
        if isinstance(message, ModelResponse):
            calls += [sum(isinstance(part, ToolCallPart) for part in message.parts)]
        elif (
            UserPromptPart in kinds and ToolReturnPart not in kinds
        ):  # a result with images has a prompt, too
            calls.clear()
    return [number for number in calls if number]


def _results(messages: list[ModelMessage]) -> list[str]:
    parts = [part for message in messages if isinstance(message, ModelRequest) for part in message.parts]
    returned = [part for part in parts if isinstance(part, ToolReturnPart)]
    return [part.model_response_str(wrap_if_error=False) for part in returned]
