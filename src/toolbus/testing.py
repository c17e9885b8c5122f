"""For tests of your own: a model that plays a script, so that an agent runs without a provider."""

from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from itertools import count
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
    )
    from pydantic_ai.models.function import AgentInfo, DeltaToolCall, FunctionModel
except ImportError as error:
    raise ExtraMissing("toolbus.testing", "agent", str(error)) from error


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call that the script makes; arguments that are a text go out to the letter."""

    name: str
    arguments: dict[str, JSON] | str = field(default_factory=dict[str, JSON])


Words: TypeAlias = str | ToolCall | Sequence[ToolCall]
Turn: TypeAlias = Words | Callable[[list[str]], Words]
"""What the model says or calls; a function gets the texts of all results so far, and says which."""


class ScriptedModel(FunctionModel):
    """No model at all: it plays its turns one after another, whatever it is told."""

    def __init__(self, turns: Sequence[Turn]) -> None:
        self.turns = list(turns)
        self.requests: list[list[ModelMessage]] = []
        """What it was told at every turn."""
        self.offered: list[list[str]] = []
        """The names of the tools that it was offered at every turn."""
        self._ids = count(1)
        super().__init__(self._answer, stream_function=self._stream, model_name="scripted")

    def _answer(self, messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        turn = self._played(messages, info)
        if isinstance(turn, str):
            return ModelResponse([TextPart(turn)])
        return ModelResponse(
            [ToolCallPart(call.name, call.arguments, tool_call_id=f"call_{next(self._ids)}") for call in turn]
        )

    async def _stream(self, messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[Any]:
        match self._answer(messages, info).parts:
            case [TextPart(content=text)]:
                for at, word in enumerate(text.split(" ")):
                    yield f" {word}" if at else word
            case parts:
                yield {
                    at: DeltaToolCall(part.tool_name, _to_the_letter(part), tool_call_id=part.tool_call_id)
                    for at, part in enumerate(parts)
                    if isinstance(part, ToolCallPart)
                }

    def _played(self, messages: list[ModelMessage], info: AgentInfo) -> str | list[ToolCall]:
        at = len(self.requests)
        self.requests.append(list(messages))
        self.offered.append([tool.name for tool in info.function_tools])
        if at >= len(self.turns):
            raise AssertionError(
                f"the script has {len(self.turns)} turns, but the agent asked for another one"
            )
        turn = self.turns[at]
        said = turn(_results(messages)) if callable(turn) else turn
        if isinstance(said, str):
            return said
        return [said] if isinstance(said, ToolCall) else list(said)


def _to_the_letter(part: ToolCallPart) -> str:
    # `args_as_json_str` wraps a text that is not JSON.
    return part.args if isinstance(part.args, str) else part.args_as_json_str()


def _results(messages: list[ModelMessage]) -> list[str]:
    parts = [part for message in messages if isinstance(message, ModelRequest) for part in message.parts]
    returned = [part for part in parts if isinstance(part, ToolReturnPart)]
    return [part.model_response_str(wrap_if_error=False) for part in returned]
