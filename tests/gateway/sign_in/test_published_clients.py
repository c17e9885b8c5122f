"""Clients whose ID is the URL of their metadata: fetched, cached and refused documents."""

import asyncio
import json
from collections.abc import AsyncGenerator, Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from tests.gateway.sign_in.signing_in import CALLBACK, OAuthClient, SignIns, signing_in
from tests.inside.gateway import (
    MOST_FETCHES,
    ClientDirectory,
    ClientRefused,
    SignInKeys,
    SignInState,
    grant_files,
)

pytestmark = pytest.mark.anyio


class Publisher:
    """A web server with the metadata of one client."""

    def __init__(self) -> None:
        self.origin = ""
        self.asked: list[str] = []
        self.changes: dict[str, Any] = {}
        self.status = 200
        self.body: bytes | None = None

    @property
    def url(self) -> str:
        return f"{self.origin}/client.json"

    def document(self) -> bytes:
        usual = {"client_id": self.url, "client_name": "Published", "redirect_uris": [CALLBACK]}
        found = {**usual, "token_endpoint_auth_method": "none", **self.changes}
        return json.dumps({name: value for name, value in found.items() if value is not None}).encode()


@contextmanager
def publishing() -> Generator[Publisher]:
    publisher = Publisher()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            publisher.asked.append(self.path)
            self.send_response(publisher.status)
            self.send_header("location", "https://elsewhere.example.com/")
            self.end_headers()
            self.wfile.write(publisher.document() if publisher.body is None else publisher.body)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  as in the base
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    publisher.origin = f"http://127.0.0.1:{server.server_port}"
    thread = Thread(target=server.serve_forever, args=[0.02])
    thread.start()
    try:
        yield publisher
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture
def publisher() -> Generator[Publisher]:
    with publishing() as found:
        yield found


@pytest.fixture
async def gateway(tmp_path: Path) -> AsyncGenerator[SignIns]:
    async with signing_in(SignInState(grant_files(tmp_path / "toolbus.yaml"))) as served:
        yield served


async def test_a_client_signs_in_with_the_url_of_its_metadata(gateway: SignIns, publisher: Publisher) -> None:
    client = OAuthClient(gateway, publisher.url)
    waiting = await client.waiting()
    assert waiting.client_name == "Published"
    assert waiting.client_host == publisher.origin.removeprefix("http://")
    tokens = await client.signed_in()
    assert (await gateway.called(tokens["access_token"])).status_code == 200
    assert (await client.refresh(tokens["refresh_token"])).status_code == 200
    assert publisher.asked == ["/client.json"]


WRONG: list[dict[str, Any]] = [
    {"client_id": "https://other.example.com/client.json"},
    {"client_id": None},
    {"redirect_uris": None},
    {"redirect_uris": []},
    {"redirect_uris": CALLBACK},
    {"redirect_uris": ["http://evil.example.com/"]},
    {"redirect_uris": [CALLBACK] * 100},
    {"token_endpoint_auth_method": "client_secret_post"},
    {"client_secret": "s3cret"},
]


@pytest.mark.parametrize("changes", WRONG)
async def test_metadata_that_is_not_about_the_client_is_refused(
    changes: dict[str, Any], gateway: SignIns, publisher: Publisher
) -> None:
    publisher.changes = changes
    refused = await OAuthClient(gateway, publisher.url).authorize()
    assert (refused.status_code, refused.json()["error"]) == (400, "invalid_client")


@pytest.mark.parametrize("status", [301, 404, 500])
async def test_a_document_that_cannot_be_read_is_refused_and_not_asked_for_again_at_once(
    status: int, gateway: SignIns, publisher: Publisher
) -> None:
    publisher.status = status
    client = OAuthClient(gateway, publisher.url)
    for _ in range(3):
        refused = await client.authorize()
        assert refused.json()["error_description"] == "the metadata at the URL of the client cannot be read"
    assert len(publisher.asked) == 1


@pytest.mark.parametrize("body", [b"", b"[]", b"{" * 100_000, b"x" * 1_000_000])
async def test_a_hostile_document_is_refused(body: bytes, gateway: SignIns, publisher: Publisher) -> None:
    publisher.body = body
    assert (await OAuthClient(gateway, publisher.url).authorize()).status_code == 400


async def test_many_requests_at_once_fetch_a_document_once(gateway: SignIns, publisher: Publisher) -> None:
    client = OAuthClient(gateway, publisher.url)
    found = await asyncio.gather(*(client.authorize() for _ in range(20)))
    assert {response.status_code for response in found} == {302}
    assert len(publisher.asked) == 1


async def test_the_gateway_cannot_be_made_to_fetch_without_end(
    gateway: SignIns, publisher: Publisher
) -> None:
    for number in range(MOST_FETCHES + 10):
        await OAuthClient(gateway, f"{publisher.origin}/{number}").authorize()
    assert len(publisher.asked) == MOST_FETCHES


async def test_a_gateway_for_others_reads_nothing_in_its_own_network(publisher: Publisher) -> None:
    directory = ClientDirectory("https://tools.example.com")
    keys = SignInKeys(bytes(32))
    port = publisher.origin.rpartition(":")[2]
    for url in (
        publisher.url,
        f"https://127.0.0.1:{port}/client.json",
        f"https://localhost:{port}/client.json",
        f"https://[::ffff:127.0.0.1]:{port}/client.json",
        f"https://127.1:{port}/client.json",
        "https://169.254.169.254/latest",
        "http://client.example.com/client.json",
        "https://client.example.com",
        "https://user@client.example.com/client.json",
        "https://client.example.com/a/../client.json",
        "https://client.example.com/client.json#part",
        "file:///etc/passwd",
    ):
        with pytest.raises(ClientRefused) as refused:
            await directory.client(keys, url)
        assert "private" not in refused.value.reason
    assert publisher.asked == []
