"""toolbus: any MCP server, any agent, one catalog that stays alive.

Names are loaded when first used: importing toolbus costs next to nothing and does nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from toolbus.bus.catalog.tool import Tool
    from toolbus.bus.connection import McpConnection, connect_mcp
    from toolbus.bus.context import ContextProvider
    from toolbus.bus.session_view import SessionView
    from toolbus.bus.sync import SyncToolbus
    from toolbus.bus.tasks import TaskHandle
    from toolbus.bus.toolbus import Toolbus
    from toolbus.bus.view import View
    from toolbus.config import BusConfig, ServerConfig
    from toolbus.connect.auth.browser import browser_login
    from toolbus.core.ask.approval import ApprovalRequest
    from toolbus.core.ask.interactions import Interactions, LoginRequest, Sampled, Sampling
    from toolbus.core.operation.events import LoginNeeded
    from toolbus.core.operation.operation import Caller, Operation
    from toolbus.core.values.catalog import Catalog
    from toolbus.core.values.elicitation import Answer, Elicitation, Pending
    from toolbus.core.values.errors import (
        ArgumentsError,
        AuthRequired,
        BusClosed,
        CallRefused,
        CallRejected,
        CallTimeout,
        ConfigError,
        ConfigNotTrusted,
        ConnectFailed,
        ExtraMissing,
        InputNeeded,
        LinkLost,
        LockError,
        LoginRequired,
        ResourceTooLarge,
        SecretMissing,
        ServerDown,
        ServerError,
        ServerNotFound,
        ShaperFailed,
        SignInFailed,
        SkillRejected,
        TokenStoreError,
        ToolbusError,
        ToolFailed,
        ToolNotFound,
        TooManySessions,
    )
    from toolbus.core.values.records import (
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
    from toolbus.core.values.skills import LoadedSkill, Skill
    from toolbus.lock.drift import Held
    from toolbus.search.hit import Hit
    from toolbus.state.tokens.store import TokenStore

    __version__: str

_HOMES = {
    "bus": ["Toolbus"],
    "core.values.catalog": ["Catalog"],
    "config": ["BusConfig", "ServerConfig"],
    "connect.auth.browser": ["browser_login"],
    "bus.connection": ["McpConnection", "connect_mcp"],
    "bus.context": ["ContextProvider"],
    "core.values.errors": [
        "ArgumentsError",
        "AuthRequired",
        "BusClosed",
        "CallRefused",
        "CallRejected",
        "CallTimeout",
        "ConfigError",
        "ConfigNotTrusted",
        "ConnectFailed",
        "ExtraMissing",
        "InputNeeded",
        "LinkLost",
        "LockError",
        "LoginRequired",
        "ResourceTooLarge",
        "SecretMissing",
        "ServerDown",
        "ServerError",
        "ServerNotFound",
        "ShaperFailed",
        "SkillRejected",
        "SignInFailed",
        "TokenStoreError",
        "ToolFailed",
        "ToolNotFound",
        "TooManySessions",
        "ToolbusError",
    ],
    "core.ask.approval": ["ApprovalRequest"],
    "core.operation.events": ["LoginNeeded"],
    "core.ask.interactions": ["Interactions", "LoginRequest", "Sampled", "Sampling"],
    "bus.tasks": ["TaskHandle"],
    "core.values.elicitation": ["Answer", "Elicitation", "Pending"],
    "core.operation.operation": ["Caller", "Operation"],
    "core.values.records": [
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
    "core.values.skills": ["LoadedSkill", "Skill"],
    "bus.catalog.tool": ["Tool"],
    "bus.session_view": ["SessionView"],
    "bus.sync": ["SyncToolbus"],
    "bus.view": ["View"],
    "lock.drift": ["Held"],
    "search.hit": ["Hit"],
    "state.tokens.store": ["TokenStore"],
}
_HOME = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "Answer",
    "ApprovalRequest",
    "ArgumentsError",
    "Audio",
    "AuthRequired",
    "BusClosed",
    "BusConfig",
    "CallRefused",
    "CallRejected",
    "CallTimeout",
    "Caller",
    "Catalog",
    "ConfigError",
    "ConfigNotTrusted",
    "ConnectFailed",
    "ContextProvider",
    "Elicitation",
    "Embedded",
    "ExtraMissing",
    "Health",
    "Held",
    "Hit",
    "Image",
    "InputNeeded",
    "Interactions",
    "LinkLost",
    "LoadedSkill",
    "LockError",
    "LoginNeeded",
    "LoginRequest",
    "LoginRequired",
    "McpConnection",
    "Operation",
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
    "SessionView",
    "ShaperFailed",
    "SignInFailed",
    "Skill",
    "SkillRejected",
    "SyncToolbus",
    "TaskHandle",
    "Text",
    "TokenStore",
    "TokenStoreError",
    "TooManySessions",
    "Tool",
    "ToolFailed",
    "ToolNotFound",
    "ToolResult",
    "ToolSpec",
    "Toolbus",
    "ToolbusError",
    "View",
    "__version__",
    "browser_login",
    "connect_mcp",
]


def __getattr__(name: str) -> Any:
    if name == "__version__":
        value: Any = import_module("toolbus.core").version()
    elif name in _HOME:
        value = getattr(import_module(f"toolbus.{_HOME[name]}"), name)
    else:
        raise AttributeError(f"module 'toolbus' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
