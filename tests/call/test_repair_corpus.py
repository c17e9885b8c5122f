"""The schemas of real servers: each one compiles, and an empty call names each missing argument."""

from tests.inside.call import ArgumentCheck
from tests.inside.schema import InvalidSchema, Validator
from tests.shape.corpus import specs
from toolbus.records import JSON

# `exclusiveMinimum: true` is draft 4, which the schema does not say; so nothing is checked there.
INVALID = {"pdf-reader-mcp/read_pdf"}


def fillable(schema: JSON) -> bool:
    return "default" in schema or "const" in schema or len(schema.get("enum", ())) == 1


def test_every_real_schema_compiles_and_an_empty_call_names_each_missing_argument() -> None:
    unusable: list[str] = []
    unnamed: list[tuple[str, str]] = []
    for spec in specs():
        name, schema = str(spec.origin), spec.input_schema
        told = ArgumentCheck(schema).checked({}).problem or ""
        try:
            Validator(schema)
        except InvalidSchema:
            unusable.append(name)
        for needed in schema.get("required", ()) if name not in INVALID else ():
            if f"'{needed}'" not in told and not fillable(schema["properties"][needed]):
                unnamed.append((name, needed))
    assert (set(unusable) - INVALID, unnamed) == (set(), [])
