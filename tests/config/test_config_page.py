"""The tables of the reference pages list exactly the keys of the models, with their defaults."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import BaseModel

from tests.inside.config import (
    AUTH_TYPES,
    Sandbox,
    ServerLimits,
    TokenExchange,
)
from toolbus.config import ClientCredentials, IdentityAssertion, OAuth, Workload

DOCS = Path(__file__).parents[2] / "docs"
BYTES = {"16 MiB": 16 * 1024**2, "32 KiB": 32 * 1024}
ONLY_IN_FILES = {"enabled_servers", "tool_allowlist"}
DERIVED = {"transport", "sandbox", "search"}
"""Keys whose default depends on others, is the absence of a value, or is a mapping."""


def rows(page: str, heading: str) -> dict[str, str]:
    """The keys of the first table below a heading or a sentence, each with the text of its default."""
    text = (DOCS / page).read_text(encoding="utf-8").partition(f"\n{heading}\n")[2]
    header, _, *lines = re.findall(r"^\|.*\|$", text.partition("\n\n## ")[0], re.MULTILINE)
    at = _cells(header).index("default")
    found: dict[str, str] = {}
    for line in lines:
        cells = _cells(line)
        if cells == ["---"] * len(cells) or not cells[0].startswith("`"):
            break
        keys, default = re.findall(r"`([a-z_.]+)`", cells[0]), cells[at]
        many = [part.strip() for part in re.split(r",(?!\d{3}\b)", default)]
        found |= dict(zip(keys, many if len(many) == len(keys) else [default] * len(keys), strict=True))
    return found


def _cells(line: str) -> list[str]:
    return [cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", line)[1:-1]]


def fields(*models: type[BaseModel], within: str = "") -> dict[str, Any]:
    """The keys of models, each with its default."""
    return {
        within + name: field.get_default()
        for model in models
        for name, field in model.model_fields.items()
        if not field.exclude
    }


def written(default: str) -> Iterator[Any]:
    """The value that the page gives as a default; nothing if it describes one in words."""
    if default in BYTES:
        yield BYTES[default]
    elif re.fullmatch(r"`[^`]+`|[\d,.]+", default):
        yield yaml.safe_load(default.strip("`").replace(",", ""))


TABLES: list[tuple[str, str, dict[str, Any], set[str]]] = [
    ("limits.md", "## Limits that you can set", fields(ServerLimits), set()),
    ("sandbox.md", "## The setting", fields(Sandbox), set()),
]


@pytest.mark.parametrize(("page", "heading", "model", "elsewhere"), TABLES, ids=lambda one: str(one)[:30])
def test_a_table_lists_the_keys_of_the_model_with_their_defaults(
    page: str, heading: str, model: dict[str, Any], elsewhere: set[str]
) -> None:
    table = rows(page, heading)

    assert set(table) - ONLY_IN_FILES == set(model) - elsewhere
    stated = {key: value for key in table.keys() & model.keys() - DERIVED for value in written(table[key])}
    assert stated == {key: model[key] for key in stated}


def test_the_keys_of_auth_are_those_of_its_models() -> None:
    text = (DOCS / "sign-in.md").read_text(encoding="utf-8").partition("\n## The setting\n")[2]
    listed = re.findall(r"^\| (`[^|]*) \|", text.partition("\n\n## ")[0], re.MULTILINE)
    keys = {key for cell in listed for key in re.findall(r"`([a-z_]+)`", cell)}

    known = fields(OAuth, ClientCredentials, TokenExchange, IdentityAssertion, Workload)
    assert {*known} - {"type"} <= keys
    assert keys - {*known} <= AUTH_TYPES.keys()
