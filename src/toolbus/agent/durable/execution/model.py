"""The model of a durable run: each request is a step, whose response is recorded."""

import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping, Set
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, TypeAlias, cast

from pydantic import TypeAdapter
from pydantic_ai import ModelRetry, RunContext, StructuredDict
from pydantic_ai.messages import (
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelRequest,
    ModelResponse,
    ToolCallPart,
    ToolReturnPart,
)
from pydantic_ai.models import CompletedStreamedResponse, Model, ModelRequestParameters, StreamedResponse
from pydantic_ai.models.wrapper import WrapperModel
from pydantic_ai.settings import ModelSettings

from toolbus.agent.durable.execution.journal import Record, RunJournal
from toolbus.agent.durable.execution.timeline import event_json
from toolbus.agent.run import tool_returned
from toolbus.core.values.records import JSON
from toolbus.schema.validator import Validator

Check: TypeAlias = Callable[[ModelResponse, Set[str]], Awaitable[None]]
"""Checks a recorded response before its calls are made; gets the names of the tools that it may call."""


class JournaledModel(WrapperModel):
    """Records responses. A request in flight at a crash is repeated: that changes only the bill."""

    def __init__(
        self,
        wrapped: Model,
        journal: RunJournal,
        servers: Mapping[str, str],
        seconds: Mapping[str, float],
        check: Check,
    ) -> None:
        """`servers` are the servers of tools, by name; `seconds` are the durations of calls, by their ids."""
        super().__init__(wrapped)
        self._journal = journal
        self._servers = servers
        self._seconds = seconds
        self._check = check

    async def request(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
    ) -> ModelResponse:
        outputs = {tool.name for tool in model_request_parameters.output_tools}

        async def ask() -> Record:
            returned = [
                tool_returned(one, self._seconds.get(one.tool_call_id, 0.0), self._servers.get(one.tool_name))
                for one in _last_returns(messages)
                if one.tool_name not in outputs
            ]
            response = await self.wrapped.request(messages, model_settings, model_request_parameters)
            return {
                "returned": [event_json(one) for one in returned if one.id not in self._journal.returned],
                "response": messages_json([response])[0],
                "called": {
                    call.tool_call_id: self._servers.get(call.tool_name)
                    for call in _calls(response)
                    if call.tool_name not in outputs
                },
            }

        record = await self._journal.run_model(ask)
        (message,) = read_messages([record["response"]])
        response = cast(ModelResponse, message)
        self._journal.number_calls([call.tool_call_id for call in _calls(response)])
        await self._check(response, model_request_parameters.tool_defs.keys())
        return response

    @asynccontextmanager
    async def request_stream(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
        run_context: RunContext[Any] | None = None,
    ) -> AsyncGenerator[StreamedResponse]:
        """As `request`: only a whole response is recorded."""
        response = await self.request(messages, model_settings, model_request_parameters)
        yield CompletedStreamedResponse(
            response, model_request_parameters=model_request_parameters, replay_events=True
        )


def messages_json(messages: Iterable[ModelMessage]) -> list[JSON]:
    return ModelMessagesTypeAdapter.dump_python(list(messages), mode="json")


def read_messages(stored: list[JSON]) -> list[ModelMessage]:
    return ModelMessagesTypeAdapter.validate_python(stored)


def _calls(response: ModelResponse) -> list[ToolCallPart]:
    return [part for part in response.parts if isinstance(part, ToolCallPart)]


def _last_returns(messages: list[ModelMessage]) -> list[ToolReturnPart]:
    """The results of the calls in the last turn."""
    last = messages[-1] if messages else None
    parts = last.parts if isinstance(last, ModelRequest) else ()
    return [part for part in parts if isinstance(part, ToolReturnPart)]


_WRAPPED = "response"
"""The key of an output that is not an object: models return objects."""


@dataclass(frozen=True, slots=True)
class Output:
    """The output that a run is to return."""

    schema: Mapping[str, Any] | None
    """None for a text."""

    @classmethod
    def of(cls, request: Mapping[str, Any]) -> "Output":
        return cls(request.get("output"))

    @property
    def is_wrapped(self) -> bool:
        """Whether it is not an object."""
        return self.schema is not None and self.schema.get("type") != "object"

    @property
    def type(self) -> Any:
        """For the framework; a model whose output does not fit is told why, and tries again."""
        if self.schema is None:
            return None  # reuses the agent's own text output
        schema, validator = dict(self.schema), Validator(self.schema)
        if self.is_wrapped:
            definitions = schema.pop("$defs", {})
            properties = {_WRAPPED: schema}
            schema = {
                "type": "object",
                "properties": properties,
                "required": [_WRAPPED],
                "$defs": definitions,
            }

        def final_result(output: Any) -> Any:
            value = output.get(_WRAPPED) if self.is_wrapped else output
            if (problem := validator.explanation(value)) is not None:
                raise ModelRetry(problem)
            return value

        final_result.__annotations__ = {"output": StructuredDict(schema), "return": dict[str, Any]}
        return final_result

    def stored(self, output: JSON) -> dict[str, JSON]:
        if self.schema is None:
            return {"output": output}
        return {"output": json.dumps(output, ensure_ascii=False), "structured": output}


def output_schema(kind: type[Any]) -> dict[str, Any] | None:
    """The JSON Schema of a type; None for text."""
    return None if kind is str else TypeAdapter(kind).json_schema()
