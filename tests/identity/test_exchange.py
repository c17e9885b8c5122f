"""The token of a client is exchanged for one for the server (RFC 8693): who gets what, and how often."""

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.auth.resource_server import ResourceServer
from tests.gateway.sign_in.signing_in import signing_in
from tests.gateway.signing import AUDIENCE
from tests.identity.exchanging import ACCESS_TOKEN, GRANT, Exchanging
from tests.identity.passing import bearer, called, exchange, gateway, letting_in, names, trusted
from tests.inside.gateway import Person, SignInState, grant_files
from tests.patience import PATIENCE
from toolbus import Toolbus, ToolbusError

pytestmark = pytest.mark.anyio

Pair = tuple[Exchanging, ResourceServer]


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    with trusted(tmp_path) as both:
        yield both


async def test_the_server_knows_the_user_of_the_client(pair: Pair) -> None:
    issuer, server = pair
    entry = {"url": server.url, "auth": exchange(issuer)}
    async with gateway({"me": entry}, letting_in(issuer)) as served:
        ann, bob = bearer(issuer.token(sub="ann")), bearer(issuer.token(sub="bob"))
        assert "me_whoami" in await names(served, ann)
        assert await called(served, "me_whoami", ann) == "ann"
        assert await called(served, "me_whoami", bob) == "bob"
        assert await called(served, "me_whoami", ann) == "ann"
    first = issuer.exchanged[0]
    assert first["grant_type"] == GRANT
    assert first["subject_token_type"] == ACCESS_TOKEN
    assert first["resource"] == server.url
    assert AUDIENCE not in first.values()
    # One for each user, however many requests there were.
    assert len(issuer.exchanged) == 2


async def test_a_key_is_no_token_to_exchange(pair: Pair) -> None:
    """A client without a token gets a clear error, and nobody is asked for it."""
    issuer, server = pair
    async with gateway({"me": {"url": server.url, "auth": exchange(issuer)}}) as served:
        answer = await called(served, "me_whoami", {})
        assert answer.startswith("ERROR")
        assert await names(served, {}) == []
        state = served.gateway.bus.servers["me"]
    assert state.state == "auth_required"
    assert "this caller sent none" in (state.error or "")
    assert issuer.exchanged == []
    assert server.counts() == {}


async def test_a_renewed_token_keeps_the_connection(pair: Pair) -> None:
    """The next exchange uses the new one; the link, and the token that was issued before, stay."""
    issuer, server = pair
    async with gateway({"me": {"url": server.url, "auth": exchange(issuer)}}, letting_in(issuer)) as served:
        for number in range(3):
            renewed = bearer(issuer.token(sub="ann", jti=str(number), exp=time.time() + 1000 + number))
            assert await called(served, "me_whoami", renewed) == "ann"
    assert len(issuer.exchanged) == 1
    assert sum(n for name, n in server.counts().items() if name.startswith("initialize")) <= 1


async def test_an_issued_token_that_expires_is_replaced(pair: Pair) -> None:
    """With the newest token of the client, before a request would be refused."""
    issuer, server = pair
    issuer.lifetime = 2
    async with gateway({"me": {"url": server.url, "auth": exchange(issuer)}}, letting_in(issuer)) as served:
        first, second = (issuer.token(sub="ann", exp=time.time() + seconds) for seconds in (1000, 2000))
        assert await called(served, "me_whoami", bearer(first)) == "ann"
        async with asyncio.timeout(PATIENCE):
            while issuer.exchanged[-1]["subject_token"] == first:
                assert await called(served, "me_whoami", bearer(second)) == "ann"
                await asyncio.sleep(0.1)
        # An older request that comes late does not bring the old token back.
        before = len(issuer.exchanged)
        async with asyncio.timeout(PATIENCE):
            while len(issuer.exchanged) == before:
                assert await called(served, "me_whoami", bearer(first)) == "ann"
                await asyncio.sleep(0.1)
    assert issuer.exchanged[-1]["subject_token"] == second


async def test_many_calls_at_once_need_one_exchange(pair: Pair) -> None:
    issuer, server = pair
    entry = {"url": server.url, "auth": exchange(issuer)}
    async with gateway({"one": entry, "two": entry}, letting_in(issuer)) as served:
        ann = bearer(issuer.token(sub="ann"))
        found = await asyncio.gather(
            *(called(served, f"{alias}_whoami", ann) for alias in ("one", "two") * 5)
        )
    assert found == ["ann"] * 10
    assert len(issuer.exchanged) == 1


@pytest.mark.parametrize("era", ["2025-11-25"])
async def test_a_legacy_session(pair: Pair, era: str) -> None:
    """Each request has its own token: a renewed one goes on, another user does not get the session."""
    issuer, server = pair
    async with gateway({"me": {"url": server.url, "auth": exchange(issuer)}}, letting_in(issuer)) as served:
        ann, later, bob = (
            bearer(issuer.token(sub=name, jti=str(number)))
            for number, name in enumerate(("ann", "ann", "bob"))
        )
        served.http.headers.update(ann)
        session = await served.opened(era)
        assert "ann" in (await session.call("me_whoami")).text
        served.http.headers.update(later)
        assert "ann" in (await session.call("me_whoami")).text
        served.http.headers.update(bob)
        assert (await session.call("me_whoami")).status_code == 404
    assert len(issuer.exchanged) == 1


async def test_the_program_itself_passes_a_token(pair: Pair) -> None:
    """`as_user(name, token=...)`; without a token there is none to exchange."""
    issuer, server = pair
    settings = {"servers": {"me": {"url": server.url, "auth": exchange(issuer, audience=server.url)}}}
    async with Toolbus(settings) as bus:
        ann = bus.as_user("ann", token=issuer.token(sub="ann"))
        assert (await ann.call("me/whoami")).text == "ann"
        again = bus.as_user("ann", token=issuer.token(sub="ann", jti="2"))
        assert (await again.call("me/whoami")).text == "ann"
        with pytest.raises(ToolbusError, match="sent none"):
            await bus.as_user("ann").call("me/whoami")
        with pytest.raises(ToolbusError, match="sent none"):
            await bus.call("me/whoami")
    assert len(issuer.exchanged) == 1
    assert issuer.exchanged[0]["audience"] == server.url


async def test_a_refused_exchange_names_the_server_and_the_error(pair: Pair) -> None:
    issuer, server = pair
    issuer.answer = {"error": "invalid_target", "error_description": "no such audience"}
    settings = {"servers": {"me": {"url": server.url, "auth": exchange(issuer)}}}
    async with Toolbus(settings) as bus:
        with pytest.raises(ToolbusError) as raised:
            await bus.as_user("ann", token=issuer.token(sub="ann")).call("me/whoami")
    assert "'me'" in str(raised.value)
    assert "invalid_target (no such audience)" in str(raised.value)


async def test_a_rejected_target_is_about_names_and_not_credentials(pair: Pair) -> None:
    issuer, server = pair
    issuer.answer = {"error": "invalid_target"}
    async with gateway({"me": {"url": server.url, "auth": exchange(issuer)}}, letting_in(issuer)) as served:
        answer = await called(served, "me_whoami", bearer(issuer.token(sub="ann")))
    assert "check auth.audience and auth.resource" in answer
    assert "credentials" not in answer


async def test_an_issuer_with_an_error_of_its_own_fails_the_sign_in(pair: Pair) -> None:
    """This works even on an open connection: no connection to the server was lost."""
    issuer, server = pair
    issuer.lifetime = 2
    async with gateway({"me": {"url": server.url, "auth": exchange(issuer)}}, letting_in(issuer)) as served:
        ann = bearer(issuer.token(sub="ann"))
        answer = await called(served, "me_whoami", ann)
        issuer.answer, issuer.answer_status = {}, 500
        async with asyncio.timeout(PATIENCE):
            while answer == "ann":  # until its token has expired
                answer = await called(served, "me_whoami", ann)
    assert "sign-in failed" in answer
    assert "/token: HTTP 500" in answer
    assert "try again later" not in answer  # the next step is for the owner
    assert "connection was lost" not in answer


async def test_a_key_holder_gets_the_cause(pair: Pair, caplog: pytest.LogCaptureFixture) -> None:
    """And the bus itself, which never has a token, logs no warning."""
    issuer, server = pair
    servers = {"me": {"url": server.url, "auth": exchange(issuer)}, "other": {"url": server.url}}
    async with gateway(servers) as served:
        answer = await called(served, "me_whoami", {})
    assert "sign in to the gateway with OAuth" in answer
    assert not [one for one in caplog.records if "'me'" in one.getMessage() and one.levelname == "WARNING"]


async def test_a_token_of_the_gateways_own_sign_in_is_exchanged(pair: Pair, tmp_path: Path) -> None:
    issuer, server = pair
    state = SignInState(grant_files(tmp_path / "toolbus.yaml"))
    servers = {"me": {"url": server.url, "auth": exchange(issuer)}}
    async with signing_in(state, servers=servers) as served:
        issuer.trusted = served.base
        for name in ("ann", "bob"):
            tokens = await (await served.registered()).signed_in(Person(name=name, user=name))
            assert await called(served.front, "me_whoami", bearer(tokens["access_token"])) == name
    assert len(issuer.exchanged) == 2
