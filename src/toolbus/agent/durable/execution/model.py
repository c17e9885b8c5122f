"""The model of a durable run: each request is a step, whose response is recorded."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping, Set
from contextlib import asynccontextmanager
from typing import Any, TypeAlias, cast

from pydantic_ai import RunContext
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
from toolbus.agent.events import ToolReturned
from toolbus.core.values.records import JSON

Check: TypeAlias = Callable[[ModelResponse, Set[str]], Awaitable[None]]
"""Checks a recorded response before its calls are made; gets the names of the tools that it may call."""


class JournaledModel(WrapperModel):
    """Records responses. A request in flight at a crash is made again: it changes nothing but the bill."""

    def __init__(
        self,
        wrapped: Model,
        journal: RunJournal,
        servers: Mapping[str, str],
        seconds: Mapping[str, float],
        check: Check,
    ) -> None:
        """`servers` are those of the tools, by name; `seconds` how long calls took, by their ids."""
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
        """The response of the model, or the recorded one."""
        outputs = {tool.name for tool in model_request_parameters.output_tools}

        async def ask() -> Record:
            returned = [
                self._returned(one) for one in _last_returns(messages) if one.tool_name not in outputs
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

    def _returned(self, part: ToolReturnPart) -> ToolReturned:
        items = part.content_items(mode="str", wrap_if_error=False)
        return ToolReturned(
            id=part.tool_call_id,
            name=part.tool_name,
            text="\n".join(item for item in items if isinstance(item, str)),
            is_error=part.outcome != "success",
            seconds=self._seconds.get(part.tool_call_id, 0.0),
            server=self._servers.get(part.tool_name),
            structured=cast("Mapping[str, Any]", part.metadata or {}).get("structured"),
        )


def messages_json(messages: Iterable[ModelMessage]) -> list[JSON]:
    """Messages of a conversation."""
    return ModelMessagesTypeAdapter.dump_python(list(messages), mode="json")


def read_messages(stored: list[JSON]) -> list[ModelMessage]:
    """The messages of `messages_json`."""
    return ModelMessagesTypeAdapter.validate_python(stored)


def _calls(response: ModelResponse) -> list[ToolCallPart]:
    return [part for part in response.parts if isinstance(part, ToolCallPart)]


def _last_returns(messages: list[ModelMessage]) -> list[ToolReturnPart]:
    """What the calls of the last turn returned."""
    last = messages[-1] if messages else None
    parts = last.parts if isinstance(last, ModelRequest) else ()
    return [part for part in parts if isinstance(part, ToolReturnPart)]
