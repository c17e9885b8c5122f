"""Let jsonschema decide whether a value fits. The one place that knows it; the network is never asked."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from itertools import islice
from typing import Any, TypeVar

from toolbus.call.arguments.document import is_closed, rebuilt
from toolbus.core.records import JSON

_T = TypeVar("_T")
_MOST_FAULTS = 200
_PATIENCE = 1.0
"""How many seconds of its thread a hearing takes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One reason why a value does not fit, as jsonschema found it."""

    path: tuple[str | int, ...]
    """From the root of the value to the place."""
    keyword: str | None
    """None where the schema is `false`."""
    limit: JSON
    """What stands at the keyword."""
    schema: JSON
    value: JSON
    branches: "tuple[tuple[Fault, ...], ...]" = ()
    """Of `anyOf` and `oneOf`: why each alternative does not fit."""


class Validator:
    """The verdicts of one schema. Only `judge_of` makes one."""

    def __init__(self, schema: JSON, as_meant: JSON, kind: Any) -> None:
        registry = import_module("referencing").Registry()
        self.schema = as_meant
        """The schema, with `nullable` of OpenAPI said in JSON Schema."""
        self._meant = kind(as_meant, registry=registry)
        self._literal = None if as_meant == schema else kind(schema, registry=registry)

    def accepts(self, value: JSON) -> bool | None:
        """Whether the whole value fits; None if that cannot be said."""
        literal = self._literal
        fits = _answered(lambda: self._meant.is_valid(value))
        if fits is not False or literal is None:
            return fits
        return _answered(lambda: literal.is_valid(value))

    def fits(self, value: JSON, schema: JSON) -> bool | None:
        """Whether the value fits a schema that stands somewhere in this one; None as above."""
        return _answered(lambda: self._meant.evolve(schema=schema).is_valid(value))

    def faults(self, value: JSON) -> list[Fault]:
        """Why the value does not fit, by place; the first ones if there are many."""
        errors = _answered(lambda: [_fault(e) for e in islice(self._meant.iter_errors(value), _MOST_FAULTS)])
        return sorted(errors or [], key=lambda fault: [_sortable(step) for step in fault.path])


def judge_of(schema: JSON) -> Validator | None:
    """The judge of a schema; None if it is invalid, endless, or refers to what is not in it."""
    return _answered(lambda: _judge_of(schema))


def _judge_of(schema: JSON) -> Validator | None:
    validators: Any = import_module("jsonschema.validators")
    kind = validators.validator_for(schema, default=validators.Draft202012Validator)
    kind.check_schema(schema)
    every: list[dict[str, JSON]] = []
    as_meant = rebuilt(schema, every)
    return Validator(schema, as_meant, kind) if is_closed(as_meant, every) else None


def _answered(question: Callable[[], _T]) -> _T | None:
    """The answer; None if the schema makes jsonschema stumble, however: then the server decides."""
    try:
        return question()
    # Endless references, numbers too large to print, comparisons of what cannot be compared, and more.
    except Exception:
        return None
    except BaseException as error:
        # What rpds raises where the recursion ends inside of it; it has no name that could be imported.
        if type(error).__name__ != "PanicException":
            raise
        return None


class TimeBox:
    """The questions of one check to the judge, bounded: when it is over, nothing fits any more."""

    def __init__(self, judge: Validator) -> None:
        self.schema = judge.schema
        self._judge = judge
        # Time, not questions: with references that branch, one question may take as long as a thousand.
        self._end = time.thread_time() + _PATIENCE

    def fits(self, value: JSON, schema: JSON) -> bool:
        """Whether a value is known to fit a schema that stands somewhere in the judge's."""
        return not self.is_over and self._judge.fits(value, schema) is True

    @property
    def is_over(self) -> bool:
        """Whether there was enough."""
        return time.thread_time() > self._end

    def faults(self, value: JSON) -> list[Fault]:
        """As the judge's."""
        return self._judge.faults(value)


def _sortable(step: str | int) -> str:
    return step if isinstance(step, str) else f"{step:09}"


def _fault(error: Any) -> Fault:
    branches: dict[Any, list[Fault]] = {}
    for inner in error.context or ():
        branches.setdefault(inner.schema_path[0] if inner.schema_path else None, []).append(_fault(inner))
    return Fault(
        path=tuple(error.absolute_path),
        keyword=error.validator,
        limit=error.validator_value,
        schema=error.schema,
        value=error.instance,
        branches=tuple(map(tuple, branches.values())),
    )
