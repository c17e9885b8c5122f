"""A model of yours for servers that want one to write something: with your word, and within a budget.

It costs your money, so nobody has it unless it is written down, and somebody has to agree. Nothing is
raised: what must not or cannot be done is declined, and logged without what the provider said.
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
from toolbus.adapters.pydantic_ai import messages
from toolbus.agent.models import model_of
from toolbus.core.interactions import Sampled, Sampling
from toolbus.core.records import Block, Image, PromptResult, Text
from toolbus.core.text import cleaned
from toolbus.shape.budget import estimated_tokens

logger = logging.getLogger("toolbus")

Consent: TypeAlias = Literal["always"] | Callable[[Sampling], bool | Awaitable[bool]]
"""Who agrees to a request: a function, plain or async, by returning True; `always` asks nobody."""
MEDIUM = 1_500
"""What a picture or a sound is taken to cost, in tokens, before a provider has counted it."""
_STOPPED = {"stop": "endTurn", "length": "maxTokens", "tool_call": "toolUse"}


class Sampler:
    """Has a model write what servers ask for: `Interactions(sample=Sampler("openai:gpt-5.1", consent=ask))`.

    Which models a server would like does not matter: it is yours that writes.
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
        """`ModelFailed` if there is no such model.

        `max_tokens` is the most for one answer, whatever a server asks for; `budget` is for all requests
        of its life, with what the model reads.
        """
        if not callable(consent) and consent != "always":
            raise ValueError(f"consent must be a function or 'always', not {consent!r}")
        for name, count in (("max_tokens", max_tokens), ("budget", budget)):
            if count < 1:
                raise ValueError(f"{name} must be at least 1 token, not {count!r}")
        self.model = model_of(model)
        self.used = 0
        """Tokens so far, as the provider counted them."""
        self._made_model = isinstance(model, str)
        self._consent: Consent = consent
        self._max_tokens = max_tokens
        self._budget = budget
        self._settings = settings or ModelSettings()
        self._reserved = 0
        """What the requests under way may cost yet."""

    async def __call__(self, wanted: Sampling) -> Sampled | None:
        """What the model wrote; None is a no."""
        wanted = _visible(wanted)
        asked = _asked(wanted)
        cost = _cost(wanted)
        if not asked:
            return _declined(wanted, "there is no user message to answer")
        if self._room(wanted, cost) < 1:
            return _declined(wanted, self._spent)
        if not await self._is_allowed(wanted):
            return None
        room = self._room(wanted, cost)  # others may have written while somebody thought
        if room < 1:
            return _declined(wanted, self._spent)
        response = await self._written(wanted, asked, cost, room)
        return None if response is None else self._sampled(wanted, response)

    async def close(self) -> None:
        """Close the client of a model that was given by name. Any number of times."""
        if self._made_model:
            async with self.model:
                pass

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    @property
    def _spent(self) -> str:
        return f"it exceeds the remaining budget: {self.used:,} of {self._budget:,} tokens are used"

    def _room(self, wanted: Sampling, cost: int) -> int:
        """How many tokens the answer may have."""
        left = self._budget - self.used - self._reserved - cost
        return min(wanted.max_tokens, self._max_tokens, left)

    async def _is_allowed(self, wanted: Sampling) -> bool:
        if not callable(self._consent):
            return True
        try:
            return await decided(self._consent, wanted) is True
        except Exception as error:  # a user's function: its failure is no consent
            _declined(wanted, f"the consent function raised {type(error).__name__}")
            return False

    async def _written(
        self, wanted: Sampling, asked: list[ModelMessage], cost: int, room: int
    ) -> ModelResponse | None:
        settings = ModelSettings(**self._settings)
        settings["max_tokens"] = room
        if wanted.temperature is not None:
            settings["temperature"] = wanted.temperature
        if wanted.stop:
            settings["stop_sequences"] = list(wanted.stop)
        self._reserved += cost + room
        used = cost  # also of what failed: a provider may have counted it
        try:
            response = await model_request(self.model, asked, model_settings=settings)
            used = response.usage.total_tokens or cost + estimated_tokens(response.text or "")
        except (
            Exception
        ) as error:  # clients of providers raise what they like; the server waits for an answer
            about = f"HTTP {error.status_code}" if isinstance(error, ModelHTTPError) else type(error).__name__
            _declined(wanted, f"model {self.model.model_name!r} failed: {about}")
            return None
        finally:
            self._reserved -= cost + room
            self.used += used
        return response

    def _sampled(self, wanted: Sampling, response: ModelResponse) -> Sampled | None:
        content: Text | Image | None = None
        if response.text:
            content = Text(text=response.text)
        elif response.images:
            content = Image(data=response.images[0].data, mime_type=response.images[0].media_type)
        if content is None:
            return _declined(wanted, f"model {self.model.model_name!r} returned no content")
        why = response.finish_reason
        return Sampled(
            content=content,
            model=response.model_name or self.model.model_name,
            stop_reason=None if why is None else _STOPPED.get(why, why),
        )


def _declined(wanted: Sampling, reason: str) -> None:
    logger.warning("server %r: sampling was declined: %s", wanted.server, reason)


def _visible(wanted: Sampling) -> Sampling:
    """The same without what a person who is asked could not see."""
    return replace(
        wanted,
        system=None if wanted.system is None else cleaned(wanted.system),
        messages=tuple(replace(said, content=_clean(said.content)) for said in wanted.messages),
    )


def _clean(block: Block) -> Block:
    return replace(block, text=cleaned(block.text)) if isinstance(block, Text) else block


def _asked(wanted: Sampling) -> list[ModelMessage]:
    """The messages in pydantic-ai's types; none unless it is for the model to speak."""
    asked = messages(PromptResult(messages=wanted.messages), audio=True)
    if not asked or not isinstance(asked[-1], ModelRequest):
        return []
    return [*asked[:-1], replace(asked[-1], instructions=wanted.system or None)]


def _cost(wanted: Sampling) -> int:
    """About how many tokens there are to read."""
    texts = [said.content.text for said in wanted.messages if isinstance(said.content, Text)]
    media = len(wanted.messages) - len(texts)
    return estimated_tokens("\n".join([wanted.system or "", *texts])) + MEDIUM * media
