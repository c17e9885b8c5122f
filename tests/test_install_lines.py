"""The lines that tell users what to install are true, in the docs and in error messages."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

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
def test_a_page_that_shows_how_to_install_an_extra_says_how_to_install_toolbus(page: Path) -> None:
    text = page.read_text()
    shows = LINE.search(text)
    if shows and page.name not in ("cli.md", "errors.md"):  # those quote what is printed once it is installed
        assert SET_UP in text


def test_pip_takes_the_toolbus_that_is_installed_and_asks_no_index_for_it() -> None:
    words = ["install", "--dry-run", "--no-index", "--disable-pip-version-check", "toolbus[agent]"]
    done = subprocess.run(
        [sys.executable, "-m", "pip", *words], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "Requirement already satisfied: toolbus[agent]" in done.stdout
