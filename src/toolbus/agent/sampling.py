"""Answer sampling requests of servers with your model, with your consent and within a budget.

Sampling costs you money, so it is off by default and needs consent. Nothing raises: a request that is not
allowed or fails is declined, and logged without the provider's message.
"""

import logging
from collections.abc import Awaitable, Callable
from dataclasses import replace
from types import TracebackType
from typing import Literal, Self, TypeAlias

from pydantic_ai.direct import model_request
from pydantic_ai.exceptions import ModelHTTPError
from pydantic_ai.messages import ModelMessage, ModelRequest, ModelResponse
from pydantic_ai.models import Model
from pydantic_ai.settings import ModelSettings

from toolbus.adapters.approval import decided
from toolbus.adapters.pydantic_ai import messages as prompt_messages
from toolbus.agent.models import model_of
from toolbus.core.ask.interactions import Sampling, SamplingResult
from toolbus.core.text.text import cleaned
from toolbus.core.values.records import Block, Image, PromptResult, Text
from toolbus.shape.budget import estimated_tokens

logger = logging.getLogger("toolbus")

Consent: TypeAlias = Literal["always"] | Callable[[Sampling], bool | Awaitable[bool]]
"""A function, plain or async, that returns True to allow a request; `always` allows all of them."""
MEDIA_TOKENS = 1_500
"""The estimated tokens of an image or audio, before the provider counts them."""
_STOP_REASONS = {"stop": "endTurn", "length": "maxTokens", "tool_call": "toolUse"}


class Sampler:
    """Answers sampling requests: `Interactions(sample=Sampler("openai:gpt-5.1", consent=ask))`.

    It always uses your model, even if the server prefers other ones.
    """

    def __init__(
        self,
        model: str | Model,
        *,
        consent: Consent,
        max_tokens: int = 1_000,
        budget: int = 20_000,
        settings: ModelSettings | None = None,
    ) -> None:
        """Raise `ModelFailed` for an unknown model.

        `max_tokens` is the maximum for one response, even if the server requests more; `budget` is for all
        requests together, input included.
        """
        if not callable(consent) and consent != "always":
            raise ValueError(f"consent must be a function or 'always', not {consent!r}")
        for name, count in (("max_tokens", max_tokens), ("budget", budget)):
            if count < 1:
                raise ValueError(f"{name} must be at least 1 token, not {count!r}")
        self.model = model_of(model)
        self.used = 0
        """Tokens used so far, as counted by the provider."""
        self._owns_model = isinstance(model, str)
        self._consent: Consent = consent
        self._max_tokens = max_tokens
        self._budget = budget
        self._settings = settings or ModelSettings()
        self._reserved = 0
        """Tokens that requests in flight may still use."""

    async def __call__(self, request: Sampling) -> SamplingResult | None:
        """The model's response; None if the request is declined."""
        request = _visible(request)
        messages = _messages(request)
        cost = _cost(request)
        if not messages:
            return _declined(request, "there is no user message to answer")
        if self._max_output(request, cost) < 1:
            return _declined(request, self._over_budget)
        if not await self._is_allowed(request):
            return None
        room = self._max_output(request, cost)  # other requests may have used tokens in the meantime
        if room < 1:
            return _declined(request, self._over_budget)
        response = await self._generate(request, messages, cost, room)
        return None if response is None else self._sampled(request, response)

    async def close(self) -> None:
        """Close the client of a model given by name. Safe to call repeatedly."""
        if self._owns_model:
            async with self.model:
                pass

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    @property
    def _over_budget(self) -> str:
        return f"it exceeds the remaining budget: {self.used:,} of {self._budget:,} tokens are used"

    def _max_output(self, request: Sampling, cost: int) -> int:
        left = self._budget - self.used - self._reserved - cost
        return min(request.max_tokens, self._max_tokens, left)

    async def _is_allowed(self, request: Sampling) -> bool:
        if not callable(self._consent):
            return True
        try:
            return await decided(self._consent, request) is True
        except Exception as error:  # a user's function: if it fails, there is no consent
            _declined(request, f"the consent function raised {type(error).__name__}")
            return False

    async def _generate(
        self, request: Sampling, messages: list[ModelMessage], cost: int, room: int
    ) -> ModelResponse | None:
        settings = ModelSettings(**self._settings)
        settings["max_tokens"] = room
        if request.temperature is not None:
            settings["temperature"] = request.temperature
        if request.stop:
            settings["stop_sequences"] = list(request.stop)
        self._reserved += cost + room
        used = cost  # also if it fails: the provider may charge for it
        try:
            response = await model_request(self.model, messages, model_settings=settings)
            used = response.usage.total_tokens or cost + estimated_tokens(response.text or "")
        except Exception as error:  # provider clients raise anything; the server waits for a reply
            reason = (
                f"HTTP {error.status_code}" if isinstance(error, ModelHTTPError) else type(error).__name__
            )
            _declined(request, f"model {self.model.model_name!r} failed: {reason}")
            return None
        finally:
            self._reserved -= cost + room
            self.used += used
        return response

    def _sampled(self, request: Sampling, response: ModelResponse) -> SamplingResult | None:
        content: Text | Image | None = None
        if response.text:
            content = Text(text=response.text)
        elif response.images:
            content = Image(data=response.images[0].data, mime_type=response.images[0].media_type)
        if content is None:
            return _declined(request, f"model {self.model.model_name!r} returned no content")
        finish = response.finish_reason
        return SamplingResult(
            content=content,
            model=response.model_name or self.model.model_name,
            stop_reason=None if finish is None else _STOP_REASONS.get(finish, finish),
        )


def _declined(request: Sampling, reason: str) -> None:
    logger.warning("server %r: sampling was declined: %s", request.server, reason)


def _visible(request: Sampling) -> Sampling:
    """The same without invisible characters, which a person asked for consent could not see."""
    return replace(
        request,
        system=None if request.system is None else cleaned(request.system),
        messages=tuple(replace(message, content=_clean(message.content)) for message in request.messages),
    )


def _clean(block: Block) -> Block:
    return replace(block, text=cleaned(block.text)) if isinstance(block, Text) else block


def _messages(request: Sampling) -> list[ModelMessage]:
    """The messages in Pydantic AI's types; none unless the last one is from the user."""
    messages = prompt_messages(PromptResult(messages=request.messages), audio=True)
    if not messages or not isinstance(messages[-1], ModelRequest):
        return []
    return [*messages[:-1], replace(messages[-1], instructions=request.system or None)]


def _cost(request: Sampling) -> int:
    texts = [message.content.text for message in request.messages if isinstance(message.content, Text)]
    media = len(request.messages) - len(texts)
    return estimated_tokens("\n".join([request.system or "", *texts])) + MEDIA_TOKENS * media
