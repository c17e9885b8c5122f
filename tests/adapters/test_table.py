"""The table of docs/frameworks says of every adapter what its contract proved."""

import re
from importlib import import_module

import pytest

from tests.adapters.contract import Contract
from tests.adapters.environments import ADAPTERS, ROOT, extras, living_here

COLUMNS = {
    "parallel": "parallel calls",
    "image": "images",
    "appears": "new tools in a run",
    "cancel": "cancel",
    "document": "prompts",
    "unknown": "unknown names",
}
TABLE = ROOT / "docs" / "frameworks" / "README.md"


def rows() -> dict[str, dict[str, str]]:
    """Adapter -> column -> cell."""
    lines = [line for line in TABLE.read_text(encoding="utf-8").splitlines() if line.startswith("|")]
    head, _, *body = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    named = (dict(zip(head, row, strict=True)) for row in body)
    return {re.sub(r"\[`?(\w+)`?\]\(.*\)", r"\1", row[head[0]]): row for row in named}


@pytest.mark.parametrize("name", living_here())
def test_the_table_says_what_the_contract_proved(name: str) -> None:
    module = import_module(f"tests.adapters.test_{name}")
    contracts = [
        value
        for value in vars(module).values()
        if isinstance(value, type) and issubclass(value, Contract) and value is not Contract
    ]
    row = rows()[name]
    said = {point for point, column in COLUMNS.items() if row[column].startswith("no")}
    assert contracts
    assert said == {point for contract in contracts for point in contract.harness.cannot}
    assert {contract.harness.name for contract in contracts} == {name}


def test_every_adapter_has_a_row_a_page_and_a_file() -> None:
    assert sorted(rows()) == ADAPTERS
    pages = {page.stem for page in TABLE.parent.glob("*.md")} - {"README", "moving"}
    assert sorted(pages) == ADAPTERS
    assert {extra.replace("-", "_") for extra in extras()} >= set(ADAPTERS)
