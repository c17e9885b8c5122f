"""The commands as typer builds them, each for one thread at a time.

Typer keeps the values of a command line in the command that it runs. If two threads of the background bus ran
the same one, a call could be made with the arguments of another.
"""

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import typer


class CommandTrees:
    """As many trees of commands as threads need at the same time."""

    def __init__(self, app: typer.Typer) -> None:
        self._app = app
        self._idle: list[Any] = []

    @contextmanager
    def lent(self) -> Generator[Any]:
        """A tree that no other thread uses until the block ends."""
        try:
            tree = self._idle.pop()
        except IndexError:
            from typer.main import get_command

            tree = get_command(self._app)
        try:
            yield tree
        finally:
            self._idle.append(tree)
