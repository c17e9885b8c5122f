"""Who answers when a server asks: one object for both eras.

Only what has a handler is declared to the servers, unless `declares_elicitation` says otherwise. What a
server asks without one is declined.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeAlias

from toolbus.core.elicitation import Answer, Elicitation
from toolbus.core.records import Audio, Image, PromptMessage, Text

ROUNDS = 10
"""How often a server may ask in one call."""
ANSWER_WITHIN = 600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampling:
    """A server wants a model to write something, at your cost."""

    server: str
    messages: tuple[PromptMessage, ...]
    max_tokens: int
    system: str | None = None
    temperature: float | None = None
    stop: tuple[str, ...] = ()
    hints: tuple[str, ...] = ()
    """Names of models that the server would like, the best first."""
    tool: str | None = None
    """The tool whose call it is asked for, where that is known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampled:
    """What the model wrote."""

    content: Text | Image | Audio
    model: str
    stop_reason: str | None = "endTurn"


Elicit: TypeAlias = Callable[[Elicitation], Answer | Awaitable[Answer]]
Sample: TypeAlias = Callable[[Sampling], Sampled | Awaitable[Sampled | None] | None]
"""None is a no."""


@dataclass(frozen=True, kw_only=True)
class Interactions:
    """The handlers: a person who answers questions, a model that writes, folders that servers may look at.

    While a handler is at work, no call of that server runs out of time.
    """

    elicit: Elicit | None = None
    sample: Sample | None = field(default=None)
    roots: Sequence[str | Path] | None = None
    """Folders, or URIs that begin with file://."""
    rounds: int = ROUNDS
    """How often a server may ask in one call."""
    answer_within: float = ANSWER_WITHIN
    """Seconds after which a question counts as cancelled."""
    declares_elicitation: bool = False
    """Declare elicitation without `elicit`, too; a question then fails its call with `InputNeeded`.

    For programs that can ask a person in some of their runs: servers offer the same tools in all of them.
    """

    def __post_init__(self) -> None:
        for name in ("elicit", "sample"):
            handler = getattr(self, name)
            if handler is not None and not callable(handler):
                raise TypeError(f"{name} must be a function, not {type(handler).__name__}")


NOBODY = Interactions()


def with_roots(interactions: Interactions, roots: Sequence[Path]) -> Interactions:
    """The handlers, with these folders if they name none themselves."""
    if not isinstance(interactions, Interactions):  # pyright: ignore[reportUnnecessaryIsInstance]  # users pass what they like
        kind = type(interactions).__name__
        raise TypeError(f"interactions must be Interactions(elicit=..., ...), not {kind}")
    return replace(interactions, roots=roots) if interactions.roots is None and roots else interactions
