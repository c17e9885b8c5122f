"""Stage 5, there and back: from a name and arguments to a result."""

from toolbus.call.caller import Caller
from toolbus.call.hooks import Call, Hook, Next, Progress

__all__ = ["Call", "Caller", "Hook", "Next", "Progress"]
