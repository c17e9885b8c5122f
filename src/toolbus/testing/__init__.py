"""For your tests: a server that is made of functions, a model that follows a script, and tapes.

Each is imported on first use: who tests with a fake server needs no extra, and pytest starts fast.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from toolbus.tape.session import TapeSession
    from toolbus.testing.calls import ToolCall
    from toolbus.testing.model import Reply, ScriptedModel, Turn
    from toolbus.testing.server import FakeServer

__all__ = ["FakeServer", "Reply", "ScriptedModel", "TapeSession", "ToolCall", "Turn"]
_MODULES = {
    "FakeServer": "toolbus.testing.server",
    "TapeSession": "toolbus.tape.session",
    "ToolCall": "toolbus.testing.calls",
}
"""The module of each name; the others are in `model`, which needs an extra."""


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'toolbus.testing' has no attribute {name!r}")
    try:
        value = getattr(import_module(_MODULES.get(name, "toolbus.testing.model")), name)
    except ImportError as error:
        if name in _MODULES:
            raise
        from toolbus.core.values.errors import ExtraMissing

        raise ExtraMissing(f"toolbus.testing.{name}", "agent", str(error)) from error
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
