"""The arguments of a call as one types them, `n=5 tags=a,b point.x=1`: the rules, without a process."""

import base64
from pathlib import Path
from typing import Any

import pytest

from tests.inside.cli import Usage, described, given, read
from toolbus.records import Origin, ToolSpec

POINT = {"type": "object", "properties": {"x": {"type": "integer"}, "y": {"type": "integer"}}}
PROPERTIES: dict[str, Any] = {
    "text": {"type": "string"},
    "n": {"type": "integer"},
    "tags": {"type": "array", "items": {"type": "string"}},
    "point": {"$ref": "#/$defs/Point"},
    "maybe": {"anyOf": [{"$ref": "#/$defs/Point"}, {"type": "null"}]},
    "free": {"type": "object"},
    "typed": {"type": "object", "additionalProperties": {"type": "integer"}},
    "with.dot": {"type": "integer"},
    "raw": {"type": "string", "contentEncoding": "base64"},
    "byte": {"type": "string", "format": "byte"},
}
SCHEMA = {"type": "object", "properties": PROPERTIES, "$defs": {"Point": POINT}}


def tool(**schema: Any) -> ToolSpec:
    return ToolSpec(name="s_t", origin=Origin("s", "t"), input_schema=SCHEMA | schema)


def arguments(*words: str, args: str | None = None, file: Path | None = None) -> dict[str, Any]:
    return read(given(words, args, file), tool())


READ: list[tuple[list[str], dict[str, Any]]] = [
    (["text=a=b=c"], {"text": "a=b=c"}),
    (["text="], {"text": ""}),
    (["n=5", "text=5"], {"n": 5, "text": "5"}),
    (["tags=a,b"], {"tags": ["a", "b"]}),
    (["tags=a", "tags=b"], {"tags": ["a", "b"]}),
    (["tags=a,b", 'tags=["c,d"]'], {"tags": ["a", "b", "c,d"]}),
    (["point.x=1", "point.y=2"], {"point": {"x": 1, "y": 2}}),
    (['point={"x": 1}', "point.y=2"], {"point": {"x": 1, "y": 2}}),
    (["maybe.x=1"], {"maybe": {"x": 1}}),
    (["maybe=null"], {"maybe": None}),
    (["free.a.b=1", "free.c=x"], {"free": {"a": {"b": 1}, "c": "x"}}),
    (["typed.a=1"], {"typed": {"a": 1}}),
    (["with.dot=5"], {"with.dot": 5}),
    (["text=@@home"], {"text": "@home"}),
    (["text=a@b"], {"text": "a@b"}),
]


@pytest.mark.parametrize(("words", "expected"), READ, ids=lambda value: str(value) if value else "")
def test_words_become_arguments(words: list[str], expected: dict[str, Any]) -> None:
    assert arguments(*words) == expected


REFUSED: list[tuple[list[str], str]] = [
    (["text"], "'text' is not KEY=VALUE; write for example text='buy tea'"),
    (["=x"], "'=x' is not KEY=VALUE; write for example text='buy tea'"),
    (["point..x=1"], "'point..x=1' is not KEY=VALUE; write for example text='buy tea'"),
    (["txt=a"], "txt: no such argument; did you mean 'text'?"),
    (["point.z=1"], "point.z: no such argument; known arguments: x and y"),
    (["point.xx=1"], "point.xx: no such argument; did you mean 'x'?"),
    (["typed.a=x"], "typed.a: expected integer, not 'x'"),
    (["n=1", "n=2"], "n is given twice, but is not a list; keep one"),
    (["text=@/no/such/file"], "text: cannot read '/no/such/file': No such file or directory; check the path"),
    (["text=@/"], "text: cannot read '/': Is a directory; check the path"),
    (["text=@a\0b"], "text: cannot read 'a\\x00b': embedded null byte; check the path"),
]


@pytest.mark.parametrize(("words", "message"), REFUSED, ids=lambda value: ascii(value))
def test_words_that_cannot_be_meant_are_refused(words: list[str], message: str) -> None:
    with pytest.raises(Usage) as caught:
        arguments(*words)
    assert str(caught.value) == message


def test_a_file_is_text_or_what_its_schema_asks_for_or_base64(tmp_path: Path) -> None:
    (tmp_path / "number").write_text("42\n")
    (tmp_path / "blob").write_bytes(b"\xff\x00")
    (tmp_path / "list").write_text('["a", "b"]')
    encoded = base64.b64encode(b"\xff\x00").decode()
    words = ["text=@number", "n=@number", "tags=@list", "raw=@blob", "byte=@blob"]
    assert arguments(*(word.replace("@", f"@{tmp_path}/") for word in words)) == {
        "text": "42\n",
        "n": 42,
        "tags": ["a", "b"],
        "raw": encoded,
        "byte": encoded,
    }
    with pytest.raises(Usage, match="is not UTF-8 text, and the tool does not ask for base64"):
        arguments(f"text=@{tmp_path}/blob")


def test_a_tilde_is_the_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "mine").write_text("here")
    assert arguments("text=@~/mine") == {"text": "here"}


def test_single_values_lie_on_top_of_the_object(tmp_path: Path) -> None:
    whole = tmp_path / "whole.json"
    whole.write_text('{"text": "file", "unknown": [1]}')
    assert arguments("n=2", args='{"n": 1, "text": "a"}') == {"n": 2, "text": "a"}
    assert arguments("n=2", file=whole) == {"text": "file", "unknown": [1], "n": 2}
    assert arguments("point.y=9", args='{"point": {"x": 1}}') == {"point": {"x": 1, "y": 9}}


MALFORMED = [
    ('{"n": ', "--args: not JSON (Expecting value: line 1 column 7 (char 6)); write an object such as"),
    ("[1]", "--args: not a JSON object; write an object such as"),
    ("", "--args: not JSON (Expecting value: line 1 column 1 (char 0)); write an object such as"),
    ("[" * 100_000, "--args: not JSON ("),
]


@pytest.mark.parametrize(("text", "beginning"), MALFORMED, ids=lambda value: value[:12])
def test_an_object_that_is_none_is_refused(text: str, beginning: str) -> None:
    with pytest.raises(Usage) as caught:
        arguments(args=text)
    assert str(caught.value).startswith(beginning)


def test_two_objects_exclude_each_other(tmp_path: Path) -> None:
    with pytest.raises(Usage) as caught:
        arguments("-", args="{}")
    assert str(caught.value) == "--args and - exclude each other; keep one"
    with pytest.raises(Usage) as caught:
        arguments(args="{}", file=tmp_path / "any")
    assert str(caught.value) == "--args and --args-file exclude each other; keep one"


def test_missing_arguments_are_listed_with_what_they_are_for() -> None:
    wanted = {
        "to": {"type": "string", "description": "Whom to\n  write to."},
        "size": {"enum": ["small", "big"]},
        "cc": {"type": "string"},
    }
    spec = tool(properties=wanted, required=["to", "size"])
    with pytest.raises(Usage) as caught:
        read(given(["cc=x"], None, None), spec)
    assert str(caught.value) == "s_t needs to=... size=..."
    assert caught.value.details == ("  to    string: Whom to write to.", "  size  small or big")
    assert described(spec)[2] == ("cc", "string", False, "")


def test_a_required_argument_that_no_property_describes_is_missed_too() -> None:
    with pytest.raises(Usage, match=r"s_t needs hidden=\.\.\."):
        read(given([], None, None), tool(required=["hidden"]))
