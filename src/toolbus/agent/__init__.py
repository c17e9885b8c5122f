"""A small agent with MCP tools and your own functions, for any model that Pydantic AI supports.

Modules that need Pydantic AI are imported on first use: looking at durable runs works without it.
"""

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from toolbus.agent.events import (
    ApprovalAsked,
    RunEvent,
    TextDelta,
    ThinkingDelta,
    ToolCalled,
    ToolProgressed,
    ToolReturned,
)
from toolbus.core.values.errors import ExtraMissing

if find_spec("pydantic_ai") is None:
    raise ExtraMissing("toolbus.agent", "agent", "No module named 'pydantic_ai'")

if TYPE_CHECKING:
    from toolbus.agent.agent import Agent, generate, stream
    from toolbus.agent.models import ModelFailed
    from toolbus.agent.run import LimitReached, Limits, Run, RunResult
    from toolbus.agent.sampling import Sampler
    from toolbus.agent.tools import NameClash

_MODULES = {
    "Agent": "agent",
    "LimitReached": "run",
    "Limits": "run",
    "ModelFailed": "models",
    "NameClash": "tools",
    "Run": "run",
    "RunResult": "run",
    "Sampler": "sampling",
    "generate": "agent",
    "stream": "agent",
}

__all__ = [
    "Agent",
    "ApprovalAsked",
    "LimitReached",
    "Limits",
    "ModelFailed",
    "NameClash",
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


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'toolbus.agent' has no attribute {name!r}")
    try:
        import_module("pydantic_ai")
    except ImportError as error:  # it is there, but does not work
        raise ExtraMissing("toolbus.agent", "agent", str(error)) from error
    value = getattr(import_module(f"toolbus.agent.{_MODULES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
