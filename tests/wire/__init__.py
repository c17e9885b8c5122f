"""A model provider on this machine that plays a script: real clients, real wire formats, no key, no model."""

from tests.wire.asked import Asked, Given
from tests.wire.provider import Provider
from tests.wire.turn import Fault, Say, ToolCall, Turn

__all__ = ["Asked", "Fault", "Given", "Provider", "Say", "ToolCall", "Turn"]
