"""Stage 5, there and back: from a name and arguments to a result."""

from toolbus.call.caller import Caller
from toolbus.call.hooks import Call, Hook, Next, OnInput, Progress, Resumed
from toolbus.call.reports import Failure
from toolbus.call.resource_tools import ResourceTools
from toolbus.call.result_store import READ_RESULT
from toolbus.call.results import Results

__all__ = [
    "READ_RESULT",
    "Call",
    "Caller",
    "Failure",
    "Hook",
    "Next",
    "OnInput",
    "Progress",
    "ResourceTools",
    "Results",
    "Resumed",
]
