"""Tool definitions in the dialect of each provider, with a report of losses."""

from toolbus.shape.dialects.definition import (
    GRADES,
    Definition,
    Dialect,
    Grade,
    Kind,
    Loss,
    original_arguments,
    restored,
)
from toolbus.shape.dialects.providers import DIALECTS, UnknownDialect, converted, converted_once

__all__ = [
    "DIALECTS",
    "GRADES",
    "Definition",
    "Dialect",
    "Grade",
    "Kind",
    "Loss",
    "UnknownDialect",
    "converted",
    "converted_once",
    "original_arguments",
    "restored",
]
