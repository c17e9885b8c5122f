"""The validators of jsonschema-rs. The one place that imports it, when it is first needed.

Its regular expressions take linear time, and formats are annotations. A reference is never fetched.
"""

from importlib import import_module
from typing import Any, Literal

from toolbus.schema.values import JSON

_LARGEST_PATTERN = 1_000_000
"""Bytes of a compiled pattern; `schema.patterns` refuses nearly all of these before they are compiled."""


def package() -> Any:
    """The package itself."""
    return import_module("jsonschema_rs")


def compiled(schema: JSON, function: Literal["validator_for", "validator_map_for"] = "validator_for") -> Any:
    """The validator of a schema; ValueError if the schema is invalid."""
    jsonschema_rs = package()
    return getattr(jsonschema_rs, function)(
        schema,
        offline=True,
        validate_formats=False,
        pattern_options=jsonschema_rs.RegexOptions(size_limit=_LARGEST_PATTERN),
    )
