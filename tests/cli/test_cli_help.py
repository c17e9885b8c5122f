"""The help fits a terminal of 80 columns; docs/cli.md records it, command by command."""

import re

import pytest

from tests.cli.reference import PAGE
from tests.inside.cli import COMMANDS, HIDDEN, commands

TYPES = re.compile(r"<[^<>]*>|(?<!\$)\{[A-Z]")
GLOBAL = ("--config FILE", "--json", "--verbose", "--no-color", "--debug", "--no-up")


def printed(words: str, capsys: pytest.CaptureFixture[str]) -> str:
    """The help of a command on a terminal of 80 columns."""
    commands().main([*words.split(), "--help"], prog_name="toolbus", standalone_mode=False)
    return capsys.readouterr().out


@pytest.fixture(autouse=True)
def _narrow(monkeypatch: pytest.MonkeyPatch) -> None:  # pyright: ignore[reportUnusedFunction]  # pytest uses it
    monkeypatch.setenv("COLUMNS", "80")


@pytest.mark.parametrize("words", ["", *COMMANDS, *HIDDEN])
def test_no_line_is_too_long_and_no_type_of_python_is_shown(
    words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    shown = printed(words, capsys)
    assert [line for line in shown.splitlines() if len(line) > 80] == []
    assert TYPES.findall(shown) == []
    assert words in HIDDEN or f"```text\n{shown}```" in PAGE.read_text(encoding="utf-8"), "run `make docs`"


@pytest.mark.parametrize("words", [*COMMANDS, *HIDDEN])
def test_global_options_are_shown_at_the_root_alone_and_taken_everywhere(
    words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    shown = printed(words, capsys)
    assert [option for option in GLOBAL if re.search(rf"^  (-v, )?{option}\b", shown, re.MULTILINE)] == []
    assert shown.endswith("  Global options, such as --config and --json: toolbus --help\n")
    assert printed(f"{words} --json -v --no-color --debug --config x.yaml", capsys) == shown


def test_every_summary_is_printed_whole_and_in_its_section(capsys: pytest.CaptureFixture[str]) -> None:
    shown = printed("", capsys)
    for words, (_, line, section) in COMMANDS.items():
        assert len(line) <= 60
        if " " not in words:
            rows = shown.partition(f"{section}:\n")[2].partition("\n\n")[0]
            assert f"  {words:7}  {line}" in rows.splitlines()
    assert [option for option in GLOBAL if shown.count(f" {option}") != 1] == []
    assert not [words for words in HIDDEN if re.search(rf"^  {words} ", shown, re.MULTILINE)]
