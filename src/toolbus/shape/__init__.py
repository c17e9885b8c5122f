"""Stage 4, shaping what a model sees: pure functions from lists of tools to lists of tools."""

from toolbus.schema.node import declared
from toolbus.shape.as_tools import (
    LIST_RESOURCES,
    READ_RESOURCE,
    listing,
    prompt_of,
    prompt_tools,
    reading_tools,
)
from toolbus.shape.clean import cleaned_texts
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
from toolbus.shape.naming import may_name, named, prefixed, spelt
from toolbus.shape.override import marked, overridden
from toolbus.shape.pipeline import LeaveOut, Shaper, each, shaped
from toolbus.shape.render import rendered, rendered_text
from toolbus.shape.select import Pattern, excluding, including, selected, unmatched

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
    "UnknownDialect",
    "cleaned_texts",
    "converted",
    "declared",
    "each",
    "excluding",
    "including",
    "listing",
    "marked",
    "may_name",
    "named",
    "original_arguments",
    "overridden",
    "prefixed",
    "prompt_of",
    "prompt_tools",
    "reading_tools",
    "rendered",
    "rendered_text",
    "restored",
    "selected",
    "shaped",
    "spelt",
    "unmatched",
]
