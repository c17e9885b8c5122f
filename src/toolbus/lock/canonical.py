"""Canonical JSON (RFC 8785): one text for one value, whatever the order of its keys, and its digest."""

import hashlib
import json
import math
import re
from decimal import Decimal

from toolbus.schema.values import JSON, is_array, is_object

LARGEST = 2**53 - 1
"""The largest integer that every JSON parser reads exactly."""
# Whether a text may contain a number that Python writes differently, or a key that it sorts differently.
_UNUSUAL = re.compile(r"\d(?:[.eE]|\d{15})|[\ue000-\U0010ffff]")
_plain = json.JSONEncoder(
    sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False, check_circular=False
).encode
_quoted = json.JSONEncoder(ensure_ascii=False).encode


class NotCanonical(ValueError):
    """A value that canonical JSON cannot express."""


def canonical(value: JSON) -> bytes:
    """The value as canonical JSON; `NotCanonical` if it cannot be expressed."""
    try:
        text = _plain(value)
        # Written by C, and the same for nearly all values.
        return (_written(value) if _UNUSUAL.search(text) else text).encode()
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
    return f"sha256:{hashlib.sha256(canonical(value)).hexdigest()}"


def _written(value: JSON) -> str:
    if is_object(value):
        # By UTF-16 code units, as RFC 8785 requires; the code points of Python have another order.
        keys = sorted(value, key=lambda key: key.encode("utf-16-be", "surrogatepass"))
        return "{" + ",".join(f"{_quoted(key)}:{_written(value[key])}" for key in keys) + "}"
    if is_array(value):
        return "[" + ",".join(map(_written, value)) + "]"
    if isinstance(value, float):
        return _number(value)
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) > LARGEST:
        raise NotCanonical(f"contains {value:.3e}, an integer that JSON parsers do not read exactly")
    return _plain(value)


def _number(value: float) -> str:
    """The number as ECMAScript writes it."""
    if not math.isfinite(value):
        raise NotCanonical("contains a number that JSON cannot express")
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
