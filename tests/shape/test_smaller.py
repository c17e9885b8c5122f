"""Smaller results: the fields that the config keeps, and flat records as a table."""

import csv
import io
import json
from typing import Any

import pytest

from tests.inside.shape import projected, smaller, table
from toolbus.records import JSON, Image, ResultShape, Text, ToolResult

ISSUES: list[dict[str, Any]] = [
    {"number": n, "title": f"Issue {n}, of many",
     "labels": [{"name": "bug", "id": n}, {"name": "now", "id": 7}],
     "user": {"login": "ann", "id": 3}, "body": "long " * 40}
    for n in range(5)
]  # fmt: skip


@pytest.mark.parametrize(
    ("value", "keep", "expected"),
    [
        (
            ISSUES[:1],
            ["number", "labels.name"],
            [{"number": 0, "labels": [{"name": "bug"}, {"name": "now"}]}],
        ),
        (ISSUES[0], ["user.login"], {"user": {"login": "ann"}}),
        ({"total": 1, "items": ISSUES[:1]}, ["number"], {"total": 1, "items": [{"number": 0}]}),
        ({"total": 1, "items": ISSUES[:1]}, ["items.number"], {"items": [{"number": 0}]}),
        ({"a": {"x": {"n": 1, "m": 2}}, "b": 3}, ["a.*.n"], {"a": {"x": {"n": 1}}}),
        ({"a": "text"}, ["a.b"], {"a": "text"}),
        ([{"a": 1, "b": 2}, {"b": 2}, 7], ["a"], [{"a": 1}, {}, 7]),
    ],
)
def test_only_what_the_paths_name_is_kept(value: JSON, keep: list[str], expected: JSON) -> None:
    assert projected(value, keep) == expected


@pytest.mark.parametrize("value", [{"a": 1}, [{"a": 1}], [], {}, "text", 7, None, {"a": [{"b": 1}]}])
def test_a_value_without_any_of_the_paths_stays(value: JSON) -> None:
    found = projected(value, ["zzz"])
    assert found is value


def test_records_become_a_table_that_reads_back() -> None:
    text = table(projected(ISSUES, ["number", "title", "labels.name", "user.login"]))
    assert text is not None
    assert list(csv.DictReader(io.StringIO(text)))[4] == {
        "number": "4",
        "title": "Issue 4, of many",
        "labels.name": "bug, now",
        "user.login": "ann",
    }


@pytest.mark.parametrize(
    "records",
    [
        [],
        [{"a": 1}],
        [{"a": 1}, 7],
        [{"a": 1}, {}],
        [{"a": [[1]]}] * 5,
        [{"a": [{"b": 1, "c": 2}]}] * 5,
        [{"a.b": 1, "a": {"b": 2}}] * 5,
        [{"a": ["x, y", "z"]}] * 5,  # would read as three
        [{f"column{n}": n} for n in range(20)],  # mostly empty, so not smaller
    ],
)
def test_what_is_not_flat_or_not_smaller_is_no_table(records: list[JSON]) -> None:
    assert table(records) is None


def _texts(*values: JSON, **more: Any) -> ToolResult:
    return ToolResult(content=tuple(Text(text=json.dumps(value)) for value in values), **more)


TITLES = ResultShape(keep=("number",))


def test_text_and_structured_content_of_the_same_result() -> None:
    whole = _texts(ISSUES, structured={"result": ISSUES})
    found, lacks = smaller(whole, TITLES)
    assert lacks
    assert json.loads(found.text) == [{"number": n} for n in range(5)]
    assert found.structured is whole.structured
    only_structured, _ = smaller(ToolResult(structured={"items": ISSUES}), TITLES)
    assert json.loads(only_structured.text) == {"items": [{"number": n} for n in range(5)]}


def test_a_text_for_each_record() -> None:
    for result in (_texts(*ISSUES), _texts(*ISSUES, structured={"result": ISSUES})):
        found, _ = smaller(result, ResultShape(keep=("number", "title"), table=True))
        assert found.text.splitlines()[:2] == ["number,title", '0,"Issue 0, of many"']


def test_tables_come_after_the_rest() -> None:
    found, lacks = smaller(
        _texts({"total": 5, "items": ISSUES}), ResultShape(keep=("number", "title"), table=True)
    )
    assert lacks
    assert found.text.splitlines()[:3] == ['{"total":5}', "items:", "number,title"]
    whole, lacks = smaller(_texts([{"number": n, "title": "x"} for n in range(9)]), ResultShape(table=True))
    assert not lacks
    assert whole.text.splitlines()[0] == "number,title"


def test_what_is_no_json_stays() -> None:
    picture = Image(data=b"x", mime_type="image/png")
    plain = ToolResult(content=(Text(text="number 7"), picture), structured={"n": 7})
    assert smaller(plain, TITLES) == (plain, False)
    mixed = ToolResult(content=(Text(text="Found:"), Text(text=json.dumps(ISSUES)), picture))
    found, lacks = smaller(mixed, TITLES)
    assert lacks
    assert found.content[0] is mixed.content[0]
    assert found.content[2] is picture


def test_huge_nesting_is_left_alone() -> None:
    deep = ToolResult(content=(Text(text='{"number":' * 400 + "1" + "}" * 400),))
    found, _ = smaller(deep, ResultShape(keep=("number.number",), table=True))
    assert found.text
    text = "[" * 100_000
    assert smaller(ToolResult(content=(Text(text=text),)), TITLES)[0].text == text
