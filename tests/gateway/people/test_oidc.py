"""People sign in with a real OIDC provider, npm's `oidc-provider`."""

import asyncio
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.auth.authorization_server import AuthorizationServer, authorization_server
from tests.auth.pages import walk
from tests.gateway.people.door import Door, door, query_of
from tests.inside.gateway import Person, listening_socket
from tests.interop.servers import require_installed

require_installed("oauth")
pytestmark = pytest.mark.anyio
PEOPLE: dict[str, Any] = {
    "ann": {"groups": ["staff", "lab"], "email": "ann@example.com", "email_verified": True},
    "bob": {"groups": "guests"},
    "eve": {"groups": ["staff"], "email": "ann@example.com", "email_verified": False},
}
GROUPS = {"views": {"lab": "research", "staff": ["default"]}}
SECRET = "a s3cret: + % and /"


@dataclass
class Provider:
    """The provider, and the port that it sends people back to."""

    server: AuthorizationServer
    port: int

    @asynccontextmanager
    async def door(self, folder: Path, **changes: Any) -> AsyncGenerator[Door]:
        """The pages of a gateway that it knows."""
        usual = {"issuer": self.server.issuer, "client_id": "bus", "client_secret": SECRET, "groups": GROUPS}
        setting = {**usual, "scopes": ["groups", "email"], **changes}
        kept = {name: value for name, value in setting.items() if value is not None}
        async with door(folder, kept, listening_socket("127.0.0.1", self.port)) as opened:
            yield opened


@pytest.fixture(scope="module", params=[True, False], ids=["user info", "ID token"])
def provider(request: pytest.FixtureRequest) -> Generator[Provider]:
    """The provider, with groups in the user info or in the ID token."""
    with listening_socket("127.0.0.1", 0) as sock:
        port = sock.getsockname()[1]
    client = {
        "redirect_uris": [f"http://127.0.0.1:{port}/sign-in/callback"],
        "grant_types": ["authorization_code"],
    }
    clients = [
        {**client, "client_id": "bus", "client_secret": SECRET},
        {
            **client,
            "client_id": "post",
            "client_secret": SECRET,
            "token_endpoint_auth_method": "client_secret_post",
        },
        {**client, "client_id": "public", "token_endpoint_auth_method": "none"},
    ]
    with authorization_server(clients=clients, people=PEOPLE, conform=request.param) as server:
        yield Provider(server, port)


async def come_back(opened: Door, name: str, request: str = "") -> Any:
    """Go to the provider, sign in there, and come back."""
    query = {"request": request} if request else {}
    sent = await opened.get("/oidc", **query)
    assert sent.status_code == 303, sent.text
    back = await asyncio.to_thread(walk, sent.headers["location"], name, f"{opened.url}/callback")
    assert back is not None
    return await opened.http.get(back)


async def test_the_groups_of_a_person_are_views_in_the_order_of_the_config(
    provider: Provider, tmp_path: Path
) -> None:
    async with provider.door(tmp_path) as opened:
        request = await opened.requests.ask("default", "research")
        back = await come_back(opened, "ann", request)
        assert (back.status_code, back.headers["location"]) == (303, f"/sign-in?request={request}")
        await opened.consent(request)
        ann = Person(name=f"ann of {provider.server.issuer}", user="ann")
        assert opened.requests.approved == [(ann, ("default", "research"))]


async def test_a_person_without_a_group_of_the_config_stays_out(provider: Provider, tmp_path: Path) -> None:
    async with provider.door(tmp_path) as opened:
        back = await come_back(opened, "bob")
        assert (back.status_code, "set-cookie" in back.headers) == (403, False)
        assert "none of your groups has access here" in back.text


async def test_an_email_address_counts_only_if_it_is_verified(provider: Provider, tmp_path: Path) -> None:
    async with provider.door(tmp_path, user="email") as opened:
        assert "has not verified your email address" in (await come_back(opened, "eve")).text
        back = await come_back(opened, "ann")
        assert back.status_code == 303
        assert "Signed in as ann@example.com of" in (await opened.get()).text


@pytest.mark.parametrize("client", ["post", "public"])
async def test_a_client_authenticates_as_the_provider_wants(
    provider: Provider, tmp_path: Path, client: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = SECRET if client == "post" else None
    methods = {"token_endpoint_auth_methods_supported": ["client_secret_post"]}
    provider.server.spoil(metadata=methods)
    try:
        async with provider.door(tmp_path, client_id=client, client_secret=secret) as opened:
            assert (await come_back(opened, "ann")).status_code == 303
    finally:
        provider.server.reset()


async def test_a_person_who_refuses_at_the_provider_is_not_signed_in(
    provider: Provider, tmp_path: Path
) -> None:
    async with provider.door(tmp_path) as opened:
        sent = await opened.get("/oidc")
        state = query_of(sent.headers["location"])["state"]
        issuer = provider.server.issuer
        back = await opened.get("/callback", state=state, iss=issuer, error="access_denied")
        assert (back.status_code, "did not sign you in" in back.text) == (403, True)


async def test_a_provider_that_does_not_respond_is_named(tmp_path: Path) -> None:
    setting = {"issuer": "http://127.0.0.1:9", "client_id": "bus", "groups": GROUPS}
    async with door(tmp_path, setting) as opened:
        sent = await opened.get("/oidc")
        assert (sent.status_code, "127.0.0.1:9 cannot be used to sign in now" in sent.text) == (502, True)


async def test_the_page_offers_both_ways(tmp_path: Path) -> None:
    setting = {"issuer": "https://login.example.com", "client_id": "bus", "groups": GROUPS}
    async with door(tmp_path, setting) as opened:
        page = (await opened.get()).text
        assert "Sign in with login.example.com" in page
        assert "One-time link" in page
