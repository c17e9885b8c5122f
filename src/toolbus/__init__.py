"""toolbus: any MCP server, any agent, one catalog that stays alive.

Names are loaded when first used: importing toolbus costs next to nothing and does nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from toolbus.bus import Toolbus
    from toolbus.catalog import Catalog
    from toolbus.config import BusConfig, ServerConfig
    from toolbus.connection import McpConnection, connect_mcp
    from toolbus.context import ContextProvider
    from toolbus.errors import (
        ArgumentsError,
        AuthRequired,
        BusClosed,
        CallRejected,
        CallTimeout,
        ConfigError,
        ConfigNotTrusted,
        ConnectFailed,
        ExtraMissing,
        InputNeeded,
        LinkLost,
        ResourceTooLarge,
        SecretMissing,
        ServerDown,
        ServerError,
        ServerNotFound,
        ShaperFailed,
        ToolbusError,
        ToolFailed,
        ToolNotFound,
    )
    from toolbus.interactions import Interactions, Sampled, Sampling
    from toolbus.later import TaskHandle
    from toolbus.questions import Answer, Elicitation, Pending
    from toolbus.records import (
        Audio,
        Embedded,
        Health,
        Image,
        Origin,
        ResourceLink,
        ServerStatus,
        Text,
        ToolResult,
        ToolSpec,
    )
    from toolbus.tool import Tool

    __version__: str

_HOMES = {
    "bus": ["Toolbus"],
    "catalog": ["Catalog"],
    "config": ["BusConfig", "ServerConfig"],
    "connection": ["McpConnection", "connect_mcp"],
    "context": ["ContextProvider"],
    "errors": [
        "ArgumentsError",
        "AuthRequired",
        "BusClosed",
        "CallRejected",
        "CallTimeout",
        "ConfigError",
        "ConfigNotTrusted",
        "ConnectFailed",
        "ExtraMissing",
        "InputNeeded",
        "LinkLost",
        "ResourceTooLarge",
        "SecretMissing",
        "ServerDown",
        "ServerError",
        "ServerNotFound",
        "ShaperFailed",
        "ToolFailed",
        "ToolNotFound",
        "ToolbusError",
    ],
    "interactions": ["Interactions", "Sampled", "Sampling"],
    "later": ["TaskHandle"],
    "questions": ["Answer", "Elicitation", "Pending"],
    "records": [
        "Audio",
        "Embedded",
        "Health",
        "Image",
        "Origin",
        "ResourceLink",
        "ServerStatus",
        "Text",
        "ToolResult",
        "ToolSpec",
    ],
    "tool": ["Tool"],
}
_HOME = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "Answer",
    "ArgumentsError",
    "Audio",
    "AuthRequired",
    "BusClosed",
    "BusConfig",
    "CallRejected",
    "CallTimeout",
    "Catalog",
    "ConfigError",
    "ConfigNotTrusted",
    "ConnectFailed",
    "ContextProvider",
    "Elicitation",
    "Embedded",
    "ExtraMissing",
    "Health",
    "Image",
    "InputNeeded",
    "Interactions",
    "LinkLost",
    "McpConnection",
    "Origin",
    "Pending",
    "ResourceLink",
    "ResourceTooLarge",
    "Sampled",
    "Sampling",
    "SecretMissing",
    "ServerConfig",
    "ServerDown",
    "ServerError",
    "ServerNotFound",
    "ServerStatus",
    "ShaperFailed",
    "TaskHandle",
    "Text",
    "Tool",
    "ToolFailed",
    "ToolNotFound",
    "ToolResult",
    "ToolSpec",
    "Toolbus",
    "ToolbusError",
    "__version__",
    "connect_mcp",
]


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        value: Any = version("toolbus")
    elif name in _HOME:
        value = getattr(import_module(f"toolbus.{_HOME[name]}"), name)
    else:
        raise AttributeError(f"module 'toolbus' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
