"""Canonical JSON as RFC 8785 defines it: its test vectors, and properties of any value."""

import json
import math
import random
import struct
from typing import Any, cast

import pytest
import rfc8785
from hypothesis import given
from hypothesis import strategies as st

from tests.inside.core import LARGEST, NotCanonical, canonical, digest
from tests.inside.lock import definition_digest
from tests.properties import modest

Schema = dict[str, Any]
NUMBERS = {  # RFC 8785, appendix B
    "0000000000000000": "0",
    "8000000000000000": "0",
    "0000000000000001": "5e-324",
    "8000000000000001": "-5e-324",
    "7fefffffffffffff": "1.7976931348623157e+308",
    "ffefffffffffffff": "-1.7976931348623157e+308",
    "4340000000000000": "9007199254740992",
    "c340000000000000": "-9007199254740992",
    "4430000000000000": "295147905179352830000",
    "44b52d02c7e14af5": "9.999999999999997e+22",
    "44b52d02c7e14af6": "1e+23",
    "44b52d02c7e14af7": "1.0000000000000001e+23",
    "444b1ae4d6e2ef4e": "999999999999999700000",
    "444b1ae4d6e2ef4f": "999999999999999900000",
    "444b1ae4d6e2ef50": "1e+21",
    "3eb0c6f7a0b5ed8c": "9.999999999999997e-7",
    "3eb0c6f7a0b5ed8d": "0.000001",
    "41b3de4355555553": "333333333.3333332",
    "41b3de4355555554": "333333333.33333325",
    "41b3de4355555555": "333333333.3333333",
    "41b3de4355555556": "333333333.3333334",
    "41b3de4355555557": "333333333.33333343",
    "becbf647612f3696": "-0.0000033333333333333333",
    "43143ff3c1cb0959": "1424953923781206.2",
}
SAMPLE = r"""{
  "numbers": [333333333.33333329, 1E30, 4.50, 2e-3, 0.000000000000000000000000001],
  "string": "\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/",
  "literals": [null, true, false]
}"""
SORTED = r"""{
  "\u20ac": "Euro Sign", "\r": "Carriage Return", "\ufb33": "Hebrew Letter Dalet With Dagesh", "1": "One",
  "\ud83d\ude00": "Emoji: Grinning Face", "\u0080": "Control", "\u00f6": "Latin Small Letter O With Diaeresis"
}"""


@pytest.mark.parametrize(("bits", "text"), NUMBERS.items())
def test_numbers_are_written_as_the_standard_says(bits: str, text: str) -> None:
    [number] = struct.unpack(">d", bytes.fromhex(bits))
    assert canonical(number) == text.encode()
    assert canonical([{"a": number}, "0.5"]) == f'[{{"a":{text}}},"0.5"]'.encode()


def test_the_sample_of_the_standard() -> None:
    expected = (
        '{"literals":[null,true,false],"numbers":[333333333.3333333,1e+30,4.5,0.002,1e-27],'
        '"string":"\u20ac$\\u000f\\nA\'B\\"\\\\\\\\\\"/"}'
    )
    assert canonical(json.loads(SAMPLE)) == expected.encode()


def test_keys_are_sorted_by_their_code_units_in_utf_16() -> None:
    found = json.loads(canonical(json.loads(SORTED)))
    assert list(found.values()) == [
        "Carriage Return",
        "One",
        "Control",
        "Latin Small Letter O With Diaeresis",
        "Euro Sign",
        "Emoji: Grinning Face",
        "Hebrew Letter Dalet With Dagesh",
    ]


def test_strings_that_look_like_numbers_or_keys_stay_as_they_are() -> None:
    value = {"a": ',1.50:1e5"', "b": [":99999999999999999999", '\U0001f600":'], "c": '\\",1.0', "d": 1.0}
    assert json.loads(canonical(value)) == value
    assert canonical(value).endswith(b',"d":1}')


REFUSED: dict[str, tuple[Any, str]] = {
    "large": (10**20, "contains 1.000e+20, an integer that JSON parsers do not read exactly"),
    "2**53": ({"a": [-(2**53)]}, "contains -9.007e+15, an integer"),
    "huge": (10**5000, "contains a value that JSON cannot express"),
    "not a number": (math.nan, "contains a value that JSON cannot express"),
    "infinite": ([math.inf], "contains a value that JSON cannot express"),
    "surrogate": ("\ud83d", "contains a lone surrogate, which is not text"),
    "surrogate key": ({"\udc00": 1}, "contains a lone surrogate, which is not text"),
    "unusual key": ({"\U0001f600": "\ud83d"}, "contains a lone surrogate, which is not text"),
    "object": (object(), "contains a value that JSON cannot express"),
}


@pytest.mark.parametrize(("value", "reason"), REFUSED.values(), ids=REFUSED.keys())
def test_what_json_cannot_express_is_refused(value: Any, reason: str) -> None:
    with pytest.raises(NotCanonical) as caught:
        canonical(value)
    assert str(caught.value).startswith(reason)


def test_a_value_that_is_nested_too_deeply_is_refused() -> None:
    value: Any = 1
    for _ in range(100_000):
        value = [value]
    with pytest.raises(NotCanonical, match="nested too deeply"):
        canonical(value)


def test_the_largest_integers_are_written() -> None:
    assert canonical([LARGEST, -LARGEST, 0]) == b"[9007199254740991,-9007199254740991,0]"


FLOATS = st.floats(allow_nan=False, allow_infinity=False)
# Between these, a number is written as an integer that Python would read with more digits than it has.
NUMBER = FLOATS.filter(lambda number: not LARGEST < abs(number) < 1e21) | st.integers(-LARGEST, LARGEST)
# With characters on both sides of those that UTF-16 sorts differently.
TEXT = st.text(st.sampled_from('aZ09.,:-eE"\\\n\u00e9\u20ac\ue000\uffee\U0001f600\U0010ffff'), max_size=8)
VALUES = st.recursive(
    st.none() | st.booleans() | NUMBER | TEXT | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=12,
)


def shuffled(value: Any, order: random.Random) -> Any:
    """The same value with its keys in another order."""
    if isinstance(value, dict):
        items = [*cast(dict[str, Any], value).items()]
        order.shuffle(items)
        return {key: shuffled(inner, order) for key, inner in items}
    if isinstance(value, list):
        return [shuffled(inner, order) for inner in cast(list[Any], value)]
    return value


@modest
@given(VALUES)
def test_canonical_json_means_the_same_value(value: Any) -> None:
    assert json.loads(canonical(value)) == value


@modest
@given(VALUES, st.randoms(use_true_random=False))
def test_the_order_of_keys_does_not_matter(value: Any, order: random.Random) -> None:
    assert canonical(shuffled(value, order)) == canonical(value)


@modest
@given(VALUES)
def test_canonical_json_is_canonical(value: Any) -> None:
    text = canonical(value)
    assert canonical(json.loads(text)) == text


@modest
@given(VALUES, VALUES)
def test_different_values_have_different_digests(one: Any, other: Any) -> None:
    assert (digest(one) == digest(other)) is (canonical(one) == canonical(other))


@modest
@given(VALUES | FLOATS | st.lists(FLOATS, max_size=4))
def test_another_implementation_writes_the_same_bytes(value: Any) -> None:
    assert canonical(value) == rfc8785.dumps(value)


@pytest.mark.parametrize("value", [value for value, _ in REFUSED.values()], ids=REFUSED.keys())
def test_another_implementation_refuses_the_same_values(value: Any) -> None:
    # Its own errors are ValueErrors, and so are those of Python, which it passes on.
    with pytest.raises(ValueError):  # noqa: PT011
        rfc8785.dumps(value)


@modest
@given(FLOATS)
def test_every_number_is_read_back_exactly(number: float) -> None:
    assert float(canonical(number)) == number


def an_object(properties: dict[str, Schema]) -> Schema:
    return {"type": "object", "properties": properties, "required": list(properties)}


LEAF: st.SearchStrategy[Schema] = st.fixed_dictionaries(
    {"type": st.sampled_from(["string", "integer"])},
    optional={"enum": st.lists(st.text(max_size=3) | st.integers(0, 9), min_size=1, max_size=4)},
)
NAMES = st.sampled_from(["a", "b", "enum", "required", "type", "title"])
SCHEMA: st.SearchStrategy[Schema] = st.recursive(
    LEAF, lambda inner: st.builds(an_object, st.dictionaries(NAMES, inner, max_size=4)), max_leaves=8
)


def reordered(schema: Schema, order: random.Random) -> Schema:
    """The same schema: keys, `required` and `enum` in another order."""
    found: Schema = {}
    for key, value in shuffled(schema, order).items():
        if key in ("required", "enum"):
            found[key] = order.sample(value, len(value))
        elif key == "properties":
            found[key] = {name: reordered(inner, order) for name, inner in value.items()}
        else:
            found[key] = value
    return found


@modest
@given(SCHEMA, st.randoms(use_true_random=False))
def test_the_order_of_sets_in_schemas_does_not_matter(schema: Schema, order: random.Random) -> None:
    one = {"name": "x", "inputSchema": schema}
    assert definition_digest({"name": "x", "inputSchema": reordered(schema, order)}) == definition_digest(one)
