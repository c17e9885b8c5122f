"""The `audit` of a config: valid settings and mistakes."""

from pathlib import Path
from typing import Any

import pytest

from tests.config.conftest import misfits
from tests.inside.config import Audit
from tests.inside.core import ConfigError
from toolbus.config import load_config

SERVERS = {"servers": {"files": {"command": "x"}}}


def read(audit: Any) -> Audit:
    found = load_config({**SERVERS, "audit": audit}).audit
    assert found is not None
    return found


def test_a_file_alone_is_short_for_the_file_with_the_defaults() -> None:
    found = read("audit.jsonl")
    assert found == Audit(file=str(Path.cwd() / "audit.jsonl"), content="digest", rotate=100_000_000)
    assert (found.keep, found.days) == (None, None)


def test_true_is_short_for_a_file_beside_the_config_and_false_for_none(tmp_path: Path) -> None:
    file = tmp_path / "toolbus.yaml"
    file.write_text("servers: {a: {command: x}}\naudit: true\n")
    assert load_config(file).audit == Audit(file=str(tmp_path / "audit.jsonl"))
    file.write_text("servers: {a: {command: x}}\naudit: false\n")
    assert load_config(file).audit is None
    assert read(True) == read("audit.jsonl")


def test_the_file_is_relative_to_the_config(tmp_path: Path) -> None:
    (tmp_path / "toolbus.yaml").write_text("servers: {a: {command: x}}\naudit: logs/audit.jsonl\n")
    found = load_config(tmp_path / "toolbus.yaml").audit
    assert found is not None
    assert found.file == str(tmp_path / "logs" / "audit.jsonl")


@pytest.mark.parametrize(
    ("size", "expected"),
    [("10KB", 10_000), ("1.5 MB", 1_500_000), ("64KiB", 65_536), ("1gb", 1_000_000_000), (20_000, 20_000)],
)
def test_sizes(size: object, expected: int) -> None:
    assert read({"file": "a.jsonl", "rotate": size}).rotate == expected


@pytest.mark.parametrize(
    ("audit", "mistake"),
    [
        (7, "audit: expected true, a file or a mapping; write {file: audit.jsonl, content: digest"),
        ({"content": "full"}, "audit.file: is missing; write {file: audit.jsonl"),
        ({"file": "a.jsonl", "content": "ful"}, "expected digest, full or none; did you mean 'full'?"),
        ({"file": "a.jsonl", "rotat": "1MB"}, "audit.rotat: unknown key; did you mean 'rotate'?"),
        ({"file": "a.jsonl", "rotate": "much"}, "audit.rotate: expected a size such as 100MB"),
        ({"file": "a.jsonl", "rotate": "1KB"}, "audit.rotate: expected a size from 10KB to 1GB"),
        ({"file": "a.jsonl", "rotate": True}, "audit.rotate: expected a size such as 100MB"),
        ({"file": "a.jsonl", "keep": 0}, "audit.keep: expected 1 or more"),
        ({"file": "a.jsonl", "days": "7"}, "audit.days: expected a whole number"),
        ({"file": 3}, "audit.file: expected a string"),
        ("${LOGS}/audit.jsonl", "audit.file: cannot contain a reference"),
        ("logs/", "audit.file: names no file"),
        ("audit", "audit.file: needs an extension, such as audit.jsonl"),
        ("audit.1", "audit.file: needs an extension, such as audit.jsonl"),
        ("", "audit.file: expected a non-empty string"),
    ],
)
def test_a_mistake_is_named(audit: object, mistake: str) -> None:
    with pytest.raises(ConfigError) as raised:
        load_config({**SERVERS, "audit": audit})
    assert mistake in str(raised.value)


@pytest.mark.parametrize(
    ("audit", "is_valid"),
    [
        ("audit.jsonl", True),
        ({"file": "a.jsonl", "content": "none", "rotate": "10MB", "keep": 3, "days": 90}, True),
        ({"content": "full"}, False),
        ({"file": "a.jsonl", "content": "all"}, False),
        (True, True),
        (False, True),
        (7, False),
    ],
)
def test_the_schema_for_editors_agrees(audit: object, is_valid: bool) -> None:
    assert (misfits({**SERVERS, "audit": audit}) == []) is is_valid
