"""A gateway with its own authorization server, and a client that goes through a sign-in step by step."""

import base64
import hashlib
import secrets
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import httpx2

from tests.gateway.driving import JSON, gateway_over
from tests.gateway.front import Front, Gates, gated, modern_request
from tests.gateway.serving import free_port
from tests.inside.config import Serve
from tests.inside.gateway import (
    REQUEST,
    AccessControl,
    App,
    HttpServer,
    Person,
    SignInServer,
    SignInState,
    WaitingRequest,
    access_of,
    listening_socket,
)
from tests.patience import PATIENCE
from toolbus.config import BusConfig, ServerConfig, bus_config

ANN = Person(name="ann", user="ann")
CALLBACK = "http://127.0.0.1:3118/callback"


@dataclass
class SignIns:
    """A gateway where people sign in."""

    front: Front
    base: str
    server: SignInServer
    state: SignInState
    access: AccessControl
    config: BusConfig
    public: str = ""
    """The URL that clients know, if it is another one."""

    @property
    def http(self) -> httpx2.AsyncClient:
        return self.front.http

    async def registered(self, **metadata: Any) -> "OAuthClient":
        """A client that has registered."""
        usual = {"redirect_uris": [CALLBACK], "client_name": "A client", "token_endpoint_auth_method": "none"}
        response = await self.http.post(f"{self.base}/register", json={**usual, **metadata})
        assert response.status_code == 201, response.text
        found = response.json()
        return OAuthClient(self, found["client_id"], found.get("client_secret", ""))

    async def called(self, token: str, path: str = "/mcp") -> httpx2.Response:
        """The response to a call with a token."""
        content = {"name": "add", "arguments": {"a": 1, "b": 2}}
        headers = {"authorization": f"Bearer {token}" if token else ""}
        body, sent = modern_request("tools/call", content, headers)
        return await self.http.post(f"{self.base}{path}", content=body, headers=sent)


@dataclass
class OAuthClient:
    """A client that takes each step of a sign-in on its own."""

    gateway: SignIns
    id: str
    secret: str = ""
    verifier: str = field(default_factory=lambda: secrets.token_urlsafe(48))

    @property
    def challenge(self) -> str:
        digest = hashlib.sha256(self.verifier.encode()).digest()
        return base64.urlsafe_b64encode(digest).decode().rstrip("=")

    async def authorize(self, **changed: str | None) -> httpx2.Response:
        """The response to the browser of a person."""
        usual: dict[str, str | None] = {
            "response_type": "code",
            "client_id": self.id,
            "redirect_uri": CALLBACK,
            "code_challenge": self.challenge,
            "code_challenge_method": "S256",
            "state": "s1",
            "resource": f"{self.gateway.public or self.gateway.base}/mcp",
        }
        query = {name: value for name, value in {**usual, **changed}.items() if value is not None}
        return await self.gateway.http.get(f"{self.gateway.base}/authorize?{urlencode(query)}")

    async def waiting(self, **changed: str | None) -> WaitingRequest:
        """The request that a person is asked about."""
        response = await self.authorize(**changed)
        assert response.status_code == 302, response.text
        found = self.gateway.server.waiting(parameters(response.headers["location"])[REQUEST])
        assert found is not None
        return found

    async def code(self, person: Person = ANN, views: Sequence[str] = (), **changed: str | None) -> str:
        """The code after a person allowed these views, or all that the client asks for."""
        waiting = await self.waiting(**changed)
        redirect = await self.gateway.server.approve(waiting, person, views or waiting.views)
        return parameters(redirect)["code"]

    async def exchange(self, code: str, **changed: str) -> httpx2.Response:
        """The response to a code."""
        usual = {"grant_type": "authorization_code", "code": code, "redirect_uri": CALLBACK}
        return await self.token({**usual, "code_verifier": self.verifier, **changed})

    async def refresh(self, refresh_token: str, **changed: str) -> httpx2.Response:
        """The response to a refresh token."""
        return await self.token({"grant_type": "refresh_token", "refresh_token": refresh_token, **changed})

    async def token(self, form: Mapping[str, str]) -> httpx2.Response:
        own = {"client_id": self.id, **({"client_secret": self.secret} if self.secret else {})}
        return await self.gateway.http.post(f"{self.gateway.base}/token", data={**own, **form})

    async def signed_in(self, person: Person = ANN, views: Sequence[str] = (), **changed: str | None) -> JSON:
        """The tokens after a whole sign-in."""
        response = await self.exchange(await self.code(person, views, **changed))
        assert response.status_code == 200, response.text
        return response.json()


def parameters(url: str) -> dict[str, str]:
    """The parameters of a URL, each of them once."""
    found = parse_qs(urlsplit(url).query, strict_parsing=True)
    assert all(len(values) == 1 for values in found.values()), url
    return {name: values[0] for name, values in found.items()}


def serve_with(base: str, **serve: Any) -> Serve:
    """A `serve` with a sign-in at this URL."""
    fields: Any = {"public_url": base, "auth": {"sign_in": {}}, **serve}
    return Serve(**fields)


@asynccontextmanager
async def signing_in(
    state: SignInState,
    serve: Mapping[str, Any] | None = None,
    port: int = 0,
    servers: Mapping[str, Any] | None = None,
) -> AsyncGenerator[SignIns]:
    """A gateway with a sign-in over HTTP, on a free port of this machine."""
    port = port or free_port()
    base = f"http://127.0.0.1:{port}"
    setting, gates = serve_with(base, **(serve or {})), Gates()
    server = SignInServer(state, setting)
    aliases = {"gated": ServerConfig(alias="gated", transport="stdio", command="none")}
    aliases |= bus_config({"servers": dict(servers or {})}).servers
    made = BusConfig(serve=setting, servers=aliases)
    access = access_of(made, sign_in=state)
    config: JSON = {"servers": {"gated": {"server": gated(gates), "prefix": ""}, **(servers or {})}}
    await state.open()
    async with gateway_over(config, serve=setting) as gateway:
        app = App(gateway, access, beside=(server,))
        http_server = HttpServer(app)
        sock = listening_socket("127.0.0.1", port)
        await http_server.start(sock)
        try:
            async with httpx2.AsyncClient(timeout=PATIENCE, verify=False) as http:
                front = Front(f"{base}/mcp", port, app, http_server, gateway, gates, http)
                yield SignIns(front, base, server, state, access, made)
        finally:
            await http_server.close()
            sock.close()
            await state.close()
