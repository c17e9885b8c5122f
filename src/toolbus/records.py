"""The values that methods take and return: content blocks, resources, prompts, states.

Names of other parts are imported on first use.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from toolbus.core.ask.interactions import LoginRequest, Sampling, SamplingResult
from toolbus.core.values.catalog import Catalog
from toolbus.core.values.records import (
    JSON,
    Audio,
    Block,
    Change,
    Completion,
    Embedded,
    Health,
    Image,
    Inventory,
    Origin,
    Progress,
    Prompt,
    PromptArgument,
    PromptMessage,
    PromptResult,
    Quarantined,
    Resource,
    ResourceLink,
    ResourceTemplate,
    ResultShape,
    ServerStatus,
    TaskState,
    Text,
    ToolResult,
    ToolSpec,
)
from toolbus.core.values.skills import LoadedSkill, Skill

if TYPE_CHECKING:
    from toolbus.bus.tasks import TaskHandle
    from toolbus.lock.drift import HeldTool
    from toolbus.search.hit import SearchHit
    from toolbus.tape.matching import Matching

_MODULES = {
    "HeldTool": "lock.drift",
    "Matching": "tape.matching",
    "SearchHit": "search.hit",
    "TaskHandle": "bus.tasks",
}

__all__ = [
    "JSON",
    "Audio",
    "Block",
    "Catalog",
    "Change",
    "Completion",
    "Embedded",
    "Health",
    "HeldTool",
    "Image",
    "Inventory",
    "LoadedSkill",
    "LoginRequest",
    "Matching",
    "Origin",
    "Progress",
    "Prompt",
    "PromptArgument",
    "PromptMessage",
    "PromptResult",
    "Quarantined",
    "Resource",
    "ResourceLink",
    "ResourceTemplate",
    "ResultShape",
    "Sampling",
    "SamplingResult",
    "SearchHit",
    "ServerStatus",
    "Skill",
    "TaskHandle",
    "TaskState",
    "Text",
    "ToolResult",
    "ToolSpec",
]


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'toolbus.records' has no attribute {name!r}")
    value = getattr(import_module(f"toolbus.{_MODULES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
