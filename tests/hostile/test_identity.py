"""Clients, servers and authorization servers that abuse exchanged tokens and forwarded headers."""

import asyncio
import json
import logging
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.auth.resource_server import ResourceServer, resource_server
from tests.gateway.front import Front, modern_bytes
from tests.gateway.signing import AUDIENCE
from tests.hostile.leaks import chain
from tests.identity.exchanging import Exchanging, exchanging
from tests.identity.passing import bearer, called, exchange, gateway, letting_in, names, trusted
from tests.inside.bus import tenant_of, tenants
from tests.inside.connect import ClientIdentity, SubjectToken
from tests.inside.gateway import Principal
from tests.servers.recording import Recording, recording
from toolbus import Toolbus, ToolbusError

pytestmark = pytest.mark.anyio

Pair = tuple[Exchanging, ResourceServer]


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    with trusted(tmp_path) as both:
        yield both


@pytest.fixture
def server() -> Iterator[Recording]:
    with recording() as started:
        yield started


def teams(server: Recording) -> list[str | None]:
    """The value of x-team in each call that arrived."""
    return [headers.get("x-team") for _, _, headers, name in server.requests if name == "tools/call"]


async def test_clients_that_call_at_the_same_time_to_be_taken_for_each_other(pair: Pair) -> None:
    """Each call is made for the subject of its own token."""
    issuer, server = pair
    users = [f"user{number}" for number in range(8)]
    async with gateway({"me": {"url": server.url, "auth": exchange(issuer)}}, letting_in(issuer)) as served:
        tokens = {user: bearer(issuer.token(sub=user)) for user in users}
        asked = users * 4
        found = await asyncio.gather(*(called(served, "me_whoami", tokens[user]) for user in asked))
    assert found == asked
    assert len(issuer.exchanged) == len(users)


@pytest.mark.parametrize(
    "other",
    [
        {"client_id": "another client"},
        {"scope": "tools admin"},
        {"act": {"sub": "an agent"}},
        {"roles": ["admin"]},
    ],
    ids=lambda claims: next(iter(claims)),
)
async def test_a_token_with_few_rights_that_wants_what_was_issued_for_another_one(
    pair: Pair, other: dict[str, Any]
) -> None:
    """A token of the same person with another client, scope, actor or role is exchanged by itself."""
    issuer, server = pair
    async with gateway({"me": {"url": server.url, "auth": exchange(issuer)}}, letting_in(issuer)) as served:
        strong = issuer.token(**{"sub": "ann", "client_id": "app", **other})
        weak = issuer.token(sub="ann", client_id="app")
        for token in (strong, weak, strong):
            assert await called(served, "me_whoami", bearer(token)) == "ann"
    assert [one["subject_token"] for one in issuer.exchanged] == [strong, weak]


@pytest.mark.parametrize("kind", ["forged", "expired", "another audience"])
async def test_a_token_that_is_not_valid_to_have_it_exchanged(pair: Pair, kind: str) -> None:
    """It is refused by the gateway, and the authorization server never sees it."""
    issuer, server = pair
    wrong = {
        "forged": issuer.token(sub="ann")[:-8] + "AAAAAAAA",
        "expired": issuer.token(sub="ann", exp=1_000_000_000),
        "another audience": issuer.token(sub="ann", aud="https://other.example.com"),
    }[kind]
    async with gateway({"me": {"url": server.url, "auth": exchange(issuer)}}, letting_in(issuer)) as served:
        answer = await served.modern("tools/call", {"name": "me_whoami"}, bearer(wrong))
    assert answer.status_code == 401
    assert (issuer.exchanged, issuer.rejected) == ([], [])


async def test_a_server_that_names_an_authorization_server_of_its_own(pair: Pair, tmp_path: Path) -> None:
    """The token of the client is not sent there."""
    issuer, _ = pair
    own = tmp_path / "own"
    own.mkdir()
    with exchanging() as thief, resource_server(thief.issuer, own) as server:
        async with Toolbus({"servers": {"me": {"url": server.url, "auth": exchange(issuer)}}}) as bus:
            with pytest.raises(ToolbusError, match=r"not auth\.issuer"):
                await bus.as_user("ann", token=issuer.token(sub="ann")).call("me/whoami")
        assert (thief.exchanged, thief.rejected) == ([], [])


async def test_an_authorization_server_that_returns_the_token_of_the_client(pair: Pair) -> None:
    """It is refused: the server would get a token for the gateway."""
    issuer, server = pair
    token = issuer.token(sub="ann")
    issuer.overlay = {"access_token": token}
    async with Toolbus({"servers": {"me": {"url": server.url, "auth": exchange(issuer)}}}) as bus:
        with pytest.raises(ToolbusError, match="returned the token of the client") as raised:
            await bus.as_user("ann", token=token).call("me/whoami")
    assert token not in "".join(chain(raised.value))
    assert not [name for name in server.counts() if name.startswith("initialize")]


async def test_tokens_and_values_in_logs_errors_results_and_the_audit_trail(
    pair: Pair, tmp_path: Path, caplog: pytest.LogCaptureFixture, server: Recording
) -> None:
    """Neither the token of the client nor the issued one is in any of them, nor a forwarded value."""
    issuer, guarded = pair
    caplog.set_level(logging.DEBUG)
    servers = {
        "me": {"url": guarded.url, "auth": exchange(issuer)},
        "echo": {"url": server.url, "auth": exchange(issuer, resource=False, audience="echo")},
        "team": {"url": server.url, "forward_headers": ["x-team"]},
    }
    seen: list[str] = []
    token = issuer.token(sub="ann")
    settings = {"servers": servers, "audit": str(tmp_path / "audit.jsonl")}
    async with Toolbus(settings, on_event=lambda event: seen.append(repr(event))) as bus:
        ann = bus.as_user("ann", token=token, headers={"x-team": "s3cret-team"})
        ann.on_event(lambda event: seen.append(repr(event)))
        seen.append((await ann.call("me/whoami")).text)
        await ann.call("team/look")
        server.token = "another"  # it refuses the issued token, and quotes it
        issuer.answer = {"error": "invalid_grant", "error_description": f"quoting {token}"}
        for name in ("echo/look", "me/whoami"):
            try:
                seen.append((await ann.call(name)).text)
            except ToolbusError as error:
                seen += chain(error)
        seen += [repr(bus), repr(ann), repr(bus.servers), repr(ann.servers), str(await ann.health())]
        issuer.answer = None
        server.results["tools/call"] = {"content": [{"type": "text", "text": f"echo {issuer.issued[-1]}"}]}
    found = "\n".join([*seen, caplog.text, (tmp_path / "audit.jsonl").read_text()])
    assert "me/whoami" in found or "whoami" in found
    for secret in (token, *issuer.issued, "s3cret-team"):
        assert secret not in found


async def test_a_server_that_returns_the_token_it_was_sent(pair: Pair, server: Recording) -> None:
    """A client does not get it."""
    issuer, _ = pair
    entry = {"url": server.url, "auth": exchange(issuer, audience="echo")}
    async with gateway({"me": entry}, letting_in(issuer)) as served:
        ann = bearer(issuer.token(sub="ann"))
        assert "me_look" in await names(served, ann)
        text = f"your token is {issuer.issued[-1]}"
        server.results["tools/call"] = {"content": [{"type": "text", "text": text}]}
        assert await called(served, "me_look", ann) == "your token is ***"


@pytest.mark.parametrize(
    ("lines", "status"),
    [
        (b"x-team: red\r\n x-role: admin\r\n", b"400"),  # a folded line
        (b"x-team: red\x00\r\n", b"400"),
        (b"x-team: red\rx-role: admin\r\n", b"400"),
        (b"x-team: red\xe9\r\n", b"400"),
        (b"x-team: " + b"r" * 1_001 + b"\r\n", b"400"),
        (b"x-team : red\r\n", b"400"),
    ],
)
async def test_a_header_that_smuggles_another_one(server: Recording, lines: bytes, status: bytes) -> None:
    """It is refused, and none of it reaches the server."""
    async with gateway({"me": {"url": server.url, "forward_headers": ["x-team"]}}) as served:
        before = len(server.requests)
        assert (await _raw(served, lines)).split(b" ")[1] == status
        assert "x-role" not in str(server.requests)
        assert len(server.requests) == before


@pytest.mark.parametrize(
    ("lines", "value"),
    [
        (b"x_team: admin\r\n", None),
        (b"connection: close, x-team\r\nx-team: admin\r\n", None),
        (b"x-team:\r\n", None),
        (b"x-team: red\r\nX-TEAM: admin\r\n", "red, admin"),  # a value of its own, not the last one
        (b"x-team:    red   \r\n", "red"),
        (b"x-team: red%0d%0ax-role: admin\r\n", "red%0d%0ax-role: admin"),
    ],
)
async def test_a_header_that_looks_like_another_one(
    server: Recording, lines: bytes, value: str | None
) -> None:
    """Only the named header is forwarded, as it was sent."""
    async with gateway({"me": {"url": server.url, "forward_headers": ["x-team"]}}) as served:
        assert b" 200 " in (await _raw(served, lines))[:20]
    assert teams(server) == [value]
    assert "x-role" not in [name for _, _, headers, _ in server.requests for name in headers]


async def _raw(served: Front, lines: bytes) -> bytes:
    """The response to a call with these lines in its head."""
    request = modern_bytes(served.port, "tools/call", {"name": "me_look", "arguments": {}})
    close = b"" if b"connection" in lines else b"connection: close\r\n"
    return await served.raw(request.replace(b"\r\n\r\n", b"\r\n" + close + lines + b"\r\n", 1))


async def test_a_server_that_redirects_to_get_headers_elsewhere(server: Recording) -> None:
    """They stay on its origin."""
    with recording() as elsewhere:
        settings = {"servers": {"me": {"url": server.url, "forward_headers": ["x-team"]}}}
        async with Toolbus(settings) as bus:
            server.redirects["/mcp"] = elsewhere.url
            with pytest.raises(ToolbusError):
                await bus.as_user("ann", headers={"x-team": "red"}).call("me/look")
        assert elsewhere.requests == []


async def test_a_client_that_sends_another_value_each_time(
    server: Recording, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only so many identities are kept, and their connections are closed; another user keeps its own."""
    monkeypatch.setattr(tenants, "MAX_IDENTITIES", 3)
    settings = {"servers": {"me": {"url": server.url, "forward_headers": ["x-team"]}}}
    async with Toolbus(settings) as bus:
        bob = bus.as_user("bob", headers={"x-team": "blue"})
        await bob.call("me/look")
        for number in range(12):
            await bus.as_user("ann", headers={"x-team": f"team{number}"}).call("me/look")
        await asyncio.sleep(0)
        ann = tenant_of(bus).user_of("ann")
        assert len(ann.identities.kept) == 3
        await bob.call("me/look")
    opened = [headers.get("x-team") for _, _, headers, name in server.requests if name == "initialize"]
    assert opened.count("blue") == 1


def test_a_client_that_gets_around_its_quotas_with_other_values() -> None:
    """Quotas belong to the key or token; sessions, tasks and calls belong to one value."""
    red, blue = (
        Principal(kind="key", name="ann", key="k", passed=ClientIdentity(headers=(("x-team", team),)))
        for team in ("red", "blue")
    )
    assert red.holder == blue.holder
    assert red.owner != blue.owner
    assert not red.is_like(blue)
    assert red.bare.is_like(blue.bare)


def test_a_token_in_the_store_a_pickle_or_a_repr() -> None:
    """The store of several gateways has no token of a client, and nothing shows one."""
    identity = ClientIdentity(subject="s", headers=(("x-team", "red"),), token=SubjectToken("s3cret"))
    ann = Principal(kind="subject", name="ann", issuer="https://id.example.com", passed=identity)
    stored = json.dumps(ann.json())
    assert "s3cret" not in stored + repr(ann) + repr(identity) + repr(identity.token)
    assert Principal.read(json.loads(stored)) == ann
    with pytest.raises(TypeError):
        pickle.dumps(identity)
    sealed = Principal.read(json.loads(json.dumps(ann.json(with_token=True))))
    assert sealed.passed is not None
    assert sealed.passed.token is not None
    assert sealed.passed.token.value == "s3cret"
    assert AUDIENCE not in stored
