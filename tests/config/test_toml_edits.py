"""Edits of TOML: the standard library reads the change and nothing else, and every other line stays."""

import tomllib
from collections import Counter
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from tests.inside.config import TextChange, edited, with_entry
from tests.inside.core import ConfigError

PATH = Path("config.toml")
ENTRY = {"command": "npx", "args": ["-y", "a b"], "env": {"A": 'quo"te'}}
CODEX = """\
# mine
model = "gpt"  # the model

[servers.a]  # head
url = "u" # one
enabled = true

# about other
[other]
text = \'\'\'
[servers.z]
no comment # here
\'\'\'

# about b
[servers.b]
url = "v"
[servers.b.env]
K = "v"
# the end
"""
APART = "[a.x]\nu = 1\n\n[b]\nv = 2\n\n# more of a\n[a.y]\nu = 3\n[b.c]\nw = 4\n[a.x.deep]\nu = 5\n"
INLINE = 'servers = {a = {url = "u"}, "b.c" = {url = "v"} } # two\nx = 1\n'
DOTTED = 'servers.a.url = "u" # c\nservers.a.on = true\nservers."b c".url = "v"\n\n[t]\nx.y = 1\n'
ARRAYS = '[[policy]]\ndo = "deny"\n\n[servers.a]\nurl = "u"\n\n# the rest\n[[policy]]\ndo = "ask"\n'
LISTED = '[[servers]]\nalias = "a"\n# about b\n[[servers]]\nalias = "b"\n[servers.env]\nK = "v"\n'
LISTS = 'on = [\n  "a", # first\n  "b",\n]\nflat = ["a", "b"] # both\nnone = []\n'
QUOTED = "['servers'.\"a.b\"]\n\"the key\" = 1\n'lit' = 2\n\n[servers.c]\nd = 1979-05-27T07:32:00Z\n"
EDITS: list[tuple[str, str, tuple[str | int, ...], Any]] = [
    (CODEX, "add", ("servers",), {"new": ENTRY}),
    (CODEX, "add", ("servers",), {"odd.name": {"url": "u"}, "two": {"url": "v"}}),
    (CODEX, "add", ("servers", "a"), {"timeout": 2.5}),
    (CODEX, "add", ("servers", "b"), {"enabled": False}),
    (CODEX, "add", ("servers", "b"), {"headers": {"X-A": "1"}}),
    (CODEX, "add", ("servers",), {"default": "a"}),
    (CODEX, "add", (), {"more": [1, 2]}),
    (CODEX, "add", ("missing",), {"x": {"y": 1}}),
    (CODEX, "add", ("missing", "deep"), {"x": 1}),
    (CODEX, "replace", ("model",), "other"),
    (CODEX, "replace", ("servers", "a", "enabled"), False),
    (CODEX, "replace", ("servers", "a", "url"), {"url": "w", "enabled": False}),
    (CODEX, "replace", ("servers", "b", "env", "K"), "line\nline"),
    (CODEX, "replace", ("other", "text"), "short"),
    (CODEX, "drop", ("servers", "a"), None),
    (CODEX, "drop", ("servers", "b"), None),
    (CODEX, "drop", ("servers", "b", "env"), None),
    (CODEX, "drop", ("servers", "a", "url"), None),
    (CODEX, "drop", ("model",), None),
    (CODEX, "drop", ("other",), None),
    (APART, "drop", ("a", "x"), None),
    (APART, "drop", ("a", "y"), None),
    (APART, "drop", ("b", "c"), None),
    (APART, "add", ("a",), {"z": {"u": 9}}),
    (APART, "add", ("a", "y"), {"n": 9}),
    (APART, "replace", ("a", "x", "deep", "u"), 6),
    (INLINE, "add", ("servers",), {"new": ENTRY}),
    (INLINE, "add", ("servers", "a"), {"enabled": False}),
    (INLINE, "replace", ("servers", "b.c", "url"), "w"),
    (INLINE, "drop", ("servers", "a"), None),
    (INLINE, "drop", ("servers", "b.c"), None),
    (DOTTED, "add", ("servers",), {"new": {"url": "w"}}),
    (DOTTED, "add", ("servers", "a"), {"enabled": False}),
    (DOTTED, "replace", ("servers", "b c", "url"), "w"),
    (DOTTED, "replace", ("t", "x", "y"), 2),
    (DOTTED, "drop", ("servers", "a"), None),
    (DOTTED, "drop", ("servers", "a", "on"), None),
    (DOTTED, "drop", ("servers", "b c"), None),
    (DOTTED, "drop", ("t", "x"), None),
    (ARRAYS, "add", ("servers",), {"new": {"url": "v"}}),
    (ARRAYS, "add", ("servers", "a"), {"enabled": False}),
    (ARRAYS, "replace", ("servers", "a", "url"), "v"),
    (ARRAYS, "drop", ("servers", "a"), None),
    (LISTED, "add", ("servers", 0), {"enabled": False}),
    (LISTED, "replace", ("servers", 1, "alias"), "c"),
    (LISTED, "drop", ("servers", 0), None),
    (LISTED, "drop", ("servers", 1), None),
    (LISTS, "replace", ("on",), ["a", "b", "c"]),
    (LISTS, "replace", ("none",), ["a"]),
    (LISTS, "drop", ("on", 1), None),
    (LISTS, "drop", ("flat", 0), None),
    (QUOTED, "add", ("servers", "a.b"), {"enabled": False}),
    (QUOTED, "replace", ("servers", "a.b", "lit"), 3),
    (QUOTED, "drop", ("servers", "a.b", "the key"), None),
    (QUOTED, "drop", ("servers", "a.b"), None),
    ("x = 1", "add", ("servers",), {"new": {"url": "v"}}),
    ("[a]\nx = 1", "add", ("a",), {"y": 2}),
    ("[a]\n", "add", ("a",), {"y": 2}),
]  # fmt: skip


def applied(document: Any, kind: str, steps: tuple[str | int, ...], value: Any) -> Any:
    """The same change to parsed values."""
    document = deepcopy(document)
    holder = document
    for step in steps if kind == "add" else steps[:-1]:
        holder = holder.setdefault(step, {}) if isinstance(step, str) else holder[step]
    if kind == "add":
        holder.update(value)
    elif kind == "replace":
        holder[steps[-1]] = value
    else:
        del holder[steps[-1]]
    return document


def about(document: Any, kind: str, steps: tuple[str | int, ...]) -> int:
    """The number of lines an edit may touch: the lines of the value that it drops or replaces."""
    if kind == "add":
        return 0
    for step in steps:
        document = document[step]
    if not isinstance(document, dict):
        return str(document).count("\n") + 1 + ("\n" in str(document))
    return sum(about({"": value}, "drop", ("",)) for value in document.values()) + 1  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]  JSON


@pytest.mark.parametrize(("text", "kind", "steps", "value"), EDITS)
@pytest.mark.parametrize("written", ["plain", "crlf", "bom"])
def test_an_edit_is_what_it_says_and_nothing_else(
    text: str, kind: Any, steps: tuple[str | int, ...], value: Any, written: str
) -> None:
    before = text.replace("\n", "\r\n") if written == "crlf" else "\ufeff" * (written == "bom") + text
    after, _ = edited(before, PATH, [TextChange(kind=kind, steps=steps, value=value)])
    assert after.startswith("\ufeff") == (written == "bom")
    assert ("\r\n" in after) == (written == "crlf" and "\n" in text)
    document = tomllib.loads(text)
    assert tomllib.loads(after.removeprefix("\ufeff")) == applied(document, kind, steps, value)
    texts = before.removeprefix("\ufeff"), after.removeprefix("\ufeff")
    old, new = ([line for line in text.splitlines(keepends=True) if line.strip()] for text in texts)
    gone = Counter(line.rstrip("\r\n") for line in old) - Counter(line.rstrip("\r\n") for line in new)
    # One line may change with an inline table around it, and tables that are apart have a header each.
    assert sum(gone.values()) <= about(document, kind, steps) + (text in (INLINE, APART))
    assert not [line for line in gone if line.startswith("#")], "comments stay"
    kept = [line for line in old if line.rstrip("\r\n") not in gone and line in new]
    positions = [new.index(line) for line in dict.fromkeys(kept)]
    assert positions == sorted(positions), "the order stays"


@pytest.mark.parametrize(
    ("text", "kind", "steps", "value"),
    [
        (CODEX, "add", ("servers", "a"), {"null": None}),
        ('[a]\nx = 1\n[[p]]\n[b]\n[[p]]\nq = 1\n', "drop", ("p", 0), None),
        ("x = [1]\n", "replace", ("x",), [None]),
    ],
)  # fmt: skip
def test_what_toml_cannot_say_is_left_to_the_person(text: str, kind: Any, steps: Any, value: Any) -> None:
    with pytest.raises(ConfigError, match=r"^cannot be edited: .*; edit it by hand$"):
        edited(text, PATH, [TextChange(kind=kind, steps=steps, value=value)])


@pytest.mark.parametrize("text", ["", "# nothing\n\n# but comments\n", "\ufeff# nothing", "\r\n"])
def test_a_file_without_content_gets_its_first_entry(text: str) -> None:
    after = with_entry(text, PATH, ("servers",), "new", ENTRY)
    assert after.startswith(text)
    assert tomllib.loads(after.removeprefix("\ufeff")) == {"servers": {"new": ENTRY}}
