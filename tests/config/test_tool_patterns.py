"""Patterns on tools are added to and taken from the text of a config, which keeps the rest as it is."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.inside.config import document_in, servers_in, tool_patterns, with_pattern, without_exclude
from tests.properties import modest

BLOCK = """\
servers:
  # the first
  a:  # mine
    command: x
    exclude:
      - one  # because
      # and this
      - "two_*"
    timeouts: {call: 3}  # short
  b: {command: y, exclude: [one, two]}
  c: https://c.test/mcp
"""
FLOW = "servers:\n  a:\n    command: x\n    exclude: [\n      one, # because\n      two,\n    ]\n"
NULL = "servers:\n  a:\n    command: x\n    exclude:\n    # below\n"
PLAIN = "servers:\n  a:\n    command: x\n"
JSON = """\
{
  "servers": {
    "a": {
      "command": "x",
      "exclude": [
        "one"
      ]
    }
  }
}
"""
THEIRS = '{"mcpServers": {"a": {"command": "x", "disabledTools": ["one"]}}}\n'
TOML = """\
[servers.a]  # mine
command = "x"
exclude = [
  "one", # because
  "two",
]

[servers.b]
command = "y"
"""
FLAT = 'servers.a = {command = "x"}\n'
TEXTS = {
    "block": ("t.yaml", BLOCK),
    "flow": ("t.yaml", FLOW),
    "null": ("t.yaml", NULL),
    "plain": ("t.yaml", PLAIN),
    "json": ("t.json", JSON),
    "another host": ("mcp.json", THEIRS),
    "toml": ("t.toml", TOML),
    "inline toml": ("t.toml", FLAT),
}
NAMES = st.text("""ab_*?[]\\"'#: ,\u00e9""", min_size=1, max_size=8)


def patterns(text: str, path: Path, alias: str) -> list[Any]:
    return tool_patterns(servers_in(text, path)[alias], "exclude")[1]


@pytest.mark.parametrize("kind", TEXTS)
@settings(modest, max_examples=25)
@given(pattern=NAMES)
def test_a_pattern_that_is_added_and_removed_leaves_the_document_as_it_was(kind: str, pattern: str) -> None:
    name, text = TEXTS[kind]
    path = Path(name)
    for alias in servers_in(text, path):
        before = patterns(text, path, alias)
        after = with_pattern(text, path, alias, "exclude", pattern)
        assert patterns(after, path, alias) == [*before, pattern]
        comments = [line.partition("#")[2] for line in text.splitlines() if "#" in line]
        assert all(comment in after for comment in comments)
        back = without_exclude(after, path, alias, pattern)
        known = [one for one in before if one != pattern]
        assert patterns(back, path, alias) == known
        if not isinstance(servers_in(text, path)[alias], str) and kind != "null":
            assert document_in(back.encode(), path) == document_in(text.encode(), path) or pattern in before


def test_a_new_item_is_written_like_the_others() -> None:
    block = with_pattern(BLOCK, Path("t.yaml"), "a", "exclude", "delete_*")
    assert '      - "two_*"\n      - delete_*\n    timeouts' in block
    flow = with_pattern(FLOW, Path("t.yaml"), "a", "exclude", "delete_*")
    assert flow == FLOW.replace("      two,\n", "      two,\n      delete_*,\n")
    made = with_pattern(JSON, Path("t.json"), "a", "exclude", "delete_*")
    assert made == JSON.replace('"one"\n', '"one",\n        "delete_*"\n')
    toml = with_pattern(TOML, Path("t.toml"), "a", "exclude", "delete_*")
    assert '  "one", # because\n' in toml
    assert '"delete_*"' in toml
    theirs = with_pattern(THEIRS, Path("mcp.json"), "a", "exclude", "b")
    assert theirs == THEIRS.replace('["one"]', '["one", "b"]')
