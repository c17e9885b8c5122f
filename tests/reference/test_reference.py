"""The reference says what the source says."""

import re
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.pages import ROOT
from tests.reference.pages import FOLDER, pages
from tests.reference.places import STATE, VARIABLES, unnamed_in_source, variables_in_source
from tests.reference.python import ADAPTER_MODULES, MODULES, docstring, documented, names_of

CONFIG_FIELDS = re.compile(r"^\| `(\w+)` \| .* \| (.*) \|$", re.MULTILINE)


@pytest.fixture(scope="module")
def made() -> Mapping[Path, str]:
    return pages()


def test_every_page_is_as_the_source_says(made: Mapping[Path, str]) -> None:
    assert {path for path in made if path.read_text(encoding="utf-8") != made[path]} == set(), (
        "run `make docs`"
    )
    assert set(FOLDER.rglob("*.md")) - made.keys() == set()


def test_every_key_of_the_config_is_explained(made: Mapping[Path, str]) -> None:
    fields = CONFIG_FIELDS.findall(made[FOLDER / "configuration.md"])
    assert len(fields) > 250
    assert [name for name, meaning in fields if not meaning.strip()] == []


@pytest.mark.parametrize("module", [*MODULES, *ADAPTER_MODULES])
def test_every_public_name_has_a_docstring(module: str) -> None:
    found = {name: documented(module, name) for name in names_of(module)}
    assert [name for name, one in found.items() if one is not None and not docstring(one)] == []


def test_the_page_has_the_variables_of_the_source_and_the_files_of_the_state_folder() -> None:
    assert set(VARIABLES) == variables_in_source()
    assert unnamed_in_source() == set()
    kept = {path.name.removesuffix(".hex") for path in (ROOT / "tests/contract/old/state").iterdir()}
    assert kept - STATE.keys() == set()
