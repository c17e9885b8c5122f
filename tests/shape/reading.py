"""JSON and JSON Schema as the tests read them."""

import json
from functools import lru_cache
from typing import Any, TypeGuard

from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError

JSON = Any
_VALIDATOR: Any = Draft202012Validator


def is_object(value: JSON) -> TypeGuard[dict[str, JSON]]:
    """Whether a value is a JSON object."""
    return isinstance(value, dict)


def is_list(value: JSON) -> TypeGuard[list[JSON]]:
    """Whether a value is a JSON array."""
    return isinstance(value, list)


def accepts(schema: JSON, value: JSON) -> bool:
    """Whether a value is valid under a schema of draft 2020-12."""
    return _VALIDATOR(schema).is_valid(value)


def fault(schema: JSON) -> str | None:
    """The reason why a schema is not valid in draft 2020-12, if so."""
    return _fault(json.dumps(schema))


@lru_cache(10_000)
def _fault(written: str) -> str | None:
    """The same, found once: most dialects have the schemas of others."""
    schema = json.loads(written)
    try:
        _VALIDATOR.check_schema(schema)
    except SchemaError as error:
        return error.message
    return None
