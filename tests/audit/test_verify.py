"""Any change to a trail is found, but for lines that are missing at its end."""

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.audit.writing import only_chain, problems, write_lines
from tests.inside.audit import verify

LINES = 10_000
FLIPS = 300


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "audit.jsonl"
    write_lines(path, 4)
    return path


def test_every_flipped_byte_of_a_small_file_is_found(path: Path, request: pytest.FixtureRequest) -> None:
    whole = b"".join(path.read_bytes().splitlines(keepends=True)[:3])
    missed: list[tuple[int, int]] = []
    for position, byte in enumerate(whole):
        # One bit, and what matters to JSON: a line break, a backslash, a quote, a brace.
        others = [byte ^ 1 << position % 8, *b'\n\\"}']
        if not request.config.getoption("--full"):
            others = [others[position % len(others)]]  # every byte, and by turns each of these
        for other in {*others} - {byte}:
            path.write_bytes(whole[:position] + bytes([other]) + whole[position + 1 :])
            if not only_chain(path).problems:
                missed.append((position, other))
    assert missed == []


def test_flipped_bytes_in_ten_thousand_lines_are_found_where_they_are(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    write_lines(path, LINES)
    whole = path.read_bytes()
    chosen = random.Random(10)
    content = bytearray(whole)
    # In one pass, because each takes a while: each flip has a line of its own.
    lines = whole.splitlines(keepends=True)
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line))
    expected: list[int] = []
    for number in sorted(chosen.sample(range(0, len(lines), 3), FLIPS)):
        content[starts[number] + chosen.randrange(len(lines[number]) - 1)] ^= chosen.randint(1, 9)
        expected.append(number + 1)
    path.write_bytes(content)
    found = only_chain(path).problems
    assert [problem.line for problem in found] == expected
    assert {problem.problem for problem in found} == {"changed"}


def _without(number: int) -> Callable[[list[bytes]], list[bytes]]:
    return lambda lines: lines[: number - 1] + lines[number:]


def _with_copy(number: int) -> Callable[[list[bytes]], list[bytes]]:
    return lambda lines: [*lines[:number], lines[number - 1], *lines[number:]]


EDITS: dict[str, tuple[Callable[[list[bytes]], list[bytes]], list[str]]] = {
    "the first removed": (
        _without(1),
        ["audit.jsonl:1: lines before it are missing: a file does not begin like this"],
    ),
    "one removed": (_without(3), ["audit.jsonl:3: line 3 is missing before it"]),
    "two removed": (
        lambda lines: lines[:2] + lines[4:],
        ["audit.jsonl:3: lines 3 to 4 are missing before it"],
    ),
    "one doubled": (_with_copy(3), ["audit.jsonl:4: it is out of order, or a copy: its seq is 3, after 3"]),
    "two swapped": (
        lambda lines: [lines[0], lines[2], lines[1], *lines[3:]],
        [
            "audit.jsonl:2: line 2 is missing before it",
            "audit.jsonl:3: it is out of order, or a copy: its seq is 2, after 3",
            "audit.jsonl:4: line 3 is missing before it",
        ],
    ),
    "an empty line": (lambda lines: [*lines[:2], b"\n", *lines[2:]], ["audit.jsonl:3: changed"]),
    "an empty line at the end": (lambda lines: [*lines, b"\n"], ["audit.jsonl:6: changed"]),
    "garbage at the end": (lambda lines: [*lines, b"x"], ["audit.jsonl:6: changed"]),
    "a whole line with something after it": (
        lambda lines: [*lines[:-1], lines[-1][:-1] + b" x"],
        ["audit.jsonl:5: changed"],
    ),
}


@pytest.mark.parametrize("edit", EDITS)
def test_an_edit_is_found_and_named(path: Path, edit: str) -> None:
    change, expected = EDITS[edit]
    path.write_bytes(b"".join(change(path.read_bytes().splitlines(keepends=True))))
    assert problems(path) == expected


def test_a_line_of_another_chain_is_found(path: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.jsonl"
    write_lines(other, 4)
    lines, foreign = path.read_bytes().splitlines(keepends=True), other.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([*lines[:2], foreign[2], *lines[3:]]))
    replaced = "it does not refer to the line before: that one was replaced"
    assert problems(path) == [f"audit.jsonl:3: {replaced}", f"audit.jsonl:4: {replaced}"]


def test_a_full_file_that_is_missing_in_the_middle_is_found(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    write_lines(path, 100, rotate=10_000)
    _, second, third, *_ = only_chain(path).files
    second.unlink()
    (found,) = only_chain(path).problems
    assert (found.file, found.line) == (third, 1)
    assert "missing before it" in found.problem


def test_a_recorded_incomplete_line_cannot_be_changed(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-80])
    write_lines(path, 1)
    whole = path.read_bytes()
    assert problems(path) == []
    path.write_bytes(whole.replace(b'"event":"decided","id":"me-3"', b'"event":"decided","id":"me-9"'))
    assert problems(path) == ["audit.jsonl:5: changed: it is not what line 6 records"]
    incomplete = whole.splitlines(keepends=True)[4]
    path.write_bytes(whole.replace(incomplete, b""))
    assert problems(path) == ["audit.jsonl:5: the incomplete line that it records is not there"]


def test_a_cut_end_is_found_only_by_its_digest(path: Path) -> None:
    end = only_chain(path).end
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:-1]))
    (report,) = verify(path, frozenset({end.hash}))
    assert report.problems == []
    assert report.contains == set()
    write_lines(path, 1)
    (report,) = verify(path, frozenset({end.hash, report.end.hash}))
    assert report.contains != set()
    assert end.hash not in report.contains
