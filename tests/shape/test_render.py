"""A result for a model: losses are announced, and text has no base64."""

import base64
import json
import random
import re
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.inside.shape import deduplicated, rendered, rendered_text, without_base64
from tests.properties import modest
from toolbus.records import JSON, Audio, Block, Embedded, Image, ResourceLink, Text, ToolResult

# The same examples on every run, and no judgement of how busy the machine is.
PICTURE = Image(data=b"p" * 4200, mime_type="image/png")
SOUND = Audio(data=b"s" * 812, mime_type="audio/wav")
BLOB = base64.b64encode(random.Random(1).randbytes(3000)).decode()
PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n" + random.Random(2).randbytes(2992)).decode()


def result(*content: Block, structured: JSON = None, is_error: bool = False) -> ToolResult:
    return ToolResult(content=content, structured=structured, is_error=is_error)


def texts(given: ToolResult) -> list[str]:
    return [block.text for block in rendered(given) if isinstance(block, Text)]


def test_text_stays_the_same_blocks_in_the_same_order() -> None:
    one, two = Text(text="one", annotations={"priority": 1}), Text(text="two")
    assert rendered(result(one, PICTURE, two), images=True) == (one, PICTURE, two)
    assert rendered(result(one, two))[0] is one
    assert rendered_text(result(one, two)) == "one\ntwo"


def test_pictures_and_sound_are_given_where_taken_and_described_elsewhere() -> None:
    image, audio = Text(text="[image: image/png, 4.2 kB]"), Text(text="[audio: audio/wav, 812 B]")
    both = result(PICTURE, SOUND)
    assert rendered(both) == (image, audio)
    assert rendered(both, images=True) == (PICTURE, audio)
    assert rendered(both, audio=True) == (image, SOUND)
    assert rendered(both, images=True, audio=True) == (PICTURE, SOUND)
    assert rendered_text(both) == "[image: image/png, 4.2 kB]\n[audio: audio/wav, 812 B]"


def test_a_link_is_described_with_all_that_is_known() -> None:
    full = ResourceLink(
        uri="https://x.example/a.pdf",
        name="a.pdf",
        title="The report",
        description="of\nlast year",
        mime_type="application/pdf",
        size=12_345,
    )
    assert texts(result(full, ResourceLink(uri="file:///b", name="b"))) == [
        "[link: https://x.example/a.pdf, a.pdf (The report), application/pdf, 12.3 kB, of last year]",
        "[link: file:///b, b]",
    ]


def test_embedded_text_comes_with_its_address_in_a_line_before() -> None:
    note = Embedded(uri="file:///n.md", text="# Note\n", mime_type="text/markdown")
    assert texts(result(note)) == ["[resource: file:///n.md, text/markdown]\n# Note\n"]
    assert texts(result(Embedded(uri="file:///empty", text=""))) == ["[resource: file:///empty]"]


def test_an_embedded_blob_is_described_and_given_where_its_kind_is_taken() -> None:
    line = Text(text="[resource: file:///p, image/png, 4.2 kB]")
    blob = Embedded(uri="file:///p", data=PICTURE.data, mime_type="image/png")
    assert rendered(result(blob)) == (line,)
    assert rendered(result(blob), audio=True) == (line,)
    assert rendered(result(blob), images=True) == (line, PICTURE)
    unknown = Embedded(uri="file:///u", data=b"")
    assert texts(result(unknown)) == ["[resource: file:///u, 0 B]"]


def test_structured_content_is_given_without_text_or_by_choice() -> None:
    value = {"städte": ["Köln", 1.5, True]}
    compact = Text(text='{"städte":["Köln",1.5,true]}')
    said = Text(text="one city")
    assert rendered(result(structured=value)) == (compact,)
    assert rendered(result(Text(text=" "), PICTURE, structured=value), images=True) == (PICTURE, compact)
    assert rendered(result(said, structured=value)) == (said,)
    assert rendered(result(said, structured=value), structured="always") == (said, compact)
    assert rendered(result(said, structured=value), structured="never") == (said,)
    assert rendered_text(result(structured=value), structured="never") == "(no output)"
    assert rendered_text(result(structured={})) == "{}"


def test_structured_content_is_never_given_twice() -> None:
    value = {"b": [1, 2], "a": True}
    twice = result(Text(text=json.dumps(value, indent=2)), PICTURE, structured=value)
    assert rendered(twice, images=True) == (Text(text=json.dumps(value, indent=2)), PICTURE)
    assert rendered(twice, images=True, structured="always") == (PICTURE, Text(text='{"b":[1,2],"a":true}'))


@pytest.mark.parametrize(
    ("texts", "structured"),
    [
        (["5"], {"result": 5}),
        (["hello"], {"result": "hello"}),
        (['{\n  "a": 1.0\n}', '{"a": 2}'], {"result": [{"a": 1}, {"a": 2}]}),
        (["one", "two"], {"result": ["one", "two"]}),
        (['{"a": [1, 2]}'], {"result": {"a": [1, 2]}}),
        (["[1, 2]"], {"result": [1, 2]}),
        (["[1]"], {"result": [1]}),
        (["1"], {"result": [1]}),
        # A program that returns JSON as a string.
        (['{"a": 1}'], {"result": '{"a": 1}'}),
        (["5", "true"], {"result": ["5", "true"]}),
        (["What a file says."], {"content": "What a file says."}),
    ],
)
def test_a_wrapper_around_the_text_is_not_given_beside_it(texts: list[str], structured: JSON) -> None:
    content = tuple(Text(text=text) for text in texts)
    assert rendered(result(*content, structured=structured), structured="always") == content
    assert deduplicated(result(*content, structured=structured)) == result(*content)


def test_text_beside_a_copy_of_the_structured_content_stays() -> None:
    value = {"n": 7}
    said, copied = Text(text="seven"), Text(text='{ "n": 7 }')
    assert deduplicated(result(said, copied, PICTURE, structured=value)) == result(
        said, PICTURE, structured=value
    )
    others: list[Any] = [
        {"n": 7},
        {"n": "seven", "unit": "days"},
        {"result": "eight"},
        {"result": []},
        {},
        "x",
        7,
    ]
    for other in [result(said, structured=structured) for structured in others]:
        assert deduplicated(other) is other
    only = result(PICTURE, structured={"result": []})
    assert deduplicated(only) is only


def test_a_small_file_in_base64_is_described_too() -> None:
    small = base64.b64encode(b"\x89PNG\r\n\x1a\n" + bytes(range(92))).decode()
    escaped = small.replace("/", "\\/")
    assert without_base64(f'{{"data": "{small}"}}') == '{"data": "[base64: image/png, 100 B]"}'
    assert without_base64(f'"{escaped}" x').startswith('"[base64: image/png, 10')
    wrapped = base64.encodebytes(b"%PDF-1.7" + bytes(range(256))).decode()
    assert without_base64(f"{wrapped}done") == "[base64: application/pdf, 264 B]\ndone"
    key = "/9j/short"
    assert without_base64(key) is key


def test_an_empty_result_says_so_and_an_error_keeps_its_text() -> None:
    assert rendered(result()) == (Text(text="(no output)"),)
    assert rendered(result(Text(text=""), Text(text=" \n"))) == (Text(text="(no output)"),)
    assert rendered(result(is_error=True)) == (Text(text="(error without a message)"),)
    assert rendered_text(ToolResult.failure("no such file")) == "MCP error: no such file"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"![x](data:image/png;base64,{BLOB}) end", "![x]([data: image/png, 3.0 kB]) end"),
        ('"data:image/gif;base64,R0lGODlhAQABAAAAACw="', '"[data: image/gif, 14 B]"'),
        ("data:image/svg+xml;charset=utf-8,%3Csvg%3E it", "[data: image/svg+xml, 9 B] it"),
        (f"x;data:;base64,{BLOB},next", "x;[data: text/plain, 3.0 kB],next"),
        (f"here: {BLOB}.", "here: [base64: 3.0 kB]."),
        (f"<img>{PNG}</img>", "<img>[base64: image/png, 3.0 kB]</img>"),
        (
            base64.encodebytes(b"%PDF-1.7" + bytes(range(256)) * 20).decode(),
            "[base64: application/pdf, 5.1 kB]\n",
        ),
    ],
)
def test_base64_is_described_by_type_and_size(text: str, expected: str) -> None:
    assert without_base64(text) == expected
    assert rendered_text(result(structured=[text])) == json.dumps([expected])
    assert texts(result(Embedded(uri="file:///f", text=text))) == [f"[resource: file:///f]\n{expected}"]


@pytest.mark.parametrize(
    "text",
    [
        "data: 1, 2, 3 and metadata:image/png,x and {data:a/b,c:1}",
        "-" * 5000,
        "x" * 5000,
        "ACGT" * 2000,
        ("deadbeef0123" * 6 + "\n") * 200,
        ("MIGfMA0GCSqGSIb3DQEBAQUAA4GNADCBiQKBgQ" * 2 + "\n") * 50,  # as long as the longest usual keys
        "src/Main1/\n" * 1000,
        "a1B" * 300,
    ],
)
def test_what_only_looks_a_little_like_base64_stays(text: str) -> None:
    assert without_base64(text) is text


def test_a_link_to_a_data_address_is_described_too() -> None:
    link = ResourceLink(uri=f"data:image/png;base64,{PNG}", name="p", mime_type="image/png")
    assert texts(result(link)) == ["[link: [data: image/png, 3.0 kB], p, image/png]"]


pieces = st.lists(
    st.one_of(
        st.text(max_size=5),
        st.sampled_from(['"', "\\", "\n", "\\n", "\u0001", "é", "\\u00e9", "/", "=", "data:", ","]),
        st.sampled_from([BLOB, PNG, BLOB[:999], BLOB[:996], f"data:image/png;base64,{BLOB[:50]}."]),
    )
).map("".join)


@modest
@given(pieces, st.booleans())
def test_json_text_stays_json_and_no_run_of_base64_is_left(text: str, ascii_only: bool) -> None:
    value = {"key": text, text: [text]}
    source = json.dumps(value, ensure_ascii=ascii_only)
    shown = rendered_text(result(Text(text=source)))
    assert len(json.loads(shown)) in (1, 2)
    assert "image/png;base64," not in shown
    for found in re.findall("[A-Za-z0-9+/]{1100,}", shown):
        assert not all(re.search(kind, found) for kind in ("[A-Z]", "[a-z]", "[0-9]")), found[:40]


@pytest.mark.parametrize("part", ["word ", "a1B" * 333 + " ", "data:", '\\"', "data:;a=b", "A1b" * 25 + "\n"])
def test_the_time_grows_with_the_length_only(part: str) -> None:
    text = BLOB[:900] + " " + part * (1_000_000 // len(part))
    begin = time.process_time()
    without_base64(text)
    assert time.process_time() - begin < 3, "not linear"
