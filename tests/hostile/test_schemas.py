"""Schemas that are made to take long: listing, converting and checking stay fast, and no call is lost."""

from functools import partial
from typing import Any

import pytest

from tests.budget import BUDGET, within_budget
from tests.conftest import sampled
from tests.hostile.schemas import CASES
from tests.inside.call import ArgumentCheck
from tests.inside.connect import OutputCheck
from tests.inside.core import tool_spec
from tests.inside.shape import DIALECTS, cleaned_texts
from toolbus.records import Quarantined, ToolSpec
from toolbus.shape import converted

SOME = list(CASES)[::5]


def listed(schema: dict[str, Any]) -> ToolSpec | Quarantined:
    tool = {"name": "t", "inputSchema": schema, "outputSchema": schema}
    return within_budget(lambda: tool_spec("a", tool))


@pytest.mark.parametrize("name", CASES)
def test_a_listed_schema_that_takes_long(name: str) -> None:
    """Listing a tool and converting it for any provider takes no longer than its budget."""
    spec = listed(CASES[name][0])
    if isinstance(spec, Quarantined):
        assert spec.reason == "inputSchema is nested deeper than 100 levels"
        return
    (clean,) = within_budget(lambda: cleaned_texts()([spec]))
    for dialect in DIALECTS:
        assert within_budget(partial(converted, clean, dialect)).value


@pytest.mark.parametrize("name", CASES)
def test_arguments_whose_schema_takes_long(name: str) -> None:
    """A call is checked within its budget, or made unchecked."""
    schema, value, valid = CASES[name]
    spec = listed(schema)
    replaced = isinstance(spec, Quarantined) or spec.input_schema is not schema
    check = within_budget(lambda: ArgumentCheck({} if isinstance(spec, Quarantined) else spec.input_schema))
    checked = [within_budget(lambda: check.checked(value)) for _ in range(2)]
    if valid is not None and not replaced:
        assert [found.problem is None for found in checked] == [valid] * 2
    assert all(found.arguments is value for found in checked)


@pytest.mark.parametrize("name", sampled(list(CASES), *SOME))
def test_output_whose_schema_takes_long(name: str) -> None:
    """A result is checked within its budget, or reported as not checked; it is never lost."""
    schema, value, valid = CASES[name]
    spec = listed(schema)
    if isinstance(spec, Quarantined) or spec.output_schema is None:
        return
    check = OutputCheck(spec.output_schema)
    problem = within_budget(lambda: check.problem(value))
    if problem is None:
        assert valid is not False
    elif valid is not None:
        assert problem.startswith("the output does not match its schema: ")
        assert not valid
    elif problem.startswith("the output is not checked: "):
        assert check.problem(value) is None  # reported once


@pytest.mark.parametrize("name", sampled(list(CASES), *SOME))
def test_a_schema_of_a_program_that_takes_long(name: str) -> None:
    """Even a schema that is not limited in size is checked in bounded time."""
    schema, value, valid = CASES[name]
    checked, problem = within_budget(
        lambda: (ArgumentCheck(schema).checked(value), OutputCheck(schema).problem(value)),
        budget=10 * BUDGET,
    )
    if valid is not None:
        assert (checked.problem is None) == valid
        assert (problem is None or "not checked" in problem) == valid
