"""A long result within its budget: head and tail, JSON that parses, and a word on what is missing."""

import json
import re
import time
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.inside.core import DEFAULT_BUDGET, Budget, cleaned_json
from tests.inside.shape import MINIMUM, character_limit, estimated_tokens, fitted, fitted_blocks
from tests.properties import modest
from toolbus.records import JSON, Image, Text, ToolResult

# The same examples on every run, and no judgement of how busy the machine is.
MARKER = re.compile(
    r"\n?\[\.\.\. ([\d,]+) characters(?: \([\d,]+ lines\))? left out; "
    r'read_result\(id="r7", offset=(\d+)\) reads on \.\.\.\]\n'
)
LINES = "".join(f"this is line number {number}\n" for number in range(1000))

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=30) | st.dictionaries(st.text(), inner, max_size=30),
    max_leaves=100,
)


def ends(text: str, shown: str, start: int = 0) -> tuple[str, str]:
    """Head and tail of the text according to the marker; they have to match the text around it."""
    found = MARKER.search(shown)
    assert found, shown
    missing, offset = int(found[1].replace(",", "")), int(found[2]) - start
    head, tail = text[:offset], text[offset + missing :]
    assert shown[: found.start()] in (head, head.removesuffix("\n"))
    assert shown[found.end() :] == tail
    return head, tail


def test_text_within_the_budget_is_the_same_object() -> None:
    text = "x" * 1000
    assert fitted(text, 1000, "r7") is text
    assert fitted(text[:MINIMUM], 0, None) == text[:MINIMUM]


def test_lines_keep_head_and_tail_and_the_marker_says_what_is_between() -> None:
    head = "".join(f"this is line number {number}\n" for number in range(8))
    tail = "".join(f"this is line number {number}\n" for number in (998, 999))
    said = "[... 23,666 characters (990 lines) left out"
    way = '; read_result(id="r7", offset=176) reads on'
    assert fitted(LINES, 350, "r7") == f"{head}{said}{way} ...]\n{tail}"
    assert fitted(LINES, 310, None) == f"{head}{said} ...]\n{tail}"


def test_words_stay_whole_where_there_are_no_lines() -> None:
    text = "word " * 1000
    head, tail = ends(text, fitted(text, 300, "r7"))
    assert (head, tail) == ("word " * 30, "word " * 10)


texts = st.one_of(st.text(min_size=150), st.text("ab \n`~\r\u0301\u200d👩🏽🇩\ud83d\udc69", min_size=150))


@modest
@given(texts.map(lambda text: "." + text * 3), st.integers(MINIMUM, 600), st.integers(0, 10**7))
def test_head_and_tail_are_those_of_the_text_within_the_budget(text: str, budget: int, start: int) -> None:
    shown = fitted(text, budget, "r7", start=start)
    assert len(shown) <= budget
    assert (shown is text) == (len(text) <= budget)
    if shown is not text:
        ends(text, shown, start)
        assert len(shown) > budget // 3


@pytest.mark.parametrize(
    "sign", ["e\u0301", "👩🏽\u200d🚀", "\r\n", "\ud83d\ude00", "क्\u200dष", "❤\ufe0f", "🇩🇪 "]
)
def test_a_sign_of_several_characters_is_never_cut(sign: str) -> None:
    for length in range(200, 240):
        text = sign * 500
        head, tail = ends(text, fitted(text, length, "r7"))
        assert (head, tail) == (sign * (len(head) // len(sign)), sign * (len(tail) // len(sign)))


def test_a_fence_of_code_is_never_cut() -> None:
    text = "x" * 120 + "\n```python title=the-file\ncode\n" + "y" * 3000 + "\n~~~~~~~~~~~~ end\n" + "z" * 40
    for length in range(300, 420):
        head, tail = ends(text, fitted(text, length, "r7"))
        assert head.count("```python") == head.count("the-file\n"), head
        assert tail.count("~~~") in (0, 4), tail


def test_json_keeps_its_structure_and_short_values() -> None:
    value = {"total": 480, "items": [{"id": n, "text": "long " * 100} for n in range(480)], "next": "abc"}
    shown = json.loads(fitted(json.dumps(value), 2000, "r7"))
    assert list(shown) == ["total", "items", "next", "_left_out"]
    assert (shown["total"], shown["next"]) == (480, "abc")
    assert [item if isinstance(item, str) else item["id"] for item in shown["items"]] == [
        *range(9),
        "... 471 more items",
    ]
    assert re.fullmatch(r"(long )+.*\.\.\. \[\d+ more characters\]", shown["items"][0]["text"])
    assert shown["_left_out"] == (
        "about 250,048 of 251,930 characters left out; read_result(id='r7', offset=0) reads the whole"
    )


def test_a_json_array_ends_with_what_is_missing() -> None:
    assert json.loads(fitted(json.dumps(list(range(1000))), 200, "r7")) == [
        *range(31),
        "... 969 more items",
        "about 4,785 of 4,890 characters left out; read_result(id='r7', offset=0) reads the whole",
    ]


def test_json_that_was_only_laid_out_too_widely_stays_whole() -> None:
    value = {"rows": [[n, str(n)] for n in range(100)], "price": 1.10}
    assert fitted(json.dumps(value, indent=8), 2000, "r7") == json.dumps(value, separators=(",", ":"))


@pytest.mark.parametrize(
    "text",
    [
        '{"a": 1e999, "b": NaN, "c": "' + "x" * 500 + '"}',
        json.dumps({"k" * 5000: 1, "k" * 6000: 2}),
        json.dumps({"_left_out": 1, "x": "\n" * 5000}),
        json.dumps({str(n): "v" * n for n in range(500)}),
        json.dumps([[[[["x" * 300] * 30] * 3] * 3] * 3]),
        "[" * 400 + "]" * 400,
        json.dumps("\ud83d" * 900 + '"\\\x00' * 200).join("[]"),
        " \n" * 300 + json.dumps(["é" * 900]),
    ],
)
def test_hard_json_stays_json(text: str) -> None:
    for budget in (200, 300, 450):
        shown = fitted(text, budget, "r7")
        assert len(shown) <= budget
        assert isinstance(json.loads(shown, parse_constant=pytest.fail), type(json.loads(text)))


@modest
@given(json_values, st.integers(MINIMUM, 2000), st.booleans())
def test_a_budgeted_json_result_parses(value: JSON, budget: int, wide: bool) -> None:
    value = {"first": value, "second": [value] * 4}
    text = json.dumps(value, indent=4 if wide else None, ensure_ascii=wide)
    shown = fitted(text, budget, "r7")
    assert len(shown) <= budget
    parsed = json.loads(shown)
    if parsed not in (value, cleaned_json(value)):
        assert "read_result(id='r7', offset=0)" in parsed["_left_out"]


def test_text_that_only_begins_like_json_is_cut_as_text() -> None:
    for text in ("[2026-11-02] started\n" * 100, '{"a": 1}\n' * 100, "[" * 100_000):
        assert MARKER.search(fitted(text, 500, "r7"))


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("", 0),
        ("word", 1),
        ("four words of text", 5),
        ("12,345.67", 5),
        ('{"a":1}', 4),
        ("工具", 2),
        ("дом", 2),
        ("😀", 2),
    ],
)
def test_tokens_are_estimated_by_the_kind_of_character(text: str, tokens: int) -> None:
    assert estimated_tokens(text) == tokens


@modest
@given(st.text(st.characters(exclude_categories=())), st.text())
def test_an_estimate_adds_up(one: str, two: str) -> None:
    both = estimated_tokens(one + two)
    assert both <= estimated_tokens(one) + estimated_tokens(two) <= both + 1
    assert len(one) / 4 <= estimated_tokens(one) <= 2 * len(one)


def test_the_limit_satisfies_characters_and_tokens() -> None:
    assert character_limit(Budget(), "x" * 10**6) is None
    assert character_limit(Budget(characters=1000), "x" * 1000) is None
    assert character_limit(Budget(characters=1000), "x" * 1001) == 1000
    assert character_limit(Budget(tokens=1000), "x" * 4000) is None
    assert character_limit(Budget(tokens=1000), "x" * 5000) == 4000
    assert character_limit(Budget(tokens=1000, characters=3000), "x" * 5000) == 3000
    assert character_limit(Budget(tokens=1000), "工" * 5000) == 1001  # a quarter of 1,001 is 250
    assert character_limit(Budget(tokens=1000, characters=9000), "工" * 900 + "x" * 9000) == 1301
    assert character_limit(Budget(characters=1), "xx") == MINIMUM


@modest
@given(st.lists(st.sampled_from(["word ", "12.5,", "工具", "😀", "\n"])).map("".join), st.integers(60, 900))
def test_what_is_fitted_into_the_blocks_is_within_both_limits(text: str, tokens: int) -> None:
    budget = Budget(characters=4 * tokens, tokens=tokens)
    shown = ToolResult(content=fitted_blocks((Text(text=text * 50),) * 2, budget, "r7")).text
    assert len(shown) <= max(MINIMUM, 4 * tokens)
    assert estimated_tokens(shown) <= max(tokens, 2 * MINIMUM)


def test_blocks_share_the_budget_fairly_and_the_rest_is_untouched() -> None:
    picture = Image(data=b"p", mime_type="image/png")
    short, long, longer = Text(text="short"), Text(text="a " * 2000, meta={"k": 1}), Text(text="b " * 9000)
    blocks = (short, long, picture, longer)
    shown = fitted_blocks(blocks, Budget(characters=2000), "r7")
    assert (shown[0], shown[2]) == (short, picture)
    assert shown[0] is short
    texts = [block.text for block in shown if isinstance(block, Text)]
    assert sum(map(len, texts)) + 2 <= 2000
    assert all(len(text) > 900 for text in texts[1:])
    assert shown[1] == Text(text=texts[1], meta={"k": 1})
    whole = ToolResult(content=blocks).text
    for text in texts[1:]:
        start = whole.index(text[:100])
        ends(whole[start : start + (4000 if text.startswith("a") else 18_000)], text, start)
    assert fitted_blocks(blocks, DEFAULT_BUDGET, "r7") is blocks


@pytest.mark.parametrize("count", [3, 50, 5000])
def test_very_many_blocks_end_with_a_note_in_place_of_the_last(count: int) -> None:
    blocks = tuple(Text(text=f"block {number} " * 20) for number in range(count))
    shown = fitted_blocks(blocks, Budget(characters=400), "r7")
    text = ToolResult(content=shown).text
    assert len(text) <= 400
    assert shown[0] is blocks[0]
    whole = ToolResult(content=blocks).text
    missing, offset = re.findall(r"([\d,]+) characters left out.*offset=(\d+)", text)[-1]
    assert int(missing.replace(",", "")) + int(offset) == len(whole)


BIG: dict[str, Callable[[], str]] = {
    "plain": lambda: "The quick brown fox.\n" * 250_000,
    "one word": lambda: "x" * 5_000_000,
    "accents": lambda: "e" + "\u0301" * 5_000_000,
    "rows": lambda: json.dumps([{"id": n, "name": f"user {n}", "tags": ["a", "b"]} for n in range(60_000)]),
    "lists": lambda: json.dumps({str(n): list(range(500)) for n in range(1000)}),
    "nested": lambda: json.dumps([[list(range(50)) for _ in range(100)] for _ in range(100)]),
}


@pytest.mark.parametrize("long", BIG.values(), ids=BIG.keys())
def test_a_long_text_is_fitted_fast(long: Callable[[], str]) -> None:
    text = long()
    begin = time.process_time()
    [shown] = fitted_blocks((Text(text=text),), DEFAULT_BUDGET, "r7")
    assert time.process_time() - begin < 3, "not linear"
    assert isinstance(shown, Text)
    assert 15_000 < len(shown.text) <= 40_000
