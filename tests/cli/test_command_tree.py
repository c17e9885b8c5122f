"""Commands that run at the same time in one process, like the commands of the background bus."""

import os
import sys
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Annotated

import pytest
import typer
from typer import _adapters  # pyright: ignore[reportPrivateUsage]  # it is put back after the test

from tests.inside.cli import COMMANDS, command_tree, commands, keep_environment

app = typer.Typer()


@app.command()
def said(
    words: list[str],
    times: Annotated[int, typer.Option()] = 1,
    file: Annotated[Path | None, typer.Option()] = None,
) -> str:
    """Return the given arguments."""
    return f"{words} {times} {file}"


@pytest.fixture
def in_threads(monkeypatch: pytest.MonkeyPatch) -> Generator[None]:
    """As in the background bus, with threads that change as often as can be."""
    monkeypatch.setattr(_adapters, "disabled_pydantic_plugins", _adapters.disabled_pydantic_plugins)
    keep_environment()
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.mark.usefixtures("in_threads")
def test_a_command_has_its_own_arguments_whatever_runs_beside_it() -> None:
    tree = command_tree(app)

    def run(number: int) -> str:
        return tree.main([str(number), "--times", str(number)], standalone_mode=False)

    with ThreadPoolExecutor(32) as pool:
        assert list(pool.map(run, range(1_000))) == [f"['{number}'] {number} None" for number in range(1_000)]


@pytest.mark.usefixtures("in_threads")
def test_no_variable_is_set_while_other_threads_may_start_a_server(monkeypatch: pytest.MonkeyPatch) -> None:
    changed: list[object] = []

    def note(name: object, value: object) -> None:
        changed.append(name)

    monkeypatch.setattr(os, "putenv", note)

    def run(number: int) -> str:
        tree = command_tree(app)  # which has made no parser yet
        return tree.main([str(number), "--file", str(number)], standalone_mode=False)

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(run, range(100))) == [f"['{number}'] 1 {number}" for number in range(100)]
    assert changed == []


@pytest.mark.parametrize("words", COMMANDS)
def test_the_table_has_the_first_line_of_each_commands_help(words: str) -> None:
    found = commands()
    for name in words.split():
        found = found.loaded(name)
    assert found.help.partition("\n")[0] == COMMANDS[words][1]


def test_a_command_is_built_once() -> None:
    assert commands().loaded("tools") is commands().loaded("tools")
