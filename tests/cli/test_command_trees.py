"""Commands that run at the same time in one process, as those of the background bus do."""

import sys
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from typing import Annotated

import pytest
import typer

from toolbus.cli.command_trees import CommandTrees

app = typer.Typer()


@app.command()
def said(words: list[str], times: Annotated[int, typer.Option()] = 1) -> str:
    """Return what was given."""
    return f"{words} {times}"


@pytest.fixture
def hurried() -> Generator[None]:
    """Threads that change as often as can be."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.mark.usefixtures("hurried")
def test_a_command_has_its_own_arguments_whatever_runs_beside_it() -> None:
    trees = CommandTrees(app)

    def run(number: int) -> str:
        with trees.lent() as tree:
            return tree.main([str(number), "--times", str(number)], standalone_mode=False)

    with ThreadPoolExecutor(32) as pool:
        assert list(pool.map(run, range(1_000))) == [f"['{number}'] {number}" for number in range(1_000)]


def test_a_tree_is_used_again() -> None:
    trees = CommandTrees(app)
    with trees.lent() as first, trees.lent() as second:
        assert first is not second
    with trees.lent() as third:
        assert third in (first, second)
