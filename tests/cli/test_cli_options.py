"""Options mean the same in every command: durations, consent, waiting, and the names they had before."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cli.running import toolbus, write_config
from tests.inside.cli import commands, seconds_in
from tests.properties import modest

UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
DURATIONS = ("timeout", "wait", "drain", "idle")
OLD = {
    ("import", "write"): "yes",
    ("init", "force"): "yes",
    ("store backup", "force"): "yes",
    ("console", "print_only"): "no_browser",
    ("runs start", "wait"): "follow",
}
"""Options that have another name now, by command and parameter."""


def every_option(group: Any = None, above: str = "") -> Iterator[tuple[str, Any]]:
    """Every option of every command, with the command."""
    group = group or commands()
    for name in group.commands:
        command, words = group.loaded(name), f"{above} {name}".strip()
        yield from ((words, option) for option in command.params if option.opts[0].startswith("-"))
        if hasattr(command, "loaded"):
            yield from every_option(command, words)


@modest
@given(number=st.integers(0, 10**6), unit=st.sampled_from(sorted(UNITS)))
def test_a_duration_is_the_same_in_every_unit(number: int, unit: str) -> None:
    seconds = number * UNITS[unit]
    assert (
        seconds_in(f"{number}{unit}") == seconds_in(str(seconds)) == seconds_in(f" {seconds} s ") == seconds
    )


@modest
@given(text=st.one_of(st.text(max_size=6), st.floats().map(str)))
def test_a_text_is_a_number_of_seconds_or_none(text: str) -> None:
    seconds = seconds_in(text)
    assert seconds is None or 0 <= seconds < float("inf")


def test_every_option_that_is_a_duration_takes_the_same_texts() -> None:
    found = [one for _, one in every_option() if one.name in DURATIONS and not one.hidden]
    assert {one.name for one in found} == set(DURATIONS)
    for one in found:
        assert (one.metavar, one.type_descriptor.parameter_info.parser("5m")) == ("TIME", 300)


def test_wait_has_one_default() -> None:
    found = {words: one.default for words, one in every_option() if one.name == "wait" and not one.hidden}
    assert found == dict.fromkeys(found, 0)
    assert {"tools", "search", "check"} <= found.keys()


@pytest.mark.parametrize(
    "words",
    [
        ("call", "x", "--timeout", "soon"),
        ("tools", "--wait", "5 parsecs"),
        ("serve", "--drain", "-1"),
        ("up", "--idle", "1h30"),
    ],
    ids=lambda words: words[0],
)
def test_a_wrong_duration_is_one_line_with_an_example(tmp_path: Path, words: tuple[str, ...]) -> None:
    write_config(tmp_path, {"a": {"command": "x"}})
    run = toolbus(*words, folder=tmp_path)
    assert (run.returncode, run.stdout, run.stderr.count("\n")) == (2, "", 1)
    assert f"{words[-1]!r} is not a time such as 30s, 5m, 2h or 1d" in run.stderr


def test_an_old_name_is_hidden_and_stands_beside_the_new_one() -> None:
    options: dict[tuple[str, str], Any] = {(words, one.name): one for words, one in every_option()}
    hidden = {place for place, one in options.items() if one.hidden} - {
        ("lock approve", "yes"),
        ("tools", "search"),
    }
    assert hidden == OLD.keys()
    for (words, _), new in OLD.items():
        assert not options[words, new].hidden


def test_yes_has_the_same_short_form_everywhere() -> None:
    found = {words: (*one.opts, one.is_flag) for words, one in every_option() if one.name == "yes"}
    assert found == dict.fromkeys(found, ("--yes", "-y", True))
    assert {"trust", "install", "lock", "import", "init", "store backup"} <= found.keys()


def test_approve_has_the_same_values_in_the_same_order() -> None:
    found = [str(one.type_descriptor.annotation) for _, one in every_option() if one.name == "approve"]
    assert len(found) == 2
    assert all("Literal['never', 'writes', 'ask']" in one for one in found)


@pytest.mark.parametrize("word", ["--yes", "-y", "--force"])
def test_init_overwrites_a_file_with_the_new_name_and_the_old_one(tmp_path: Path, word: str) -> None:
    (tmp_path / "toolbus.yaml").write_text("servers: {}\n")
    refused = toolbus("init", folder=tmp_path)
    assert (refused.returncode, refused.stderr.count("--yes")) == (2, 1)
    assert toolbus("init", word, folder=tmp_path).returncode == 0
    assert "demo_notes" in (tmp_path / "toolbus.yaml").read_text()


@pytest.mark.parametrize("word", ["--yes", "--write"])
def test_import_writes_with_the_new_name_and_the_old_one(tmp_path: Path, word: str) -> None:
    (tmp_path / "theirs.json").write_text('{"mcpServers": {"a": {"command": "x"}}}')
    assert toolbus("import", "theirs.json", folder=tmp_path).stderr.endswith("run with --yes to do it\n")
    assert toolbus("import", "theirs.json", word, folder=tmp_path).returncode == 0
    assert (tmp_path / "toolbus.yaml").read_text() == "servers:\n  a:\n    command: x\n"
