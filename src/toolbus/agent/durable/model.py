"""The model of a durable run: each request is a step, whose response is recorded."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Set
from contextlib import asynccontextmanager
from typing import Any, TypeAlias

from pydantic_ai import RunContext
from pydantic_ai.messages import ModelMessage, ModelResponse
from pydantic_ai.models import CompletedStreamedResponse, Model, ModelRequestParameters, StreamedResponse
from pydantic_ai.models.wrapper import WrapperModel
from pydantic_ai.settings import ModelSettings

from toolbus.agent.durable.codec import messages_json, read_response, response_events, returned_events
from toolbus.agent.durable.steps import Steps
from toolbus.core.records import JSON

Check: TypeAlias = Callable[[ModelResponse, Set[str]], Awaitable[None]]
"""Checks a recorded response before its calls are made; gets the names of the tools that it may call."""


class JournaledModel(WrapperModel):
    """Records responses. A request in flight at a crash is made again: it changes nothing but the bill."""

    def __init__(
        self,
        wrapped: Model,
        steps: Steps,
        servers: Mapping[str, str],
        seconds: Mapping[str, float],
        check: Check,
    ) -> None:
        """`servers` are those of the tools, by name; `seconds` how long calls took, by their ids."""
        super().__init__(wrapped)
        self._steps = steps
        self._servers = servers
        self._seconds = seconds
        self._check = check

    async def request(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
    ) -> ModelResponse:
        """The response of the model, or the recorded one; both become events."""
        await self._steps.emit(returned_events(messages, self._servers, self._seconds))

        async def ask() -> JSON:
            response = await self.wrapped.request(messages, model_settings, model_request_parameters)
            return messages_json([response])[0]

        response = read_response(await self._steps.run("model", ask))
        await self._check(response, model_request_parameters.tool_defs.keys())
        await self._steps.emit(response_events(response, self._servers))
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
