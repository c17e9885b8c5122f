"""The request of an operation: every style of parameters, and every kind of body."""

import base64
from email import message_from_bytes
from email.message import Message
from email.policy import HTTP
from typing import Any, cast
from urllib.parse import parse_qsl, unquote

import pytest

from tests.inside.openapi import Body, PartEncoding, Place, Style, UnusableArguments, build
from tests.openapi.operations import SERVER, body, flat_body, operation, parameter

ARRAY = ["blue", "black", "brown"]
OBJECT = {"R": 100, "G": 200, "B": 150}
PATHS: list[tuple[Style, bool, str, str, str]] = [
    ("simple", False, "blue", "blue,black,brown", "R,100,G,200,B,150"),
    ("simple", True, "blue", "blue,black,brown", "R=100,G=200,B=150"),
    ("label", False, ".blue", ".blue,black,brown", ".R,100,G,200,B,150"),
    ("label", True, ".blue", ".blue.black.brown", ".R=100.G=200.B=150"),
    ("matrix", False, ";color=blue", ";color=blue,black,brown", ";color=R,100,G,200,B,150"),
    ("matrix", True, ";color=blue", ";color=blue;color=black;color=brown", ";R=100;G=200;B=150"),
]
"""The examples of OpenAPI 3.1.1, section 4.8.12.5."""
QUERIES: list[tuple[Style, bool, str | None, str, str]] = [
    ("form", False, "color=blue", "color=blue,black,brown", "color=R,100,G,200,B,150"),
    ("form", True, "color=blue", "color=blue&color=black&color=brown", "R=100&G=200&B=150"),
    ("spaceDelimited", False, None, "color=blue%20black%20brown", "color=R%20100%20G%20200%20B%20150"),
    ("pipeDelimited", False, None, "color=blue%7Cblack%7Cbrown", "color=R%7C100%7CG%7C200%7CB%7C150"),
    (
        "deepObject",
        True,
        None,
        "color[]=blue&color[]=black&color[]=brown",
        "color[R]=100&color[G]=200&color[B]=150",
    ),
]


def query(request_url: str) -> str:
    return request_url.partition("?")[2].replace("%5B", "[").replace("%5D", "]")


@pytest.mark.parametrize(("style", "explode", "single", "array", "members"), PATHS)
def test_a_path_has_each_style_of_the_specification(
    style: Style, explode: bool, single: str, array: str, members: str
) -> None:
    one = operation("/{color}", parameter("path", style, explode=explode))
    for value, expected in (("blue", single), (ARRAY, array), (OBJECT, members)):
        assert build(one, {"color": value}).url == f"{SERVER}/{expected}"


@pytest.mark.parametrize(("style", "explode", "single", "array", "members"), QUERIES)
def test_a_query_has_each_style_of_the_specification(
    style: Style, explode: bool, single: str | None, array: str, members: str
) -> None:
    one = operation("/things", parameter("query", style, explode=explode))
    for value, expected in (("blue", single), (ARRAY, array), (OBJECT, members), (None, "")):
        if expected is not None:
            assert query(build(one, {"color": value}).url) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"a": {"b": [1, 2]}}, "color[a][b][]=1&color[a][b][]=2"),
        ([{"a": 1}, {"a": 2}], "color[0][a]=1&color[1][a]=2"),
        ({"a": None, "b": True}, "color[b]=true"),
    ],
)
def test_a_deep_object_is_nested(value: Any, expected: str) -> None:
    one = operation("/things", parameter("query", "deepObject"))
    assert query(build(one, {"color": value}).url) == expected


def test_headers_and_cookies_have_their_styles() -> None:
    one = operation(
        "/things",
        parameter("header", "simple", explode=False, name="X-List", argument="list"),
        parameter("header", "simple", explode=True, name="X-Object", argument="object"),
        parameter("header", "simple", name="X-None", argument="none"),
        parameter("cookie", name="session", argument="session"),
        parameter("cookie", name="ids", argument="ids", explode=False),
    )
    given = {"list": ARRAY, "object": OBJECT, "none": None, "session": "a;b=c/d", "ids": [1, 2]}
    assert build(one, given).headers == {
        "accept": "*/*",
        "x-list": "blue,black,brown",
        "x-object": "R=100,G=200,B=150",
        "cookie": "session=a%3Bb=c/d; ids=1,2",
    }


def test_reserved_characters_are_encoded_unless_the_document_allows_them() -> None:
    value = "a/b?c&d=e+f#g[h] ü%"
    closed = build(operation("/x", parameter("query")), {"color": value}).url
    assert closed == f"{SERVER}/x?color=a%2Fb%3Fc%26d%3De%2Bf%23g%5Bh%5D%20%C3%BC%25"
    opened = build(operation("/x", parameter("query", allow_reserved=True)), {"color": value}).url
    assert opened == f"{SERVER}/x?color=a/b?c%26d=e%2Bf%23g%5Bh%5D%20%C3%BC%25"
    assert [parse_qsl(url.partition("?")[2]) for url in (closed, opened)] == [[("color", value)]] * 2


@pytest.mark.parametrize("place", ["query", "path", "header", "cookie"])
def test_a_parameter_with_content_is_json(place: Place) -> None:
    kind = "application/json"
    path = "/{color}" if place == "path" else "/x"
    request = build(operation(path, parameter(place, content_type=kind)), {"color": {"a": ["x", 1, None]}})
    written = {"header": request.headers.get("color"), "cookie": request.headers.get("cookie")}
    text = unquote(written.get(place) or request.url)
    assert text.endswith('{"a":["x",1,null]}')
    assert text == text.encode("ascii").decode()


def content(one: Body, arguments: dict[str, Any]) -> tuple[str, bytes]:
    request = build(operation(method="POST", body=one), arguments)
    assert request.content is not None
    return request.headers["content-type"], request.content


def test_a_json_body_is_one_argument_or_several() -> None:
    whole = body("application/merge-patch+json")
    assert content(whole, {"body": [1, "ü"]}) == ("application/merge-patch+json", '[1,"ü"]'.encode())
    flat = body("application/json", argument=None, properties={"name": "name", "body_id": "id"})
    assert content(flat, {"name": None, "body_id": 7, "color": "x"})[1] == b'{"name":null,"id":7}'


def test_a_call_without_a_body_has_none() -> None:
    flat = flat_body("application/json", "name")
    request = build(operation(method="POST", body=flat), {})
    assert (request.content, request.headers) == (b"", {"accept": "*/*"})
    required = flat_body("application/json", "a", required=True)
    assert content(required, {}) == ("application/json", b"{}")
    assert build(operation(), {}).content is None


def test_a_form_is_encoded_by_property() -> None:
    form = body(
        "application/x-www-form-urlencoded",
        encoding={
            "expand": PartEncoding(style="deepObject", explode=True),
            "ids": PartEncoding(style="form", explode=False),
        },
    )
    value = {"name": "a b&c", "tags": ["x", "y"], "owner": {"id": 1}, "expand": {"a": 1}, "ids": [1, 2]}
    kind, data = content(form, {"body": value})
    assert kind == "application/x-www-form-urlencoded"
    assert data == (b"name=a+b%26c&tags=x&tags=y&owner=%7B%22id%22%3A1%7D&expand%5Ba%5D=1&ids=1,2")


def parts(kind: str, data: bytes) -> list[Message]:
    message = message_from_bytes(f"Content-Type: {kind}\r\n\r\n".encode() + data, policy=HTTP)
    return cast("list[Message]", message.get_payload())


PICTURE = bytes(range(256))
BASE64 = base64.b64encode(PICTURE).decode()


@pytest.mark.parametrize(
    ("given", "kind", "name"),
    [
        (PICTURE, "image/png", "file"),
        (BASE64, "image/png", "file"),
        (f"data:image/gif;base64,{BASE64}", "image/gif", "file"),
        (f"data:image/gif;name=a%22b.gif;base64,{BASE64}", "image/gif", 'a"b.gif'),
    ],
)
def test_a_file_arrives_in_every_form_that_a_program_or_model_can_send(
    given: str | bytes, kind: str, name: str
) -> None:
    encoding = {"file": PartEncoding(content_type="image/png")}
    form = flat_body("multipart/form-data", "file", "note", "meta", files=("file",), encoding=encoding)
    file, note, meta = parts(*content(form, {"file": given, "note": "hi", "meta": {"a": 1}}))
    assert (file.get_content_type(), file.get_payload(decode=True)) == (kind, PICTURE)
    shown = file.get_filename() or ""
    assert shown.replace("%22", '"') == name
    assert (note.get_payload(decode=True), note["content-type"]) == (b"hi", None)
    assert (meta.get_payload(decode=True), meta["content-type"]) == (b'{"a":1}', "application/json")


def test_a_list_of_files_is_a_part_for_each() -> None:
    form = body("multipart/form-data", files=("files",))
    sent = parts(*content(form, {"body": {"files": [BASE64, "YQ=="], "tags": ["a", "b"]}}))
    assert [part.get_payload(decode=True) for part in sent] == [PICTURE, b"a", b"a", b"b"]
    names = [part.get_param("name", header="content-disposition") for part in sent]
    assert names == ["files", "files", "tags", "tags"]


def test_bytes_and_text_are_sent_as_they_are() -> None:
    octets = body("application/octet-stream", files=("body",))
    assert content(octets, {"body": BASE64}) == ("application/octet-stream", PICTURE)
    image = body("image/*", files=("body",))
    assert content(image, {"body": f"data:image/webp;base64,{BASE64}"}) == ("image/webp", PICTURE)
    assert content(body("text/plain"), {"body": "ü"}) == ("text/plain; charset=utf-8", "ü".encode())
    assert content(body("application/xml"), {"body": "<a/>"}) == ("application/xml", b"<a/>")


@pytest.mark.parametrize("given", ["not base64!", "data:image/png;base64", 7])
def test_a_file_that_is_none_is_described(given: object) -> None:
    form = flat_body("multipart/form-data", "file", files=("file",))
    with pytest.raises(UnusableArguments, match=r"file: .*(base64|data URL)"):
        build(operation(method="POST", body=form), {"file": given})
