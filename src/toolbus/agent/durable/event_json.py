"""Events as JSON, and back; without Pydantic AI, which whoever only watches runs does not need."""

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from pydantic_core import to_jsonable_python

from toolbus.agent.durable.events import DurableEvent, QuestionAnswered, QuestionAsked
from toolbus.agent.events import TextDelta, ThinkingDelta, ToolCalled, ToolReturned
from toolbus.core.records import JSON

_EVENTS = {
    kind.__name__: kind
    for kind in (TextDelta, ThinkingDelta, ToolCalled, ToolReturned, QuestionAsked, QuestionAnswered)
}


def event_json(event: DurableEvent) -> dict[str, JSON]:
    """An event; images are left out, the texts are what the model reads."""
    values = {field.name: getattr(event, field.name) for field in fields(event) if field.name != "images"}
    return to_jsonable_python({"event": type(event).__name__, **values}, fallback=str)


def read_event(stored: Mapping[str, Any]) -> DurableEvent | None:
    """The event of `event_json`; None for one of another version of toolbus."""
    kind = _EVENTS.get(stored["event"])
    if kind is None:
        return None
    known = {field.name for field in fields(kind)}
    return kind(**{name: value for name, value in stored.items() if name in known})
