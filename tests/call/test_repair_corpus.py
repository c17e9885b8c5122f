"""The schemas of real servers: each one compiles, and what is missing in an empty call is named."""

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from toolbus.call.arguments import ArgumentCheck
from toolbus.records import JSON
from toolbus.schema.validator import InvalidSchema, Validator

CORPUS = Path(os.environ.get("TOOLBUS_CORPUS", Path(__file__).resolve().parents[3] / "shared" / "data"))

# `exclusiveMinimum: true` is draft 4, which the schema does not say; so nothing is checked there.
INVALID = {"pdf-reader-mcp::read_pdf"}


def schemas() -> Iterator[tuple[str, dict[str, JSON]]]:
    for path in sorted((CORPUS / "catalogs").glob("*.json")):
        for tool in json.loads(path.read_text(encoding="utf-8"))["tools"]:
            yield f"{path.stem}/{tool['name']}", tool["inputSchema"]
    bench = CORPUS / "livemcpbench" / "tools.json"
    for tool in json.loads(bench.read_text(encoding="utf-8")) if bench.exists() else ():
        yield tool["id"], tool["inputSchema"]


def fillable(schema: JSON) -> bool:
    return "default" in schema or "const" in schema or len(schema.get("enum", ())) == 1


def test_every_real_schema_compiles_and_an_empty_call_names_each_missing_argument() -> None:
    if not CORPUS.is_dir():
        reason = "no corpus of real schemas: set TOOLBUS_CORPUS to a folder with catalogs/"
        print(reason)
        pytest.skip(reason)
    unusable: list[str] = []
    unnamed: list[tuple[str, str]] = []
    for name, schema in schemas():
        told = ArgumentCheck(schema).checked({}).problem or ""
        try:
            Validator(schema)
        except InvalidSchema:
            unusable.append(name)
        for needed in schema.get("required", ()) if name not in INVALID else ():
            if f"'{needed}'" not in told and not fillable(schema["properties"][needed]):
                unnamed.append((name, needed))
    assert (set(unusable) - INVALID, unnamed) == (set(), [])
