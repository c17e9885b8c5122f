"""Stage 4, shaping what a model sees: pure functions from lists of tools to lists of tools.

The dialects of providers are imported when the first of their names is used: a catalog does not need them.
"""

from typing import TYPE_CHECKING, Any

from toolbus.schema.node import declared
from toolbus.shape.as_tools import (
    LIST_RESOURCES,
    READ_RESOURCE,
    hidden_uris,
    prompt_name,
    prompt_tools,
    resource_list,
    resource_tools,
    skill_tools,
)
from toolbus.shape.clean import cleaned_block, cleaned_texts
from toolbus.shape.limit import TextLimits, limited
from toolbus.shape.naming import may_name, named, prefixed, template_name
from toolbus.shape.override import marked, overridden, repeatable, trusted
from toolbus.shape.pipeline import LeaveOut, Shaper, each, shaped
from toolbus.shape.render import rendered, rendered_text
from toolbus.shape.select import Pattern, excluding, including, selected, unmatched

if TYPE_CHECKING:
    from toolbus.shape.dialects import (
        DIALECTS,
        Definition,
        Dialect,
        Loss,
        UnknownDialect,
        converted,
        original_arguments,
        restored,
    )

__all__ = [
    "DIALECTS",
    "LIST_RESOURCES",
    "READ_RESOURCE",
    "Definition",
    "Dialect",
    "LeaveOut",
    "Loss",
    "Pattern",
    "Shaper",
    "TextLimits",
    "UnknownDialect",
    "cleaned_block",
    "cleaned_texts",
    "converted",
    "declared",
    "each",
    "excluding",
    "hidden_uris",
    "including",
    "limited",
    "marked",
    "may_name",
    "named",
    "original_arguments",
    "overridden",
    "prefixed",
    "prompt_name",
    "prompt_tools",
    "rendered",
    "rendered_text",
    "repeatable",
    "resource_list",
    "resource_tools",
    "restored",
    "selected",
    "shaped",
    "skill_tools",
    "template_name",
    "trusted",
    "unmatched",
]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from toolbus.shape import dialects

    return getattr(dialects, name)
