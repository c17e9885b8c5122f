"""Arguments, documents and APIs that try to send a request elsewhere than its owner allowed."""

import asyncio
import socket
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from tests.inside.openapi import RequestRefused, Style, UnusableArguments, build, fetched_document
from tests.openapi.api import ApiServer, Received, api_server, http_response, sender_for
from tests.openapi.operations import SERVER, flat_body, operation, parameter
from toolbus import ConnectFailed
from toolbus.config import load_server

pytestmark = pytest.mark.anyio
API = "http://api.example"
STYLES: tuple[Style, ...] = ("simple", "matrix")


@pytest.fixture
async def api() -> AsyncGenerator[ApiServer]:
    async with api_server() as server:
        yield server


@pytest.mark.parametrize(
    "value",
    [
        *("..", ".", "../admin", "a/../../admin", "..\\admin", "%2e%2e", "%2e%2e%2fadmin", "..%2Fadmin"),
        *("%252e%252e%252fadmin", "..;/admin", "a/..;x=1/b", "", "a\0b", [], ["..", ".."]),
    ],
)
def test_an_argument_that_climbs_out_of_its_path_segment(value: Any) -> None:
    """It is refused, in every spelling."""
    one = operation("/users/{color}/posts", parameter("path", "simple"))
    if value == ["..", ".."]:
        assert build(one, {"color": value}).url == f"{SERVER}/users/..,../posts"
        return
    with pytest.raises(UnusableArguments, match="color"):
        build(one, {"color": value})


@pytest.mark.parametrize(
    "value", ["a?x=1", "a#b", "a/b", "a%2Fb", "//evil.example", "@evil.example", "a;b=c"]
)
def test_an_argument_that_would_end_its_path_segment(value: str) -> None:
    """Its content is encoded, so that it stays one segment of the same path."""
    for style in STYLES:
        one = operation("/users/{color}/posts", parameter("path", style))
        url = build(one, {"color": value}).url
        assert url.startswith(f"{SERVER}/users/")
        assert url.endswith("/posts")
        assert url.count("/") == SERVER.count("/") + 3
        assert not set(url.removeprefix(f"{SERVER}/users/").removeprefix(";color=")) & set("?#@;")


def test_two_arguments_that_climb_together() -> None:
    """Parts that are harmless alone are refused together."""
    first = parameter("path", "simple", name="a", argument="a")
    second = parameter("path", "simple", name="b", argument="b")
    with pytest.raises(UnusableArguments, match="leads elsewhere"):
        build(operation("/{a}{b}/x", first, second), {"a": ".", "b": "."})


@pytest.mark.parametrize("value", ["a\r\nx-evil: 1", "a\nb", "a\0b", ["a", "b\r\n"], {"k\r\n": "v"}])
def test_an_argument_that_would_add_a_header(value: Any) -> None:
    """A line break in a header is refused."""
    with pytest.raises(UnusableArguments, match="color: a header"):
        build(operation("/x", parameter("header", "simple")), {"color": value})
    sent = build(operation("/x", parameter("cookie"), parameter("query")), {"color": value})
    assert "\n" not in sent.url + sent.headers.get("cookie", "")


@pytest.mark.parametrize(
    "name",
    [
        "Authorization",
        "Cookie",
        "Host",
        "Content-Length",
        "transfer-encoding",
        "Connection",
        "bad name",
        "a:b",
        "",
    ],
)
def test_a_parameter_that_is_a_header_of_the_connection(name: str) -> None:
    """No argument sets a header of the connection or of the sign-in."""
    one = operation("/x", parameter("header", "simple", name=name))
    with pytest.raises(UnusableArguments, match="cannot be set"):
        build(one, {"color": "x"})


def test_a_cookie_and_a_form_that_would_add_another() -> None:
    """Separators in a value stay part of the value."""
    one = operation("/x", parameter("cookie", name="a;b=c", argument="color"))
    assert build(one, {"color": "x; admin=1"}).headers["cookie"] == "a%3Bb%3Dc=x%3B%20admin=1"
    form = operation("/x", method="POST", body=flat_body("application/x-www-form-urlencoded", "a"))
    assert build(form, {"a": "1&admin=1"}).content == b"a=1%26admin%3D1"


def test_a_part_that_would_end_its_head() -> None:
    """The name of a file cannot add headers or parts."""
    name = 'a"\r\nx-evil: 1'
    parts = operation("/x", method="POST", body=flat_body("multipart/form-data", name, files=(name,)))
    file = "data:text/plain;name=x%22%0D%0Ax-evil%3A1/../y;base64,YQ=="
    content = build(parts, {name: file}).content or b""
    head = content.partition(b"\r\n\r\n")[0].split(b"\r\n")
    assert len(head) == 3  # the boundary, and two headers
    assert b'name="a%22%0D%0Ax-evil: 1"' in head[1]
    assert b"/" not in head[1].partition(b"filename=")[2]
    typed = build(parts, {name: "data:text/plain\r\nx-evil: 1;base64,YQ=="}).content or b""
    assert b"x-evil: 1\r\n" not in typed.replace(b"%0Ax-evil: 1", b"")


PRIVATE = [
    *("127.0.0.1", "localhost", "LOCALHOST", "localhost.", "a.localhost", "127.1", "0x7f.1", "2130706433"),
    *(
        "017700000001",
        "0.0.0.0",
        "0",
        "[::1]",
        "[::]",
        "[::ffff:127.0.0.1]",
        "[::ffff:7f00:1]",
        "[::127.0.0.1]",
    ),
    *("10.0.0.1", "172.16.0.1", "192.168.1.1", "100.64.0.1", "169.254.169.254", "169.254.169.254."),
    *(
        "[fe80::1]",
        "[fd00:ec2::254]",
        "[64:ff9b::a9fe:a9fe]",
        "[2002:7f00:1::]",
        "168.63.129.16",
        "224.0.0.1",
    ),
    *("user:pw@127.0.0.1", "api.example@127.0.0.1", "①②⑦.0.0.1"),
]


@pytest.mark.parametrize("host", PRIVATE)
async def test_a_document_that_names_a_private_server(host: str) -> None:
    """However the address is written, it takes the owner to allow it."""
    async with sender_for(f"http://{host}") as sender:
        with pytest.raises(RequestRefused, match=r"private network.*base_url.*allow_private"):
            await sender.send(operation(server=f"http://{host}/v1"), {})


async def test_a_private_server_that_a_proxy_would_reach(
    monkeypatch: pytest.MonkeyPatch, api: ApiServer
) -> None:
    """A proxy does not lead into the private network."""
    monkeypatch.setenv("http_proxy", api.url)
    monkeypatch.setenv("no_proxy", "")
    async with sender_for("http://169.254.169.254") as sender:
        with pytest.raises(RequestRefused, match="private network"):
            await sender.send(operation(server="http://169.254.169.254"), {})
    assert api.received == []


async def test_a_private_server_that_its_owner_named(api: ApiServer) -> None:
    """The owner may name a private server."""
    for named, is_allowed in (((api.url,), False), ((), True)):
        async with sender_for(api.url, *named, allow_private=is_allowed) as sender:
            assert (await sender.send(api.operation(), {})).status == 200
    # Another port of the same host is another server.
    async with sender_for(api.url, "http://127.0.0.1:1") as sender:
        with pytest.raises(RequestRefused, match="private network"):
            await sender.send(api.operation(), {})


async def test_an_operation_with_a_server_of_its_own(api: ApiServer) -> None:
    """Another origin gets nothing, unless the owner named it; and then no credentials."""
    other = f"http://localhost:{api.port}"
    secrets: dict[str, Any] = {
        "credentials": {"authorization": "Bearer t", "x-key": "k"},
        "query": {"key": "k"},
    }
    async with sender_for(api.url, api.url, **secrets) as sender:
        with pytest.raises(RequestRefused, match=rf"{other} is another origin.*openapi.allow_origins"):
            await sender.send(api.operation(server=other), {})
    assert api.received == []
    async with sender_for(api.url, api.url, other, **secrets) as sender:
        await sender.send(api.operation(server=other), {})
    [request] = api.received
    assert request.target == "/things"
    assert not request.headers.keys() & {"authorization", "x-key", "cookie"}


@pytest.mark.parametrize(
    "location", ["http://localhost:{port}/x", "//localhost:{port}/x", "https://127.0.0.1:{port}/"]
)
async def test_a_redirect_to_another_origin(api: ApiServer, location: str) -> None:
    """It is refused, and nothing is sent there."""

    async def send(writer: asyncio.StreamWriter, _: Received) -> None:
        where = location.format(port=api.port)
        writer.write(http_response(b"", f"location: {where}", status="307 Temporary Redirect"))

    api.answer = send
    async with sender_for(api.url, api.url, credentials={"authorization": "Bearer t"}) as sender:
        with pytest.raises(RequestRefused, match=r"redirects, which is not followed.*allow_origins"):
            await sender.send(api.operation(), {})
    assert len(api.received) == 1


async def test_a_redirect_to_a_named_origin_has_no_credentials(api: ApiServer) -> None:
    """Credentials go to the origin of the API alone."""

    async def send(writer: asyncio.StreamWriter, request: Received) -> None:
        where = f"location: http://localhost:{api.port}/file"
        is_first = request.target == "/things"
        found = http_response(b"", where, "set-cookie: a=b", status="302 Found")
        writer.write(found if is_first else http_response(b"file"))

    api.answer = send
    named = f"http://localhost:{api.port}"
    async with sender_for(api.url, api.url, named, credentials={"authorization": "Bearer t"}) as sender:
        assert (await sender.send(api.operation(), {})).text == "file"
    first, second = api.received
    assert "authorization" in first.headers
    assert not second.headers.keys() & {"authorization", "cookie"}


async def test_a_name_that_changes_its_address_after_the_check(
    api: ApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The connection goes to the address that was checked, for every new connection again."""
    answers = iter(["8.8.8.8", "127.0.0.1"])
    connected: list[object] = []
    loop = type(asyncio.get_running_loop())

    async def look_up(_: object, host: str, port: int, **__: object) -> list[tuple[object, ...]]:
        address = host if host[0].isdigit() else next(answers)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port))]

    async def connect(one: Any, factory: Any, host: str, port: int, **options: Any) -> Any:
        connected.append((host, options.get("server_hostname")))
        return await create(one, factory, "127.0.0.1", api.port)

    create = loop.create_connection
    monkeypatch.setattr(loop, "getaddrinfo", look_up)
    monkeypatch.setattr(loop, "create_connection", connect)

    async def close(writer: asyncio.StreamWriter, _: Received) -> None:
        writer.write(http_response(b"{}", "connection: close"))

    api.answer = close
    async with sender_for(API) as sender:
        assert (await sender.send(operation(server=API), {})).status == 200
        assert api.received[0].headers["host"] == "api.example"
        with pytest.raises(RequestRefused, match=r"api.example \(127.0.0.1\) is in a private network"):
            await sender.send(operation(server=API), {})
    assert connected == [("8.8.8.8", None)]


async def test_a_name_with_a_public_and_a_private_address(monkeypatch: pytest.MonkeyPatch) -> None:
    """One private address is enough to refuse the name."""

    async def look_up(_: object, host: str, port: int, **__: object) -> list[tuple[object, ...]]:
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (one, port)) for one in ("8.8.8.8", "10.0.0.1")]

    monkeypatch.setattr(type(asyncio.get_running_loop()), "getaddrinfo", look_up)
    async with sender_for(API) as sender:
        with pytest.raises(RequestRefused, match=r"\(10.0.0.1\)"):
            await sender.send(operation(server=API), {})


async def test_a_document_that_redirects_to_another_origin(api: ApiServer) -> None:
    """The document is not read from there."""

    async def send(writer: asyncio.StreamWriter, request: Received) -> None:
        where = {"/a": "/b", "/b": f"http://localhost:{api.port}/secret"}.get(request.target, "/")
        writer.write(http_response(b"", f"location: {where}", status="302 Found"))

    api.answer = send
    config = load_server({"url": api.url}, alias="api")
    with pytest.raises(ConnectFailed, match=r"redirects to http://localhost:\d+, which is not followed"):
        await fetched_document(config, f"{api.url}/a")
    assert [request.target for request in api.received] == ["/a", "/b"]
