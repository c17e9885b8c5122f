"""Real clients sign in: the SDK's own in both eras, and toolbus itself."""

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any, Literal

import httpx2
import pytest
from mcp.client import Client
from mcp.client.auth import OAuthClientProvider
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import (
    AuthorizationCodeResult,
    OAuthClientInformationFull,
    OAuthClientMetadata,
    OAuthToken,
)
from pydantic import AnyUrl

from tests.auth.buses import bus_of, called, client_of
from tests.gateway.sign_in.signing_in import ANN, CALLBACK, SignIns, parameters, signing_in
from tests.inside.gateway import REQUEST, Person, SignInState, grant_files
from tests.patience import PATIENCE
from toolbus.records import LoginRequest

pytestmark = pytest.mark.anyio

VIEWS = {"views": {"all": {}, "research": {"include": ["add"]}}, "default_view": "all"}


@pytest.fixture
async def gateway(tmp_path: Path) -> AsyncGenerator[SignIns]:
    async with signing_in(SignInState(grant_files(tmp_path / "toolbus.yaml")), VIEWS) as served:
        yield served


class Kept:
    """The SDK's storage for its tokens."""

    def __init__(self) -> None:
        self.tokens: OAuthToken | None = None
        self.client: OAuthClientInformationFull | None = None

    async def get_tokens(self) -> OAuthToken | None:
        return self.tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self.tokens = tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self.client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self.client = client_info


class Agreeing:
    """A person who opens the page that a client shows, and allows all that it asks for."""

    def __init__(self, gateway: SignIns, person: Person = ANN) -> None:
        self.gateway = gateway
        self.person = person
        self.pages: list[str] = []

    async def open(self, url: str) -> str:
        """Open the URL; returns where the browser is sent in the end."""
        self.pages.append(url)
        response = await self.gateway.http.get(url)
        assert response.status_code == 302, response.text
        waiting = self.gateway.server.waiting(parameters(response.headers["location"])[REQUEST])
        assert waiting is not None
        return await self.gateway.server.approve(waiting, self.person, waiting.views)

    async def __call__(self, request: LoginRequest) -> str:
        return await self.open(request.url)

    async def shown(self, url: str) -> None:
        self.answer = parameters(await self.open(url))

    async def callback(self) -> AuthorizationCodeResult:
        return AuthorizationCodeResult(
            code=self.answer["code"], state=self.answer["state"], iss=self.answer["iss"]
        )


def provider(gateway: SignIns, person: Agreeing, kept: Kept, path: str = "/mcp") -> OAuthClientProvider:
    metadata = OAuthClientMetadata(client_name="The SDK", redirect_uris=[AnyUrl(CALLBACK)])
    return OAuthClientProvider(
        f"{gateway.base}{path}",
        metadata,
        kept,
        redirect_handler=person.shown,
        callback_handler=person.callback,
    )


@pytest.mark.parametrize("mode", ["auto", "legacy"])
@pytest.mark.parametrize("path", ["/mcp", "/mcp/research"])
async def test_the_client_of_the_sdk_signs_in(
    mode: Literal["auto", "legacy"], path: str, gateway: SignIns
) -> None:
    person, kept = Agreeing(gateway), Kept()
    for _ in range(2):  # the second time with the tokens of the first
        auth = provider(gateway, person, kept, path)
        async with (
            httpx2.AsyncClient(auth=auth) as http,
            Client(streamable_http_client(f"{gateway.base}{path}", http_client=http), mode=mode) as client,
        ):
            found = {tool.name for tool in (await client.list_tools()).tools}
            assert found == {"add"} if path.endswith("research") else len(found) > 1
            result = await client.call_tool("add", {"a": 1, "b": 2})
            assert result.structured_content == {"result": 3}
    assert len(person.pages) == 1
    (grant,) = gateway.state.grants.all()
    assert (grant.person, grant.client_name, grant.resource) == ("ann", "The SDK", f"{gateway.base}{path}")


async def test_the_client_of_the_sdk_renews_its_token(gateway: SignIns) -> None:
    person, kept = Agreeing(gateway), Kept()
    async with httpx2.AsyncClient(auth=provider(gateway, person, kept)) as http:
        url = f"{gateway.base}/mcp"
        async with Client(streamable_http_client(url, http_client=http)) as client:
            await client.list_tools()
    first = kept.tokens
    assert first is not None
    kept.tokens = first.model_copy(update={"access_token": "", "expires_in": -10})
    auth = provider(gateway, person, kept)
    auth.context.current_tokens = kept.tokens
    async with (
        httpx2.AsyncClient(auth=auth) as http,
        Client(streamable_http_client(url, http_client=http)) as client,
    ):
        await client.list_tools()
    assert kept.tokens is not None
    assert kept.tokens.refresh_token != first.refresh_token


async def test_toolbus_signs_in_to_a_gateway(gateway: SignIns, tmp_path: Path) -> None:
    server: Any = {"url": gateway.front.url, "auth": "oauth"}
    settings = {"servers": {"guarded": server}, "tokens": f"file:{tmp_path / 'tokens'}"}
    person = Agreeing(gateway)
    async with bus_of(settings, person) as bus:
        assert await called(bus, "add", a=1, b=2) == "3"
    async with bus_of(settings) as bus:
        assert await called(bus, "add", a=2, b=2) == "4"
    assert len(person.pages) == 1
    (grant,) = gateway.state.grants.all()
    assert grant.person == "ann"

    client = await client_of(settings)
    assert await client.sign_out(revoke=True)
    assert gateway.state.grants.all() == []


async def test_toolbus_renews_its_token_at_a_gateway(tmp_path: Path) -> None:
    brief = {"auth": {"sign_in": {"token_seconds": 1}}}
    async with signing_in(SignInState(grant_files(tmp_path / "toolbus.yaml")), brief) as gateway:
        server: Any = {"url": gateway.front.url, "auth": "oauth"}
        settings = {"servers": {"guarded": server}, "tokens": f"file:{tmp_path / 'tokens'}"}
        person, turn = Agreeing(gateway), 0
        async with asyncio.timeout(PATIENCE), bus_of(settings, person) as bus:
            while turn < 4:
                assert await called(bus, "add", a=turn, b=2) == str(turn + 2)
                (grant,) = gateway.state.grants.all()
                found = await gateway.state.grants.found(grant.id)
                turn = found[1].number if found else 0
        assert len(person.pages) == 1
