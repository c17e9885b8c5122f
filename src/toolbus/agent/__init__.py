"""A small agent: MCP tools beside functions of yours, on any model that pydantic-ai knows."""

from toolbus.core.errors import ExtraMissing

try:
    import pydantic_ai

    del pydantic_ai  # only to say what to install, before anything else is tried
except ImportError as error:
    raise ExtraMissing("toolbus.agent", "agent", str(error)) from error

from toolbus.adapters.approval import Request
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
