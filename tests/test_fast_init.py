"""Frozen records whose objects are made fast."""

import copy
import inspect
import pickle
from dataclasses import FrozenInstanceError, dataclass, field, replace
from typing import Any

import pytest

from tests.inside.core import with_fast_init


@dataclass(frozen=True, slots=True, kw_only=True)
class Plain:
    name: str
    size: int = 1
    parts: list[int] = field(default_factory=list[int])
    cache: dict[str, Any] = field(default_factory=dict[str, Any], init=False, repr=False, compare=False)


@with_fast_init
@dataclass(frozen=True, slots=True, kw_only=True)
class Fast:
    name: str
    size: int = 1
    parts: list[int] = field(default_factory=list[int])
    cache: dict[str, Any] = field(default_factory=dict[str, Any], init=False, repr=False, compare=False)


def test_a_fast_record_is_made_as_a_plain_one() -> None:
    assert repr(Fast(name="a")) == "Fast(name='a', size=1, parts=[])"
    assert Fast(name="a") == Fast(name="a", size=1, parts=[])
    assert replace(Fast(name="a"), size=2) == Fast(name="a", size=2)
    assert inspect.signature(Fast) == inspect.signature(Plain)


def test_each_record_gets_its_own_default() -> None:
    first, second = Fast(name="a"), Fast(name="b")
    first.parts.append(1)
    first.cache["x"] = 1
    assert (second.parts, second.cache) == ([], {})


def test_a_fast_record_can_be_copied_and_stored() -> None:
    record = Fast(name="a", parts=[1])
    assert copy.deepcopy(record) == record
    assert pickle.loads(pickle.dumps(record)) == record


def test_a_fast_record_stays_frozen() -> None:
    record = Fast(name="a")
    with pytest.raises(FrozenInstanceError):
        record.name = "b"  # pyright: ignore[reportAttributeAccessIssue]  # the point
    with pytest.raises(FrozenInstanceError):
        del record.name  # pyright: ignore[reportAttributeAccessIssue]  # likewise


def test_arguments_are_checked() -> None:
    with pytest.raises(TypeError, match="missing 1 required keyword-only argument: 'name'"):
        Fast()  # pyright: ignore[reportCallIssue]  # the point
    with pytest.raises(TypeError, match="unexpected keyword argument 'cache'"):
        Fast(name="a", cache={})  # pyright: ignore[reportCallIssue]  # the point
