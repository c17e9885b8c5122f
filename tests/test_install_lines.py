"""The install commands in the docs and in error messages are correct."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.patience import PATIENCE

ROOT = Path(__file__).parents[1]
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
LINE = re.compile(r"pip install \"toolbus\[([\w-]+)\]\"")
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
SOURCES = sorted((ROOT / "src").rglob("*.py"))
SET_UP = "README.md#set-up"


def test_every_extra_that_is_named_exists() -> None:
    named = {extra for file in (*PAGES, *SOURCES) for extra in LINE.findall(file.read_text())}
    assert {"agent", "langchain"} <= named <= set(EXTRAS)


@pytest.mark.parametrize("page", PAGES[1:], ids=lambda page: page.name)
def test_a_page_that_shows_how_to_install_an_extra_links_to_the_set_up(page: Path) -> None:
    text = page.read_text()
    shows = LINE.search(text)
    # The last two quote an installed toolbus.
    quotes = page.name in ("quickstart.md", "cli.md") or "reference" in page.parts
    if shows and not quotes:
        assert SET_UP in text


def test_pip_uses_the_installed_toolbus_without_an_index() -> None:
    words = ["install", "--dry-run", "--no-index", "--disable-pip-version-check", "toolbus[keyring]"]
    done = subprocess.run(
        [sys.executable, "-m", "pip", *words], capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "Requirement already satisfied: toolbus[keyring]" in done.stdout
