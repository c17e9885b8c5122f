"""Everything that outsiders rely on is as recorded."""

import json
import re

import pytest

from tests.cli.reference import PAGE
from tests.contract.parts import PARTS
from tests.contract.recording import ADVICE, RECORDED, difference, shape_of, text_of


@pytest.mark.parametrize("part", PARTS)
def test_the_contract_is_as_recorded(part: str) -> None:
    found = difference(part, PARTS[part]())
    assert not found, found


def test_every_recording_belongs_to_a_part() -> None:
    assert {file.stem for file in RECORDED.glob("*.json")} == set(PARTS)


def test_a_difference_is_a_diff_with_the_next_step() -> None:
    recorded = json.loads((RECORDED / "benchmark.json").read_text(encoding="utf-8"))
    assert difference("benchmark", recorded) == ""
    changed = difference("benchmark", {**recorded, "document": ["odd"]})
    assert changed.splitlines()[-2:] == ['+"document": ["odd"],', ADVICE]


def test_an_entry_is_one_line() -> None:
    assert text_of({"b": {"x": ["y"]}, "a": 1}) == '{\n"a": 1,\n"b": {"x": ["y"]}\n}\n'


def test_a_shape_has_keys_and_types_and_no_values() -> None:
    value = {"b": [1, 2, "x"], "a": {"c": None, "d": True, "e": 1.5}}
    assert shape_of(value) == {"a": {"c": "null", "d": "bool", "e": "float"}, "b": ["int", "str"]}


def test_the_page_of_the_commands_has_the_help_of_every_subcommand() -> None:
    """docs/cli.md is the recording of `--help`; every command of a group has a heading."""
    sections = PAGE.read_text(encoding="utf-8").split("\n### toolbus ")[1:]
    groups = {section.split()[0]: section for section in sections if "\nCommands:\n" in section}
    assert set(groups) == {"key", "store", "lock", "runs", "audit", "tape", "script"}
    for name, section in groups.items():
        listed = section.partition("\nCommands:\n")[2].partition("\n\n")[0]
        headings = re.findall(rf"^#### toolbus {name} (\w+)$", section, re.M)
        assert re.findall(r"^  (\w+) ", listed, re.M) == headings
