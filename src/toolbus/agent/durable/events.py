"""The events of a durable run, besides those of every run."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from toolbus.agent.events import TextDelta, ThinkingDelta, ToolCalled, ToolReturned
from toolbus.core.values.records import JSON


@dataclass(frozen=True, slots=True, kw_only=True)
class QuestionAsked:
    """The run waits for a person, in whatever process: answer with `run.answer(...)`."""

    id: str
    """The id of the question within its run."""
    server: str
    tool: str
    message: str
    arguments: Mapping[str, JSON]
    is_approval: bool
    """Whether toolbus asks if the call may be made; otherwise its server asks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QuestionAnswered:
    """Somebody answered; the run goes on."""

    id: str
    action: str
    """What the person did: accept, decline or cancel; of an approval, the answer, such as once or no.

    `late` if nobody answered in time.
    """


DurableEvent: TypeAlias = (
    TextDelta | ThinkingDelta | ToolCalled | ToolReturned | QuestionAsked | QuestionAnswered
)
"""Texts are whole: one event for each text of the model."""
