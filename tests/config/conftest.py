"""Every config that a test here loads is held against the JSON Schema that editors use."""

from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from tests.inside.config import Location, container, is_list, is_mapping
from toolbus.config import BusConfig, ServerConfig, load
from toolbus.config.schema import config_schema


@cache
def _validator() -> Any:
    return Draft202012Validator(config_schema())


def misfits(document: object) -> list[str]:
    """The parts of the document that do not fit the schema, each with its place."""
    return [f"{error.json_path}: {error.message}" for error in _validator().iter_errors(document)]


@pytest.fixture(autouse=True)
def _fits_the_schema(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:  # pyright: ignore[reportUnusedFunction]
    """A config that loads without a mistake must fit: otherwise an editor would mark correct entries."""
    read = load.config_in
    wrong: list[str] = []

    def config_in(document: Mapping[Any, Any], path: Path | None = None) -> BusConfig:
        config = read(document, path)
        place = Location(file=None if path is None else str(path))
        is_ours = "servers" in document and not container(document, place).foreign
        if is_ours and is_plain(document) and not any(one.mistake for one in config.servers.values()):
            # Entries that `enabled_servers` leaves out are not checked.
            now, _ = BusConfig.renamed({**document, "servers": used(document["servers"], config)})
            wrong.extend(misfits(now))
        return config

    monkeypatch.setattr(load, "config_in", config_in)
    yield
    assert wrong == []


def is_plain(value: Any) -> bool:
    """Whether a file could hold it; in Python, a config may also hold objects."""
    if is_mapping(value):
        return all(map(is_plain, value.values()))
    if is_list(value):
        return isinstance(value, list) and all(map(is_plain, value))
    return value is None or isinstance(value, str | int | float | bool)


def used(servers: Any, config: BusConfig) -> Any:
    """The entries that are checked, under the names of today: an editor marks old names."""
    if is_mapping(servers):
        return {alias: today(entry) for alias, entry in servers.items() if alias in config.servers}
    return list(map(today, servers))


def today(entry: Any) -> Any:
    return ServerConfig.renamed(entry)[0] if is_mapping(entry) else entry
