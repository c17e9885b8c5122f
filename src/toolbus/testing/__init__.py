"""For your tests: a server that is made of functions, and a model that follows a script.

Each is imported on first use: who tests with a fake server needs no extra.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from toolbus.core.values.errors import ExtraMissing
from toolbus.testing.calls import ToolCall

if TYPE_CHECKING:
    from toolbus.testing.model import Reply, ScriptedModel, Turn
    from toolbus.testing.server import FakeServer

__all__ = ["FakeServer", "Reply", "ScriptedModel", "ToolCall", "Turn"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'toolbus.testing' has no attribute {name!r}")
    module = "server" if name == "FakeServer" else "model"
    try:
        value = getattr(import_module(f"toolbus.testing.{module}"), name)
    except ImportError as error:
        if module == "server":
            raise
        raise ExtraMissing(f"toolbus.testing.{name}", "agent", str(error)) from error
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
