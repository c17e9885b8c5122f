"""Tokens of a real authorization server: expiry, audience, issuer, revocation, scopes, and no forwarding."""

import base64
import json
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest

from tests.auth.authorization_server import AuthorizationServer, authorization_server
from tests.auth.clients import CLIENTS, SECRET
from tests.gateway.requests import Clock, refused, request
from tests.inside.config import setting
from tests.inside.gateway import (
    REMEMBER_OPAQUE,
    AccessControl,
    AccessTokens,
    Issuer,
    Principal,
    Refusal,
    Views,
    access_of,
)
from tests.processes import keeping
from tests.servers.recording import recording
from toolbus import Toolbus
from toolbus.config import Secrets, load_config

pytestmark = pytest.mark.anyio

RESOURCE = "https://tools.example.com/mcp"
METADATA = "https://tools.example.com/.well-known/oauth-protected-resource/mcp"
NAMED = {"host": "tools.example.com", "address": "203.0.113.9"}


@pytest.fixture(scope="module")
def _issuing() -> Iterator[AuthorizationServer]:
    with keeping():
        started = authorization_server(clients=CLIENTS)
        authority = started.__enter__()
    try:
        yield authority
    finally:
        started.__exit__(None, None, None)


@pytest.fixture
def authority(_issuing: AuthorizationServer) -> AuthorizationServer:
    """The authorization server, without counts and faults."""
    _issuing.reset()
    return _issuing


def asked(authority: AuthorizationServer, path: str, **form: str) -> Any:
    """The authorization server's answer to the client `bot`."""
    pair = base64.b64encode(f"bot:{urllib.parse.quote_plus(SECRET)}".encode()).decode()
    body, headers = urllib.parse.urlencode(form).encode(), {"authorization": f"Basic {pair}"}
    with urllib.request.urlopen(urllib.request.Request(authority.issuer + path, body, headers)) as response:
        return json.loads(response.read() or b"null")


def token_of(authority: AuthorizationServer, *, resource: str = RESOURCE, scope: str = "tools") -> str:
    grant = {"grant_type": "client_credentials", "resource": resource, "scope": scope}
    return asked(authority, "/token", **grant)["access_token"]


def keys_of(authority: AuthorizationServer) -> Any:
    with urllib.request.urlopen(f"{authority.issuer}/jwks") as response:
        return json.load(response)


def settings(authority: AuthorizationServer, **oauth: Any) -> dict[str, Any]:
    return {
        "public_url": "https://tools.example.com",
        "auth": {"oauth": {"issuer": authority.issuer, **oauth}},
        "views": {"default": {}, "admin": {}},
    }


class Door:
    """An access control for the tokens of an authorization server; its time can be moved."""

    def __init__(self, authority: AuthorizationServer, **oauth: Any) -> None:
        self.now = Clock(time.time())
        serve = setting("serve", settings(authority, **oauth))
        assert serve.auth.oauth is not None
        issuer = Issuer(serve.auth.oauth, Secrets(lambda name: SECRET if name == "GATEWAY" else None))
        tokens = AccessTokens(serve.auth.oauth, issuer, "default", now=self.now)
        self.access = AccessControl(serve, tokens=tokens, now=self.now, clock=self.now)

    async def admit(self, token: str = "", path: str = "/mcp") -> Principal | Refusal:
        return await self.access.admit(request(token, path=path, **NAMED))


async def test_a_token_says_who_holds_it(authority: AuthorizationServer) -> None:
    door, token = Door(authority), token_of(authority)
    found = await door.admit(token)
    assert isinstance(found, Principal)
    assert (found.kind, found.name, found.user, found.view) == ("subject", "bot", "bot", "default")
    assert found.expires is not None
    assert found.expires > time.time()
    # A second request with it asks nobody.
    before = authority.counts()
    assert await door.admit(token) == found
    assert authority.counts() == before


async def test_an_expired_token(authority: AuthorizationServer) -> None:
    """It is refused, even if it was accepted before."""
    door, token = Door(authority), token_of(authority)
    found = await door.admit(token)
    assert isinstance(found, Principal)
    assert door.access.is_current(found)
    door.now.pass_(3600 + 11)
    assert refused(await door.admit(token)) == (401, "the token has expired")
    assert not door.access.is_current(found)


async def test_a_token_for_another_audience(authority: AuthorizationServer) -> None:
    """It is refused: its first recipient could otherwise use it here."""
    other = token_of(authority, resource="https://other.example.com/mcp")
    assert refused(await Door(authority).admit(other)) == (401, "the token is for another audience")


async def test_a_token_of_another_issuer(authority: AuthorizationServer) -> None:
    """It is refused, even if it is signed with the same key."""
    with authorization_server(clients=CLIENTS) as other:
        foreign = token_of(other)
        assert keys_of(other) == keys_of(authority)  # an example key, which both have
    assert refused(await Door(authority).admit(foreign)) == (401, "the token is of another issuer")


async def test_a_scope_gives_a_view(authority: AuthorizationServer) -> None:
    door = Door(authority, scopes={"admin": "admin", "tools": "default"})
    views = {
        scope: await door.admit(token_of(authority, scope=scope))
        for scope in ("tools", "admin", "tools admin")
    }
    given = {scope: one.view for scope, one in views.items() if isinstance(one, Principal)}
    assert given == {"tools": "default", "admin": "admin", "tools admin": "admin"}


async def test_a_token_without_the_scope_of_a_view(authority: AuthorizationServer) -> None:
    """It gets 403, and the scope that it needs."""
    door = Door(authority, scopes={"admin": "admin", "tools": "default"})
    token = token_of(authority)
    found = await door.admit(token, "/mcp/admin")
    assert isinstance(found, Refusal)
    reason = "the subject 'bot' may not use the view 'admin'"
    challenge = f'error_description="{reason}", resource_metadata="{METADATA}/admin", scope="admin"'
    assert (found.status, found.headers["www-authenticate"]) == (
        403,
        f'Bearer error="insufficient_scope", {challenge}',
    )
    both = await door.admit(token_of(authority, scope="tools admin"), "/mcp/default")
    assert isinstance(both, Principal)
    assert both.view == "default"


async def test_a_request_without_a_token_is_told_where_to_get_one(authority: AuthorizationServer) -> None:
    door = Door(authority, scopes={"tools": "default"})
    found = await door.admit()
    assert isinstance(found, Refusal)
    challenge = f'Bearer resource_metadata="{METADATA}", scope="tools"'
    assert (found.status, found.headers["www-authenticate"]) == (401, challenge)
    for path, resource in (("", RESOURCE), ("/mcp", RESOURCE), ("/mcp/admin", f"{RESOURCE}/admin")):
        facts = request(path=f"/.well-known/oauth-protected-resource{path}", method="GET", **NAMED)
        assert door.access.metadata(facts) == {
            "resource": resource,
            "authorization_servers": [authority.issuer],
            "bearer_methods_supported": ["header"],
            "resource_name": "toolbus",
            "scopes_supported": ["tools"],
        }
    assert door.access.metadata(request(path="/.well-known/oauth-protected-resource/other", **NAMED)) is None


async def test_a_token_for_the_url_of_a_view(authority: AuthorizationServer) -> None:
    """It counts at that URL only."""
    door = Door(authority, scopes={"tools": "default", "admin": "admin"})
    token = token_of(authority, resource=f"{RESOURCE}/admin", scope="tools admin")
    found = await door.admit(token, "/mcp/admin")
    assert isinstance(found, Principal)
    assert found.view == "admin"
    for path in ("/mcp", "/mcp/default"):
        assert refused(await door.admit(token, path)) == (401, "the token is for another audience")


async def test_an_opaque_token_is_asked_about(authority: AuthorizationServer) -> None:
    authority.spoil(format="opaque")
    asking = {"client_id": "bot", "client_secret": "${GATEWAY}"}
    door, token = Door(authority, introspection=asking), token_of(authority)
    found = await door.admit(token)
    assert isinstance(found, Principal)
    # It names no subject: no person asked for it.
    assert (found.kind, found.name, found.user) == ("client", "bot", "client:bot")
    await door.admit(token)
    assert authority.count("introspection") == 1
    other = token_of(authority, resource="https://other.example.com/mcp")
    assert refused(await door.admit(other)) == (401, "the token is for another audience")
    assert refused(await door.admit("invented")) == (401, "the token is not active")
    assert refused(await Door(authority).admit(token)) == (401, "the token is not a JWT")


async def test_a_revoked_token(authority: AuthorizationServer) -> None:
    """It is refused half a minute later."""
    authority.spoil(format="opaque")
    asking = {"client_id": "bot", "client_secret": "${GATEWAY}"}
    door, token = Door(authority, introspection=asking), token_of(authority)
    assert isinstance(await door.admit(token), Principal)
    asked(authority, "/token/revocation", token=token)
    assert isinstance(await door.admit(token), Principal)
    door.now.pass_(REMEMBER_OPAQUE)
    assert refused(await door.admit(token)) == (401, "the token is not active")


async def test_a_wrong_secret_of_the_gateway(
    authority: AuthorizationServer, caplog: pytest.LogCaptureFixture
) -> None:
    """Nobody is admitted; the log has the reason, and quotes neither secret nor token."""
    authority.spoil(format="opaque")
    token = token_of(authority)
    for secret, reason in (("wr0ng-secret", "HTTP 401"), ("${MISSING}", "secret 'MISSING' is not set")):
        door = Door(authority, introspection={"client_id": "bot", "client_secret": secret})
        assert refused(await door.admit(token)) == (503, "the authorization server does not respond")
        assert reason in caplog.text
    assert "wr0ng-secret" not in caplog.text
    assert token not in caplog.text


async def test_the_access_control_of_a_config(authority: AuthorizationServer) -> None:
    config = load_config({"servers": {}, "serve": settings(authority)})
    found = await access_of(config).admit(request(token_of(authority), **NAMED))
    assert isinstance(found, Principal)


async def test_a_token_is_never_passed_on(
    authority: AuthorizationServer, caplog: pytest.LogCaptureFixture
) -> None:
    """No server behind the gateway sees the token of a client, nor does any log."""
    caplog.set_level("DEBUG")
    token = token_of(authority)
    with recording() as server:
        config = {"servers": {"web": {"url": server.url}}, "serve": settings(authority)}
        async with Toolbus(config) as bus:
            principal = await Door(authority).admit(token)
            assert isinstance(principal, Principal)
            view = Views(bus, bus.config.serve).view_of(principal)
            assert (await view.call("web_look")).text == "seen"
        seen = json.dumps([server.requests, server.messages])
    assert "tools/call" in seen
    assert "authorization" not in seen
    assert token not in f"{seen}{caplog.text}{principal}"
