"""A folder with a config, and commands that are forked from one process."""

from pathlib import Path

import pytest

from tests import warm
from tests.background.holding import everyday_entry
from tests.cli.running import write_config


@pytest.fixture(scope="session", autouse=True)
def _warm() -> None:  # pyright: ignore[reportUnusedFunction]  # pytest uses it
    warm.folder()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a server, in a home of its own."""
    folder = tmp_path / "work"
    folder.mkdir()
    write_config(folder, {"every": everyday_entry()})
    return folder
