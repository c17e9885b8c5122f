"""Attacks on the authorization server of a gateway: thieves of codes and tokens, and clients that lie."""

import asyncio
import re
import time
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import httpx2
import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from tests.gateway.sign_in.signing_in import ANN, CALLBACK, SignIns, parameters, signing_in
from tests.inside.gateway import (
    REFRESH,
    REGISTRATIONS_PER_MINUTE,
    Person,
    Principal,
    Refusal,
    RequestFacts,
    SignInKeys,
    SignInState,
    carried,
    grant_files,
    is_same_redirect,
    rotate,
)

pytestmark = pytest.mark.anyio

VIEWS = {"views": {"all": {}, "research": {"include": ["add"]}}, "default_view": "all"}


@pytest.fixture
async def gateway(tmp_path: Path) -> AsyncGenerator[SignIns]:
    async with signing_in(SignInState(grant_files(tmp_path / "toolbus.yaml")), VIEWS) as served:
        yield served


async def test_a_stolen_code_is_worth_nothing_without_the_verifier(gateway: SignIns) -> None:
    """The thief of a code has its client ID and redirect URI, but not the secret of PKCE."""
    client, thief = await gateway.registered(), await gateway.registered()
    code = await client.code()
    for attempt in (
        client.exchange(code, code_verifier=thief.verifier),
        client.exchange(code, code_verifier=client.challenge),
        client.exchange(code, code_verifier=""),
        client.exchange(code, redirect_uri="http://127.0.0.1:3118/other"),
        thief.exchange(code, code_verifier=client.verifier),
        client.exchange(code[:-1] + ("A" if code[-1] != "A" else "B")),
    ):
        refused = await attempt
        assert refused.status_code == 400, refused.text
        assert refused.json()["error"] in ("invalid_grant", "invalid_request")
    assert (await client.exchange(code)).status_code == 200


async def test_a_code_that_is_used_twice_revokes_what_it_gave(gateway: SignIns) -> None:
    """A code is replayed: its first user also loses the tokens (RFC 6749, section 4.1.2)."""
    client = await gateway.registered()
    code = await client.code()
    tokens = (await client.exchange(code)).json()
    assert (await gateway.called(tokens["access_token"])).status_code == 200
    assert (await client.exchange(code)).json()["error"] == "invalid_grant"
    assert (await client.refresh(tokens["refresh_token"])).json()["error"] == "invalid_grant"
    assert gateway.state.grants.all() == []


async def test_of_many_who_use_a_code_at_once_nobody_keeps_the_access(gateway: SignIns) -> None:
    """A race for a code: at most one gets tokens, and the others show that the code was stolen."""
    client = await gateway.registered()
    code = await client.code()
    found = await asyncio.gather(*(client.exchange(code) for _ in range(8)))
    assert sum(response.status_code == 200 for response in found) <= 1
    assert gateway.state.grants.all() == []


async def test_a_replayed_refresh_token_revokes_the_whole_family(gateway: SignIns) -> None:
    """A refresh token is stolen and used after its client, or before it: all of the family ends."""
    client = await gateway.registered()
    first = await client.signed_in()
    second = (await client.refresh(first["refresh_token"])).json()
    third = (await client.refresh(second["refresh_token"])).json()
    assert (await client.refresh(first["refresh_token"])).json()["error"] == "invalid_grant"
    for stolen in (second, third):
        assert (await client.refresh(stolen["refresh_token"])).json()["error"] == "invalid_grant"
    assert gateway.state.grants.all() == []


async def test_a_refresh_token_that_nobody_issued_revokes_nothing(gateway: SignIns) -> None:
    """The ID of a grant is in its access token: with that alone, nobody can end or renew the grant."""
    client = await gateway.registered()
    tokens = await client.signed_in()
    head, _, _ = tokens["refresh_token"].rpartition(".")
    kind, number, signature = tokens["refresh_token"].split(".")
    for forged in (f"{head}.{'A' * 43}", f"{kind}.0.{signature}", f"{kind}.{int(number) + 1}.{signature}"):
        assert (await client.refresh(forged)).json()["error"] == "invalid_grant"
    assert (await client.refresh(tokens["refresh_token"])).status_code == 200


async def test_a_code_is_no_refresh_token_and_the_other_way_round(gateway: SignIns) -> None:
    """Each text is signed for its purpose: a code, a registration or a token cannot stand for another."""
    client = await gateway.registered()
    code = await client.code()
    as_refresh = code.replace("tbg_", "tbr_")
    assert (await client.refresh(as_refresh)).json()["error"] == "invalid_grant"
    assert (await client.refresh(code)).json()["error"] == "invalid_grant"
    assert gateway.server.waiting(client.id.removeprefix("tbc_")) is None
    waiting = parameters((await client.authorize()).headers["location"])["request"]
    client.id, mine = f"tbc_{waiting}", client.id
    assert (await client.authorize()).status_code == 400
    client.id = mine
    assert (await client.exchange(code)).status_code == 200


async def test_two_clients_that_say_the_same_are_not_the_same(gateway: SignIns) -> None:
    """A thief registers with the metadata of another client: it does not get its ID or its secret."""
    secret = {"token_endpoint_auth_method": "client_secret_post"}
    one, other = await gateway.registered(**secret), await gateway.registered(**secret)
    assert (one.id != other.id, one.secret != other.secret) == (True, True)


async def test_another_client_cannot_use_a_refresh_token(gateway: SignIns) -> None:
    """A refresh token belongs to the client that got it, and a secret to the client that registered it."""
    client, thief = await gateway.registered(), await gateway.registered()
    tokens = await client.signed_in()
    assert (await thief.refresh(tokens["refresh_token"])).json()["error"] == "invalid_grant"
    secret = await gateway.registered(token_endpoint_auth_method="client_secret_post")
    kept = await secret.signed_in()
    secret.secret = ""
    assert (await secret.refresh(kept["refresh_token"])).status_code == 401
    stolen = {"client_id": thief.id, "token": kept["refresh_token"]}
    assert (await gateway.http.post(f"{gateway.base}/revoke", data=stolen)).status_code == 200
    assert len(gateway.state.grants.all()) == 2


REDIRECTS = [
    ("https://app.example.com/callback", "https://app.example.com/callback/"),
    ("https://app.example.com/callback", "https://app.example.com/callback?next=1"),
    ("https://app.example.com/callback", "https://app.example.com/callback/../evil"),
    ("https://app.example.com/callback", "https://app.example.com:444/callback"),
    ("https://app.example.com/callback", "https://app.example.com.evil.example/callback"),
    ("https://app.example.com/callback", "https://app.example.com@evil.example/callback"),
    ("https://app.example.com/callback", "https://evil.example\\@app.example.com/callback"),
    ("https://app.example.com/callback", "http://app.example.com/callback"),
    ("https://app.example.com/callback", "https://APP.example.com/callback"),
    ("http://localhost:3118/callback", "http://localhost:3119/callback"),
    ("http://127.0.0.1:3118/callback", "http://127.0.0.1:3118/other"),
    ("http://127.0.0.1:3118/callback", "http://localhost:3118/callback"),
    ("http://127.0.0.1:3118/callback", "http://127.0.0.1:80@evil.example/callback"),
    ("http://127.0.0.1:3118/callback", "http://127.0.0.1.evil.example:3118/callback"),
    ("http://127.0.0.1:3118/callback", "https://127.0.0.1:3118/callback"),
    ("http://127.0.0.1/callback", "http://127.0.0.1:1:2/callback"),
    ("http://127.0.0.1/callback", "http://127.0.0.2:3118/callback"),
    ("com.example.app:/callback", "com.example.evil:/callback"),
]


@pytest.mark.parametrize(("registered", "asked"), REDIRECTS)
async def test_a_code_goes_nowhere_but_to_a_registered_uri(
    registered: str, asked: str, gateway: SignIns
) -> None:
    """A redirect to another host, port, path or scheme is refused, and the browser is sent nowhere."""
    client = await gateway.registered(redirect_uris=[registered])
    refused = await client.authorize(redirect_uri=asked)
    assert (refused.status_code, refused.headers.get("location")) == (400, None)
    bad_too = await client.authorize(redirect_uri=asked, response_type="token")
    assert (bad_too.status_code, bad_too.headers.get("location")) == (400, None)


FREE_PORTS = [
    ("http://127.0.0.1:3118/callback", "http://127.0.0.1:50001/callback"),
    ("http://127.0.0.1/callback", "http://127.0.0.1:50001/callback"),
    ("http://[::1]:3118/callback", "http://[::1]:50001/callback"),
    ("http://localhost/callback", "http://localhost:50001/callback"),
]


@pytest.mark.parametrize(("registered", "asked"), FREE_PORTS)
def test_a_program_on_this_machine_chooses_its_port(registered: str, asked: str) -> None:
    """RFC 8252 leaves the port of a loopback address free; nothing else may differ."""
    assert is_same_redirect(registered, asked)
    assert not is_same_redirect(registered, asked.replace("callback", "other"))
    assert not is_same_redirect(registered, f"{asked}?x=1")
    assert not is_same_redirect(asked.replace("http://", "https://"), asked)


@pytest.mark.parametrize(
    "uri",
    [
        "javascript:alert(1)",
        "data:text/html,x",
        "http://app.example.com/callback",
        "https://user@app.example.com/callback",
        "https://app.example.com/callback#part",
        "https://app.example.com/call\\back",
        "https://",
        "//app.example.com/callback",
        "https://app.example.com/" + "x" * 2000,
    ],
)
async def test_a_client_cannot_register_an_unsafe_redirect(uri: str, gateway: SignIns) -> None:
    """A redirect that runs a script, is not encrypted, or hides its host is refused at the registration."""
    body = {"redirect_uris": [uri], "token_endpoint_auth_method": "none"}
    refused = await gateway.http.post(f"{gateway.base}/register", json=body)
    assert refused.status_code == 400
    assert refused.json()["error"] in ("invalid_redirect_uri", "invalid_client_metadata")


async def test_the_gateway_is_no_open_redirector(gateway: SignIns) -> None:
    """A client that nobody registered gets no redirect for any request."""
    client = await gateway.registered()
    for client_id in ("", "unknown", f"{client.id}x", client.id.replace("tbc_", "tbc_A"), "https://"):
        client.id = client_id
        refused = await client.authorize(redirect_uri="https://evil.example/")
        assert (refused.status_code, refused.headers.get("location")) == (400, None)


async def test_a_flood_of_registrations_stores_nothing(gateway: SignIns, tmp_path: Path) -> None:
    """Clients register by the hundred: no file grows, they have to wait, and a person can still sign in."""
    client, before = await gateway.registered(), sizes(tmp_path)
    body = {"redirect_uris": [CALLBACK], "client_name": "x" * 5000}
    found: list[httpx2.Response] = []
    for _ in range(10):
        url = f"{gateway.base}/register"
        found += await asyncio.gather(*(gateway.http.post(url, json=body) for _ in range(30)))
    assert sizes(tmp_path) == before
    [refused, *_] = [one for one in found if one.status_code != 201]
    assert (refused.status_code, refused.json()["error"]) == (429, "too_many_requests")
    assert 1 <= int(refused.headers["retry-after"]) <= 60 / REGISTRATIONS_PER_MINUTE + 1
    for _ in range(5):
        await asyncio.gather(*(client.authorize() for _ in range(30)))
    assert sizes(tmp_path) == before
    assert (await client.signed_in())["access_token"]


async def test_a_stolen_secret_is_worth_nothing_once_it_is_replaced(gateway: SignIns) -> None:
    """With `--keep 0`, nothing that it signed opens anything: no token, code, client or page."""
    client = await gateway.registered(token_endpoint_auth_method="client_secret_post")
    tokens, code = await client.signed_in(), await client.code()
    stolen = gateway.state.keys
    await rotate(gateway.state.values, 0)
    while gateway.state.keys is stolen:
        await gateway.state.open()
        await asyncio.sleep(0.01)
    assert (await gateway.called(tokens["access_token"])).status_code == 401
    assert (await client.refresh(tokens["refresh_token"])).json()["error"] == "invalid_client"
    assert (await client.exchange(code)).json()["error"] == "invalid_client"
    assert (await client.authorize()).status_code == 400
    grant = gateway.state.grants.all()[0]
    again = await gateway.registered()
    made = carried(stolen, REFRESH, grant.id, 1)
    assert (await again.refresh(made)).json()["error"] == "invalid_grant"
    assert (await again.signed_in())["access_token"]


def sizes(folder: Path) -> dict[str, int]:
    return {str(file): file.stat().st_size for file in folder.rglob("*") if file.is_file()}


async def test_a_large_request_is_refused(gateway: SignIns) -> None:
    """A client that sends megabytes, or many thousands of redirects, gets an error and no more."""
    huge = await gateway.http.post(f"{gateway.base}/register", content=b"{" + b" " * 1_000_000)
    assert huge.status_code == 413
    many = [f"https://app.example.com/{number}" for number in range(1000)]
    refused = await gateway.http.post(f"{gateway.base}/register", json={"redirect_uris": many})
    assert refused.status_code == 400
    fields = "&".join(f"a{number}=1" for number in range(1000))
    assert (await gateway.http.get(f"{gateway.base}/authorize?{fields}")).status_code == 400


async def test_a_parameter_cannot_be_sent_twice(gateway: SignIns) -> None:
    """A second redirect_uri or client_id, of which another part might read the other one, is refused."""
    client = await gateway.registered()
    query = f"client_id={client.id}&redirect_uri={CALLBACK}&redirect_uri=https://evil.example/"
    assert (await gateway.http.get(f"{gateway.base}/authorize?{query}")).status_code == 400
    form = b"grant_type=refresh_token&grant_type=authorization_code"
    headers = {"content-type": "application/x-www-form-urlencoded"}
    refused = await gateway.http.post(f"{gateway.base}/token", content=form, headers=headers)
    assert refused.json()["error"] == "invalid_request"


async def test_a_token_for_one_view_opens_no_other(gateway: SignIns) -> None:
    """A token that was asked for at the URL of one view is refused at every other URL of the gateway."""
    client = await gateway.registered()
    narrow = (await client.signed_in(resource=f"{gateway.base}/mcp/research"))["access_token"]
    assert (await gateway.called(narrow, "/mcp/research")).status_code == 200
    assert (await gateway.called(narrow, "/mcp/all")).status_code == 401
    assert (await gateway.called(narrow, "/mcp")).status_code == 401

    code = await client.code(views=["research"])
    other = await client.exchange(code, resource=f"{gateway.base}/mcp/all")
    assert other.json()["error"] == "invalid_target"
    kept = (await client.exchange(code)).json()
    assert (await gateway.called(kept["access_token"], "/mcp/all")).status_code == 403
    wider = await client.refresh(kept["refresh_token"], scope="all")
    assert wider.json()["error"] == "invalid_scope"


@pytest.mark.parametrize(
    "resource", ["https://other.example.com/mcp", "/mcp", "http://[", "{}/mcp/a/b", "{}/other", "{}/mcp?x=1"]
)
async def test_a_token_is_never_for_another_server(resource: str, gateway: SignIns) -> None:
    """A client cannot get a token here that another server would take for its own (RFC 8707)."""
    client = await gateway.registered()
    refused = await client.authorize(resource=resource.format(gateway.base))
    assert parameters(refused.headers["location"])["error"] == "invalid_target"


async def test_a_person_cannot_allow_more_than_the_client_asked_for(gateway: SignIns) -> None:
    """The pages for people cannot be talked into a view that the request does not have."""
    client = await gateway.registered()
    waiting = await client.waiting(scope="research")
    for views in ([], ["all"], ["research", "all"]):
        with pytest.raises(ValueError, match="some of the views"):
            await gateway.server.approve(waiting, ANN, views)


async def test_an_answer_says_who_gave_it(gateway: SignIns) -> None:
    """A client that uses several servers can tell a mixed-up answer by its `iss` (RFC 9207)."""
    client = await gateway.registered()
    answers = [
        await gateway.server.approve(await client.waiting(), ANN, ["all"]),
        gateway.server.refuse(await client.waiting()),
        (await client.authorize(scope="none")).headers["location"],
        (await client.authorize(response_type="token")).headers["location"],
        (await client.authorize(code_challenge="short")).headers["location"],
    ]
    assert [parameters(url)["iss"] for url in answers] == [gateway.base] * 5
    assert [parameters(url)["state"] for url in answers] == ["s1"] * 5


async def test_tokens_of_another_issuer_or_key_are_refused(gateway: SignIns) -> None:
    """Forged tokens: another key, no signature, our key as a shared secret, another issuer or type."""
    client = await gateway.registered()
    token = (await client.signed_in())["access_token"]
    claims: dict[str, Any] = jwt.decode(token, options={"verify_signature": False})
    public = str(gateway.state.keys.public_key)
    other = ec.generate_private_key(ec.SECP256R1())
    unsigned = jwt.encode(claims, "", "none", {"typ": "at+jwt"})
    forged = [
        unsigned,
        jwt.encode(claims, other, "ES256", {"typ": "at+jwt"}),
        jwt.encode(claims, public.ljust(64), "HS256", {"typ": "at+jwt"}),
        gateway.state.keys.token({**claims, "iss": "https://other.example.com"}),
        gateway.state.keys.token({**claims, "aud": "https://other.example.com/mcp"}),
        gateway.state.keys.token({**claims, "exp": int(time.time()) - 1}),
        gateway.state.keys.token({**claims, "grant": "0" * 32}),
        SignInKeys(b"x" * 32).token(claims),
        client.id,
        token.rpartition(".")[0] + ".",
    ]
    for number, one in enumerate([*forged, token]):
        headers = {"host": gateway.base.partition("//")[2], "authorization": f"Bearer {one}"}
        # From another address each, so that none of them has to wait.
        facts = RequestFacts(method="POST", path="/mcp", headers=headers, address=f"10.0.{number}.1")
        found = await gateway.access.admit(facts)
        if one is token:
            assert isinstance(found, Principal)
        else:
            assert isinstance(found, Refusal)
            assert found.status == 401


async def test_an_old_token_does_not_lock_its_address_out(gateway: SignIns) -> None:
    """Clients behind one address whose tokens have expired or were revoked: others are still let in."""
    client = await gateway.registered()
    tokens = await client.signed_in()
    claims = gateway.state.keys.claims(tokens["access_token"])
    for second in range(20):
        old = gateway.state.keys.token({**(claims or {}), "exp": int(time.time()) - 1 - second})
        assert (await gateway.called(old)).status_code == 401
    assert (await gateway.called(tokens["access_token"])).status_code == 200


async def test_a_revoked_grant_ends_an_open_stream(gateway: SignIns) -> None:
    """A stream that was opened with a token ends when its grant is revoked, before the token expires."""
    client = await gateway.registered()
    token = (await client.signed_in())["access_token"]
    headers = {"authorization": f"Bearer {token}"}
    call = asyncio.create_task(gateway.front.modern("tools/call", {"name": "wait", "arguments": {}}, headers))
    await gateway.front.gates.entered.wait()
    (grant,) = gateway.state.grants.all()
    await gateway.state.grants.end(grant.id)
    assert (await call).status_code == 401


async def test_two_people_with_one_client_stay_apart(gateway: SignIns) -> None:
    """The sessions of a client belong to a grant: another person cannot use them, nor a second grant."""
    client = await gateway.registered()
    ann = (await client.signed_in())["access_token"]
    bob = (await client.signed_in(Person(name="bob", user="bob")))["access_token"]
    initialize = {
        "jsonrpc": "2.0",
        "id": 0,
        "method": "initialize",
        "params": {
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "clientInfo": {"name": "x", "version": "1"},
        },
    }
    both = {"accept": "application/json, text/event-stream"}
    opened = await gateway.http.post(
        gateway.front.url, json=initialize, headers={**both, "authorization": f"Bearer {ann}"}
    )
    session = {**both, "mcp-session-id": opened.headers["mcp-session-id"]}
    ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    for token, status in ((ann, 200), (bob, 404)):
        headers = {**session, "authorization": f"Bearer {token}"}
        assert (await gateway.http.post(gateway.front.url, json=ping, headers=headers)).status_code == status


async def test_no_log_has_a_code_or_a_token(gateway: SignIns, caplog: pytest.LogCaptureFixture) -> None:
    """Codes, tokens and secrets are in no log line, even after a refusal."""
    caplog.set_level("DEBUG")
    client = await gateway.registered(token_endpoint_auth_method="client_secret_post")
    code = await client.code()
    tokens = (await client.exchange(code)).json()
    await gateway.called(tokens["access_token"], "/mcp/research")
    await client.exchange(code)
    await gateway.called(tokens["access_token"])
    await client.refresh(tokens["refresh_token"])
    for secret in (code, tokens["access_token"], tokens["refresh_token"], client.secret, client.verifier):
        assert not re.search(re.escape(secret), caplog.text)
