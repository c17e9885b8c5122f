"""JSON: whether a value can be written as JSON, and its canonical text (RFC 8785) with its digest.

Python's encoder, which is written in C, does nearly all of it. The exceptions are numbers with a fraction or
an exponent, which are replaced in its text, and keys with characters that sort differently in UTF-16.
"""

import json
import math
import re
from collections.abc import Callable, Iterable
from decimal import Decimal
from hashlib import sha256
from typing import Any, cast

from toolbus.schema.values import JSON, is_array, is_object

LARGEST = 2**53 - 1
"""The largest integer that every JSON parser reads exactly."""
_STRING = r'"(?:[^"\\]++|\\.)*+"'
_STRINGS = re.compile(_STRING)
_STRING_OR_NUMBER = re.compile(rf"{_STRING}|-?\d[\d.eE+-]*")
# Numbers that Python writes differently, or that may be too large.
_UNUSUAL_NUMBER = re.compile(rf"\d(?:[.eE]|\d{{16}}|\d{{15}}(?<!{LARGEST}))")
# Keys that Python sorts differently; any other string that looks like one costs time, no more.
_UNUSUAL_KEY = re.compile(r"""[\ue000-\U0010ffff][^"]*":""")
_encoder = json.JSONEncoder(
    sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False, check_circular=False
)


def _make_writer() -> Callable[[JSON, int], Iterable[str]]:
    """Python's encoder, made once: `JSONEncoder.encode` makes another for each value, which takes longer.

    It returns parts of the text.
    """
    make: Any = getattr(json.encoder, "c_make_encoder", None)
    quoted: Any = getattr(json.encoder, "encode_basestring", None)
    try:
        write = make(None, _encoder.default, quoted, None, ":", ",", True, False, False)
        assert "".join(write({"b": ["\xe4", 1], "a": None}, 0)) == '{"a":null,"b":["\xe4",1]}'
    except Exception:  # another Python, with another encoder
        return lambda value, _: (_encoder.encode(value),)
    return write


_write = _make_writer()


def _written(value: JSON) -> str:
    return "".join(_write(value, 0))


class NotCanonical(ValueError):
    """A value that canonical JSON cannot express."""


def canonical(value: JSON) -> bytes:
    """The value as canonical JSON; `NotCanonical` if it cannot be expressed."""
    try:
        text = "".join(_write(value, 0))
        if not text.isascii() and _UNUSUAL_KEY.search(text):
            text = _sorted(value)
        # Twice, because most texts have none, not even in a string, and the first search is much faster.
        if _UNUSUAL_NUMBER.search(text) and _UNUSUAL_NUMBER.search(_STRINGS.sub("", text)):
            text = _STRING_OR_NUMBER.sub(_token, text)
        return text.encode()
    except UnicodeEncodeError:
        raise NotCanonical("contains a lone surrogate, which is not text") from None
    except RecursionError:
        raise NotCanonical("is nested too deeply") from None
    except NotCanonical:
        raise
    except (ValueError, TypeError):
        raise NotCanonical("contains a value that JSON cannot express") from None


def digest(value: JSON) -> str:
    """The SHA-256 of the value as canonical JSON: `sha256:1f2e...`."""
    return "sha256:" + sha256(canonical(value)).hexdigest()


def digest_of(value: JSON) -> str:
    """Like `digest`, but for any value: `json-sha256:...` if canonical JSON cannot express it."""
    try:
        return "sha256:" + sha256(canonical(value)).hexdigest()
    except NotCanonical:
        text = json.dumps(value, sort_keys=True, default=repr)
        return f"json-sha256:{sha256(text.encode()).hexdigest()}"


def _sorted(value: JSON) -> str:
    """The value with its keys in the order of their UTF-16 code units."""
    if is_object(value):
        keys = sorted(value, key=lambda key: key.encode("utf-16-be", "surrogatepass"))
        return "{" + ",".join(f"{_written(key)}:{_sorted(value[key])}" for key in keys) + "}"
    if is_array(value):
        return "[" + ",".join(map(_sorted, value)) + "]"
    return _written(value)


def _token(found: re.Match[str]) -> str:
    token = found.group()
    if token.startswith('"'):
        return token
    if not token.lstrip("-").isdigit():
        return _number(float(token))
    if abs(int(token)) > LARGEST:
        raise NotCanonical(f"contains {int(token):.3e}, an integer that JSON parsers do not read exactly")
    return token


def _number(value: float) -> str:
    assert math.isfinite(value), "it was written as JSON"
    if value.is_integer() and abs(value) <= LARGEST:
        return str(int(value))
    sign, digits, exponent = Decimal(repr(value)).normalize().as_tuple()
    assert isinstance(exponent, int), "it is finite"
    text, point = "".join(map(str, digits)), len(digits) + exponent
    if 0 < point <= 21:
        shown = text.ljust(point, "0") if point >= len(text) else f"{text[:point]}.{text[point:]}"
    elif -6 < point <= 0:
        shown = f"0.{'0' * -point}{text}"
    else:
        shown = f"{text[0]}{'.' if len(text) > 1 else ''}{text[1:]}e{point - 1:+d}"
    return f"-{shown}" if sign else shown


DEEPEST = 100
"""The maximum depth of objects and lists.

Copying, comparing and encoding recurse, even in code that is not ours. Real tools have a dozen levels.
"""

# Circular values are reported as too deep.
_encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False, check_circular=False).encode


def encoding_problem(value: object) -> str | None:
    """The reason why a value cannot be encoded as JSON in UTF-8; None if it can.

    Values are checked where they enter. All tools are sent to a model in one request, and one value that
    cannot be encoded would fail it, far from its origin.
    """
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
    if isinstance(value, dict):
        items = list(cast("dict[Any, object]", value).values())
    else:
        items = list(cast("list[object]", value)) if isinstance(value, list | tuple) else []
    return [item for item in items if isinstance(item, dict | list | tuple)]
