"""Servers that must not get a login, nor have us send requests for them, when somebody signs in."""

import asyncio
import json
import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from tests.auth.authorization_server import AuthorizationServer
from tests.auth.buses import bus_of, client_of, config
from tests.auth.pages import Person, walk
from tests.auth.resource_server import METADATA, ResourceServer
from tests.interop.servers import require_installed
from tests.servers.raw_http import RawServer, Request, raw_server, response
from toolbus import SignInFailed

require_installed("oauth")
pytestmark = pytest.mark.anyio

PKCE = "code_challenge_methods_supported"


async def refused(
    guarded: ResourceServer, folder: Path, person: Person, auth: Any = "oauth", **more: Any
) -> SignInFailed:
    """The error for somebody who cannot sign in."""
    client = await client_of(config(guarded, folder, auth, **more))
    with pytest.raises(SignInFailed) as failed:
        await client.sign_in(person)
    assert await client.login() is None
    return failed.value


@pytest.mark.parametrize("methods", [None, [], ["plain"]])
async def test_an_authorization_server_without_pkce(
    methods: list[str] | None, authority: AuthorizationServer, guarded: ResourceServer, tmp_path: Path
) -> None:
    """Nobody is sent there: a stolen code would be enough."""
    authority.spoil(metadata={PKCE: methods})
    ann = Person("ann")
    failure = await refused(guarded, tmp_path, ann)
    assert failure.step == "authorization server"
    assert "PKCE" in failure.reason
    assert ann.requests == []
    assert authority.count("registration") == 0


@pytest.mark.parametrize("claimed", ["https://evil.example.com", "{issuer}/", None])
async def test_metadata_about_another_issuer(
    claimed: str | None, authority: AuthorizationServer, guarded: ResourceServer, tmp_path: Path
) -> None:
    """It is not used, not even if only a slash differs."""
    issuer = None if claimed is None else claimed.format(issuer=authority.issuer)
    authority.spoil(metadata={"issuer": issuer})
    ann = Person("ann")
    failure = await refused(guarded, tmp_path, ann)
    assert failure.step == "authorization server"
    assert "issuer" in failure.reason
    assert ann.requests == []


@pytest.mark.parametrize("iss", ["https://evil.example.com", "{issuer}/", None])
async def test_a_redirect_that_comes_from_another_issuer(
    iss: str | None, authority: AuthorizationServer, guarded: ResourceServer, tmp_path: Path
) -> None:
    """The code is sent to nobody."""
    authority.spoil(iss=None if iss is None else iss.format(issuer=authority.issuer))
    failure = await refused(guarded, tmp_path, Person("ann"))
    assert failure.step == "sign-in"
    assert "iss" in failure.reason
    assert authority.count("token") == 0


async def test_a_redirect_of_another_attempt(
    authority: AuthorizationServer, guarded: ResourceServer, tmp_path: Path
) -> None:
    """Its code is not used: somebody may have slipped in a login of their own."""

    def of_another_attempt(url: str, user: str, callback: str | None) -> str:
        redirect = walk(url, user, callback)
        assert redirect is not None
        return redirect.replace("state=", "state=another")

    failure = await refused(guarded, tmp_path, Person("ann", of_another_attempt))
    assert "state" in failure.reason
    assert authority.count("token") == 0


async def test_metadata_that_redirects_to_another_host(
    authority: AuthorizationServer, guarded: ResourceServer, tmp_path: Path
) -> None:
    """The redirect is not followed."""
    async with canary() as seen:
        authority.spoil(redirect=f"http://localhost:{seen.port}/.well-known/oauth-authorization-server")
        failure = await refused(guarded, tmp_path, Person("ann"))
    assert failure.step == "authorization server"
    assert "redirects to" in failure.reason
    assert seen.connections == 0


async def test_metadata_without_end(
    authority: AuthorizationServer, guarded: ResourceServer, tmp_path: Path
) -> None:
    """It is read up to a limit."""
    authority.spoil(padding=1_000_000)
    failure = await refused(guarded, tmp_path, Person("ann"))
    assert failure.step == "authorization server"
    assert "larger than 262,144 bytes" in failure.reason


@pytest.mark.parametrize(
    "page",
    ["javascript:alert(1)", "file:///etc/passwd", "http://issuer.example.com/auth", "data:text/html,hi"],
)
async def test_a_sign_in_page_that_no_browser_should_open(
    page: str, authority: AuthorizationServer, guarded: ResourceServer, tmp_path: Path
) -> None:
    """Only https URLs are opened, and http ones on this machine."""
    authority.spoil(metadata={"authorization_endpoint": page})
    ann = Person("ann")
    assert (await refused(guarded, tmp_path, ann)).step == "sign-in"
    assert ann.requests == []


@pytest.mark.parametrize("endpoint", ["token_endpoint", "registration_endpoint"])
async def test_an_endpoint_without_encryption(
    endpoint: str, authority: AuthorizationServer, guarded: ResourceServer, tmp_path: Path
) -> None:
    """Nothing is sent to it."""
    authority.spoil(metadata={endpoint: "http://issuer.example.com/endpoint"})
    failure = await refused(guarded, tmp_path, Person("ann"))
    assert "https is required" in failure.reason
    assert failure.step == ("token" if endpoint == "token_endpoint" else "client")


@pytest.mark.parametrize(
    "resource", ["https://evil.example.com/mcp", "{origin}/mcp/other", "{origin}/mc", "{origin}:1/mcp", None]
)
async def test_a_server_that_describes_another_one(
    resource: str | None, authority: AuthorizationServer, tmp_path: Path
) -> None:
    """No token is requested for that one."""
    async with raw_server() as server:
        origin = server.url.removesuffix("/mcp")
        name = None if resource is None else resource.format(origin=origin)
        describe(server, {"resource": name, "authorization_servers": [authority.issuer]})
        failure = await refused(ResourceServer(server.url), tmp_path, Person("ann"))
    assert failure.step == "resource metadata"
    assert "is about" in failure.reason


@pytest.mark.parametrize(
    "issuer",
    ["http://issuer.example.com", "ftp://issuer.example.com", "issuer", "", "unix:///run/docker.sock"],
)
async def test_a_server_that_names_an_authorization_server_without_encryption(
    issuer: str, tmp_path: Path
) -> None:
    """It is not contacted."""
    async with raw_server() as server:
        describe(server, {"resource": server.url, "authorization_servers": [issuer]})
        failure = await refused(ResourceServer(server.url), tmp_path, Person("ann"))
    assert failure.step in ("resource metadata", "authorization server")


PRIVATE = [
    "127.0.0.1",
    "localhost",
    "[::1]",
    "[::ffff:127.0.0.1]",
    "2130706433",
    "127.1",
    "0.0.0.0",
    "0x7f.1",
]
"""Ways to write the address of this machine."""


@pytest.mark.parametrize("host", PRIVATE)
@pytest.mark.parametrize("names", ["metadata", "issuer"])
async def test_a_server_elsewhere_that_names_an_address_in_your_network(
    host: str, names: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is not contacted, however it is written."""
    async with raw_server() as elsewhere, canary() as seen:
        # The server is on another machine, which only the proxy can reach.
        monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{elsewhere.port}")
        monkeypatch.delenv("no_proxy", raising=False)
        url, private = "http://mcp.test/mcp", f"https://{host}:{seen.port}"
        metadata = private if names == "metadata" else f"http://mcp.test{METADATA}"
        describe(elsewhere, {"resource": url, "authorization_servers": [private]}, metadata)
        ann = Person("ann")
        async with bus_of(config(ResourceServer(url), tmp_path), ann) as bus:
            failure = bus.failures["guarded"]
    assert isinstance(failure, SignInFailed)
    assert failure.step == ("resource metadata" if names == "metadata" else "authorization server")
    assert "private network" in failure.reason
    assert ann.requests == []
    assert seen.connections == 0
    assert [request.line for request in elsewhere.requests if host in request.line] == []


async def test_a_server_that_names_an_authorization_server_you_did_not_choose(
    authority: AuthorizationServer, guarded: ResourceServer, tmp_path: Path
) -> None:
    """With `issuer` in the config, no other one gets the credentials."""
    auth = {
        "type": "oauth",
        "client_id": "mine",
        "client_secret": "s3cret",
        "issuer": "https://login.example.com",
    }
    failure = await refused(guarded, tmp_path, Person("ann"), auth)
    assert "auth.issuer" in failure.reason
    assert authority.counts() == {}


class Canary:
    """A port that nobody should connect to."""

    port = 0
    connections = 0

    def connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        writer.close()


@asynccontextmanager
async def canary() -> AsyncGenerator[Canary]:
    """Listen on all addresses of this machine."""
    seen = Canary()
    listening = socket.create_server(("::", 0), family=socket.AF_INET6, dualstack_ipv6=True)
    async with await asyncio.start_server(seen.connected, sock=listening):
        seen.port = listening.getsockname()[1]
        yield seen


def describe(server: RawServer, metadata: dict[str, Any], at: str | None = None) -> None:
    """Have a server refuse all requests without a token, and describe itself so."""

    async def send(writer: asyncio.StreamWriter, request: Request) -> None:
        target = urlsplit(request.line.split()[1]).path
        if request.line.startswith("GET") and "well-known/oauth-protected" in target:
            writer.write(response(json.dumps(metadata).encode()))
        elif request.line.startswith("GET"):
            writer.write(response(b"{}", status="404 Not Found"))
        else:
            challenge = f'Bearer resource_metadata="{at}"' if at else "Bearer"
            writer.write(response(b"{}", f"WWW-Authenticate: {challenge}", status="401 Unauthorized"))

    server.send = server.send_other = send


async def test_a_program_with_a_key_that_is_too_short(
    authority: AuthorizationServer, guarded: ResourceServer, tmp_path: Path
) -> None:
    """It proves nothing with it: a reader of the assertion could compute the key."""
    weak = rsa.generate_private_key(65537, 1024).private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    auth = {"type": "client_credentials", "client_id": "signer", "key": "${PROOF}", "algorithm": "RS256"}
    async with bus_of(config(guarded, tmp_path, auth), get_secret={"PROOF": weak.decode()}.get) as bus:
        [failure] = bus.failures.values()
    assert "auth.key cannot sign with RS256" in str(failure)
    assert "2048 bits" in str(failure)
    assert "token client_credentials 200" not in authority.counts()
