"""Places where a secret shows in results, errors, events or logs of toolbus."""

import traceback
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from typing import Any, cast

from tests.inside.core import cleaned

SECRET = "s3cret-Value_9"
SHOWN = (
    "s3cret-Value_9",
    "s3cret%2DValue_9",
    "zM2NyZXQtVmFsdWVfO",
    "MzY3JldC1WYWx1ZV85",
    "czNjcmV0LVZhbHVlXz",
)


def chain(error: BaseException | None) -> list[str]:
    """All that an exception shows, and those that led to it."""
    found = [] if error is None else traceback.format_exception(error)
    while error is not None:
        found += [str(error), repr(error), repr(vars(error))]
        error = error.__cause__ or error.__context__
    return found


def strings(value: Any) -> Iterator[str]:
    """Every text in a value, and what shows it."""
    yield value if isinstance(value, str) else repr(value)
    if isinstance(value, bytes):
        yield value.decode(errors="replace")
    elif isinstance(value, Mapping):
        yield from (text for pair in cast("Mapping[Any, Any]", value).items() for text in strings(pair))
    elif isinstance(value, list | tuple):
        yield from (text for item in cast("list[Any]", value) for text in strings(item))
    elif is_dataclass(value) and not isinstance(value, type):
        yield from (text for one in fields(value) for text in strings(getattr(value, one.name)))


def leaks(found: Any) -> list[str]:
    """The texts in which the secret shows, also once hidden characters are removed."""
    shown = [form for text in strings(found) for form in (text, cleaned(text), text.replace("\b", ""))]
    return [text for text in shown if any(secret in text or secret.lower() in text for secret in SHOWN)]
