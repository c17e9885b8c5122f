"""The events of a bus, for `events()` and `on_event`."""

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
