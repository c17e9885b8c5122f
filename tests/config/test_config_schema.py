"""The JSON Schema for editors: true of every config that is accepted, and strict about what is not."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from tests.cli.running import toolbus
from tests.codeblocks import code_blocks
from tests.config.conftest import misfits
from tests.inside.config import IGNORED, KEYS, SETTINGS, SIGN_IN, TEMPLATE, is_list, is_mapping, read_document
from toolbus.config import load_config
from toolbus.config.schema import DRAFT, config_schema

ROOT = Path(__file__).parents[2]
NPX: dict[str, Any] = {"command": "npx"}


def wrong(document: object) -> list[str]:
    """The places that do not fit."""
    return sorted({misfit.partition(": ")[0] for misfit in misfits(document)})


def test_the_command_prints_a_valid_schema_without_any_config(tmp_path: Path) -> None:
    printed = toolbus("config", "--schema", folder=tmp_path)

    assert (printed.returncode, printed.stderr) == (0, "")
    schema = json.loads(printed.stdout)
    Draft202012Validator.check_schema(schema)
    assert (schema["$schema"], schema) == (DRAFT, config_schema())


def properties(schema: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every property anywhere in the schema."""
    if is_mapping(schema):
        if "required" not in schema or "type" in schema:  # not a condition
            yield from schema.get("properties", {}).items()
        for value in schema.values():
            yield from properties(value)
    elif is_list(schema):
        for value in schema:
            yield from properties(value)


def test_every_key_is_described_by_a_sentence() -> None:
    found = list(properties(config_schema()))

    assert len(found) > 90
    assert [name for name, schema in found if not schema.get("description", "").endswith(".")] == []


def test_every_key_that_is_read_is_in_the_schema() -> None:
    schema = config_schema()

    assert {"servers", *SETTINGS} <= set(schema["properties"])
    assert {*KEYS, *IGNORED, *SIGN_IN} - {"server"} == set(schema["$defs"]["Entry"]["properties"])


def documents(folder: Path) -> Iterator[tuple[str, Path]]:
    """The configs of the docs, the examples and `toolbus init`, as files."""
    for page in sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]):
        for block in code_blocks(page.read_text(encoding="utf-8")):
            if block.language in ("yaml", "json", "toml"):
                file = folder / f"{page.stem}-{block.line}.{block.language}"
                file.write_text(block.text, encoding="utf-8")
                yield f"{page.name}:{block.line}", file
    yield from ((str(file), file) for file in sorted((ROOT / "examples").rglob("*.yaml")))
    (folder / "template.yaml").write_text(TEMPLATE)
    yield "template", folder / "template.yaml"


def test_every_config_in_docs_and_examples_fits(tmp_path: Path) -> None:
    ours = [(name, file) for name, file in documents(tmp_path) if "servers" in read_document(file)]

    assert len(ours) > 5
    for name, file in ours:
        load_config(file)
        assert (name, wrong(read_document(file))) == (name, [])


def test_what_is_not_given_or_switched_off_fits() -> None:
    entry = {**NPX, "env": None, "timeouts": {"call": None}, "budget": None, "era": None}
    off = {"a": {"enabled": False, "nonsense": 1}, "b": {"disabled": True, "nonsense": 1}}

    assert wrong({"servers": {"c": entry, "d": "https://x.test", **off}, "naming": None, "x-own": 1}) == []
    assert wrong({"servers": [{"alias": "a", **NPX}, {"name": "b", **NPX}]}) == []


@pytest.mark.parametrize(
    ("document", "place"),
    [
        ({"servers": {"a": {"comand": "x"}}}, "$.servers.a"),
        ({"servers": {"a": NPX}, "nameing": "auto"}, "$"),
        ({"servers": {"a": {**NPX, "timeouts": {"cal": 1}}}}, "$.servers.a.timeouts"),
        ({"servers": {"a": {**NPX, "era": "old"}}}, "$.servers.a.era"),
        ({"servers": {"a": {**NPX, "transport": "htp"}}}, "$.servers.a.transport"),
        ({"servers": {"a": {**NPX, "env": {"PORT": 80}}}}, "$.servers.a.env.PORT"),
        ({"servers": {"a": {**NPX, "include": [{"readOnly": True}]}}}, "$.servers.a.include[0]"),
        ({"servers": {"a": {**NPX, "override": {"*": {"nam": "x"}}}}}, "$.servers.a.override.*"),
        ({"servers": {"a": {**NPX, "server": "x"}}}, "$.servers.a"),
        ({"servers": {"a": {**NPX, "mistake": "x"}}}, "$.servers.a"),
        ({"servers": {"a": None}}, "$.servers.a"),
        ({"servers": {"a": {**NPX, "log_level": "loud"}}}, "$.servers.a.log_level"),
        ({"servers": {"a": NPX}, "context_budget": 5}, "$.context_budget"),
        ({"servers": {"a": NPX}, "resource_tools": "all"}, "$.resource_tools"),
        ({}, "$"),
    ],
)
def test_what_cannot_be_loaded_does_not_fit(document: dict[str, Any], place: str) -> None:
    found = wrong(document)

    assert len(found) == 1
    assert found[0].startswith(place.removesuffix(".*"))
