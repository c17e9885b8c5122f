"""Whether a value can be encoded as JSON.

All tools are sent to a model in one request. One value that cannot be encoded would fail the whole request,
far from its origin, so values are checked where they enter.
"""

import json
from typing import Any, cast

DEEPEST = 100
"""Levels of objects and lists. Copying, comparing and encoding recurse, also in code that is not ours; real
tools have a dozen levels."""

# Circular values are reported as too deep.
_encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False, check_circular=False).encode


def encoding_problem(value: object) -> str | None:
    """The reason why a value cannot be encoded as JSON in UTF-8; None if it can."""
    try:
        text = _encode(value)
        text.encode()
    except UnicodeEncodeError:
        return "contains a lone surrogate, which is not text"
    except ValueError:
        return "contains a number that JSON cannot express"
    except TypeError as error:
        return f"contains a value that JSON cannot express: {error}"
    except RecursionError:
        return _TOO_DEEP
    brackets = text.count("{") + text.count("[")
    return _TOO_DEEP if brackets > DEEPEST and is_too_deep(value) else None


_TOO_DEEP = f"is nested deeper than {DEEPEST} levels"


def is_too_deep(value: object, widest: int | None = None) -> bool:
    """Whether a value is nested deeper than `DEEPEST`; with `widest`, some are not found, in less time."""
    level: list[object] = [value]
    for _ in range(DEEPEST):
        level = [inner for outer in level[:widest] for inner in _inside(outer)]
        if not level:
            return False
    return True


def _inside(value: object) -> list[object]:
    """The objects and lists in a value."""
    if isinstance(value, dict):
        items = list(cast("dict[Any, object]", value).values())
    else:
        items = list(cast("list[object]", value)) if isinstance(value, list | tuple) else []
    return [item for item in items if isinstance(item, dict | list | tuple)]
