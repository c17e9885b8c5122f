"""A small agent with MCP tools and your own functions, for any model that Pydantic AI supports."""

from toolbus.core.errors import ExtraMissing

try:
    import pydantic_ai

    del pydantic_ai  # only checks that it is installed, for a clear error
except ImportError as error:
    raise ExtraMissing("toolbus.agent", "agent", str(error)) from error

from toolbus.agent.agent import Agent
from toolbus.agent.events import (
    ApprovalAsked,
    RunEvent,
    TextDelta,
    ThinkingDelta,
    ToolCalled,
    ToolProgressed,
    ToolReturned,
)
from toolbus.agent.failures import ModelFailed, NameClash
from toolbus.agent.limits import LimitReached, Limits
from toolbus.agent.oneshot import generate, stream
from toolbus.agent.run import Run, RunResult
from toolbus.agent.sampling import Sampler
from toolbus.core.approval import ApprovalRequest as Request

__all__ = [
    "Agent",
    "ApprovalAsked",
    "LimitReached",
    "Limits",
    "ModelFailed",
    "NameClash",
    "Request",
    "Run",
    "RunEvent",
    "RunResult",
    "Sampler",
    "TextDelta",
    "ThinkingDelta",
    "ToolCalled",
    "ToolProgressed",
    "ToolReturned",
    "generate",
    "stream",
]
