"""Stage 5, calls: the one path of every operation to a server and back."""

from toolbus.call.path import CallPath, EventObserver, Hook, Next
from toolbus.call.result_store import READ_RESULT
from toolbus.call.results import Results
from toolbus.call.routes import ServerRequests, ServerRoutes
from toolbus.core.operation.operation import OnInput, Operation, Resumed
from toolbus.core.values.records import Progress

__all__ = [
    "READ_RESULT",
    "CallPath",
    "EventObserver",
    "Hook",
    "Next",
    "OnInput",
    "Operation",
    "Progress",
    "Results",
    "Resumed",
    "ServerRequests",
    "ServerRoutes",
]
