"""The events of a bus: what `events()` yields, and what `on_event` calls your function with."""

from toolbus.core.operation.events import (
    CallEnded,
    CallStarted,
    CatalogChanged,
    Event,
    EventStream,
    InputAnswered,
    InputAsked,
    ListChanged,
    Logged,
    LoginNeeded,
    Progressed,
    Reason,
    ResourceUpdated,
    StateChanged,
    ToolHeld,
    Warned,
)

__all__ = [
    "CallEnded",
    "CallStarted",
    "CatalogChanged",
    "Event",
    "EventStream",
    "InputAnswered",
    "InputAsked",
    "ListChanged",
    "Logged",
    "LoginNeeded",
    "Progressed",
    "Reason",
    "ResourceUpdated",
    "StateChanged",
    "ToolHeld",
    "Warned",
]
