"""A result that was cut stays readable: from any place, and by search."""

import re
import time
from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.inside.call import CAPACITY, MAX_CHARACTERS, READ_RESULT, Results, ResultStore
from tests.inside.core import Budget
from tests.properties import modest
from toolbus.records import JSON, Origin, Text, ToolResult

# The same examples on every run, and no judgement of how busy the machine is.
LOG = "".join(f"line {number}: {'ERROR disk full' if number % 40 == 7 else 'ok'}\n" for number in range(1000))

REPLACED = ". Newer results replace old ones: call the tool again, and ask for less]"
WORDS = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "NINE", "ten"]


def store_of(capacity: int = CAPACITY) -> ResultStore:
    """A store whose ids are known beforehand."""
    ids = count(1)
    return ResultStore(capacity, lambda _: f"r{next(ids)}")


def kept(*texts: str) -> ResultStore:
    store = store_of()
    for text in texts:
        store.keep(text)
    return store


def test_a_short_text_is_read_whole_by_its_owner_alone() -> None:
    store = store_of()
    assert [store.keep("one", ("ann",)), store.keep("two")] == ["r1", "r2"]
    assert store.read("r1", owner=("ann",)) == "[r1: characters 0 to 3 of 3; this is the end]\none"
    assert store.read("r1") == f"[unknown result 'r1'; the latest are r2{REPLACED}"
    assert store.read("r1", owner=("bob",)) == "[unknown result 'r1'; no results are stored]"
    assert store.read("r2") == "[r2: characters 0 to 3 of 3; this is the end]\ntwo"


def test_a_window_ends_with_a_line_and_says_where_to_go_on() -> None:
    store = kept("a" * 95 + "\n" + "b" * 104)
    assert store.read("r1", limit=100) == (
        '[r1: characters 0 to 96 of 200; read_result(id="r1", offset=96) reads on]\n' + "a" * 95 + "\n"
    )
    assert store.read("r1", 96, 104) == "[r1: characters 96 to 200 of 200; this is the end]\n" + "b" * 104


def test_no_reading_gives_more_than_the_most() -> None:
    header, _, window = kept("x" * 100_000).read("r1", limit=10**9).partition("\n")
    assert header == '[r1: characters 0 to 40,000 of 100,000; read_result(id="r1", offset=40000) reads on]'
    assert window == "x" * MAX_CHARACTERS


@modest
@given(st.text(), st.integers(1, 40))
def test_the_windows_join_to_the_whole_text(text: str, limit: int) -> None:
    store = kept(text)
    offset, parts = 0, list[str]()
    while offset < len(text):
        header, _, window = store.read("r1", offset, limit).partition("\n")
        parts.append(window)
        assert 0 < len(window) <= limit
        on = re.search(r"offset=(\d+)", header)
        offset = int(on[1]) if on else len(text)
    assert "".join(parts) == text


def test_find_shows_the_places_with_their_lines_and_offsets() -> None:
    text = "".join(f"{word}\n" for word in WORDS)
    assert kept(text).read("r1", find="nine") == (
        f"[r1: 'nine' is in 1 place of its {len(text)} characters]\n"
        f"[offset {text.index('NINE')}]\nseven\neight\nNINE\nten\n"
    )
    assert kept(text).read("r1", find="ero") == (
        f"[r1: 'ero' is in 1 place of its {len(text)} characters]\n[offset 1]\nzero\none\ntwo"
    )


def test_find_shows_at_most_ten_places_and_says_where_the_others_begin() -> None:
    found = kept(LOG).read("r1", find="disk FULL")
    offsets = [place.start() for place in re.finditer("disk full", LOG)]
    assert [int(at) for at in re.findall(r"^\[offset (\d+)\]$", found, re.M)] == offsets[:10]
    assert found.splitlines()[0] == f"[r1: 'disk FULL' is in 25 places of its {len(LOG):,} characters]"
    assert found.splitlines()[-1] == f"[and 15 more, from offset {offsets[10]} on]"
    later = kept(LOG).read("r1", offsets[20], find="disk full")
    assert later.startswith(
        f"[r1: 'disk full' is in 5 places of its {len(LOG):,} characters from offset {offsets[20]} on]"
    )


def test_places_near_each_other_share_their_context_and_long_lines_are_cut() -> None:
    near = kept("x" * 5000 + "needle and needle" + "y" * 5000)
    assert near.read("r1", find="needle") == (
        "[r1: 'needle' is in 2 places of its 10,017 characters]\n"
        "[offset 5000]\n" + "x" * 200 + "needle and needle" + "y" * 189
    )


def test_what_is_found_stays_within_the_limit() -> None:
    found = kept(("a" * 500 + "b") * 100).read("r1", limit=1000, find="b")
    assert len(found) < 1200
    assert found.endswith("[and 98 more, from offset 1502 on]")


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"id": "r1", "offset": 4}, "[r1 has 3 characters; nothing is at offset 4]"),
        ({"id": "r1", "find": "z"}, "[r1: 'z' does not occur in its 3 characters]"),
        (
            {"id": "r1", "find": "a", "offset": 2},
            "[r1: 'a' does not occur in its 3 characters from offset 2 on]",
        ),
        ({"id": "r1", "find": ".*"}, "[r1: '.*' does not occur in its 3 characters]"),
        ({"id": "r9"}, "[unknown result 'r9'; the latest are r1."),
        ({"id": "r" + "9" * 9000}, f"[unknown result 'r{'9' * 39}'; the latest are r1."),
        ({"id": "r1", "find": "", "offset": None, "limit": 2.0}, "[r1: characters 0 to 2 of 3; "),
    ],
)
def test_a_question_without_answer_gets_words(arguments: dict[str, JSON], expected: str) -> None:
    assert kept("abc").read(**arguments).startswith(expected)
    assert ResultStore().read("r1") == "[unknown result 'r1'; no results are stored]"


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({"id": 7}, "id must be a string, not 7"),
        ({"id": "r1", "find": ["x"]}, "find must be a string, not ['x']"),
        ({"id": "r1", "offset": -1}, "offset must be a whole number of at least 0, not -1"),
        ({"id": "r1", "offset": True}, "offset must be a whole number of at least 0, not True"),
        ({"id": "r1", "limit": 0}, "limit must be a whole number of at least 1, not 0"),
        ({"id": "r1", "limit": "9"}, "limit must be a whole number of at least 1, not '9'"),
        ({"id": "r1", "limit": float("nan")}, "limit must be a whole number of at least 1, not nan"),
        ({"id": "r1", "limit": float("inf")}, "limit must be a whole number of at least 1, not inf"),
    ],
)
def test_an_argument_of_the_wrong_type_is_named(arguments: dict[str, JSON], problem: str) -> None:
    with pytest.raises(ValueError, match="must be") as raised:
        kept("abc").read(**arguments)
    assert str(raised.value) == problem


def test_beyond_the_capacity_the_oldest_leave_and_reading_them_says_so() -> None:
    store = store_of(10)
    for text in ("aaaa", "bbbb", "cccc"):
        store.keep(text)
    assert store.read("r1") == f"[unknown result 'r1'; the latest are r2, r3{REPLACED}"
    assert store.read("r2") == "[r2: characters 0 to 4 of 4; this is the end]\nbbbb"


def test_a_text_that_is_larger_than_all_there_is_room_for_leaves_the_others_alone() -> None:
    store = store_of(10)
    assert [store.keep("aaaa"), store.keep("d" * 11), store.keep("e")] == ["r1", None, "r2"]
    assert store.read("r1") == "[r1: characters 0 to 4 of 4; this is the end]\naaaa"


def test_a_result_that_is_too_large_to_be_kept_is_cut_without_a_promise_to_read_on() -> None:
    results = Results(capacity=10_000)
    small, large = (ToolResult(content=(Text(text="x" * size),)) for size in (5_000, 20_000))
    cut = [results.fitted(result, Budget(characters=1_000)) for result in (small, large)]
    kept, too_large = (result.meta["toolbus"] for result in cut)
    assert kept["kept_as"] in cut[0].text
    assert (kept["characters"], too_large) == (5_000, {"characters": 20_000})
    assert ["read_result" in result.text for result in cut] == [True, False]


def test_finding_something_everywhere_in_a_long_text_is_fast() -> None:
    store = kept("e " * 500_000)
    begin = time.process_time()
    assert store.read("r1", find="E").startswith("[r1: 'E' is in 500,000 places of its 1,000,000 characters]")
    assert time.process_time() - begin < 3


def test_the_tool_is_read_only_and_its_schema_names_the_arguments_of_read() -> None:
    assert (READ_RESULT.name, READ_RESULT.origin) == ("read_result", Origin("toolbus", "read_result"))
    assert READ_RESULT.annotations["readOnlyHint"] is True
    assert list(READ_RESULT.input_schema["properties"]) == ["id", "offset", "limit", "find"]
    assert READ_RESULT.input_schema["required"] == ["id"]
