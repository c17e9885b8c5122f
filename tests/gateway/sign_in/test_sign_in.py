"""A client signs in at the gateway's own authorization server, and what it gets."""

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from tests.gateway.sign_in.signing_in import ANN, CALLBACK, SignIns, parameters, signing_in
from tests.inside.gateway import SignInState, grant_files, rotate

pytestmark = pytest.mark.anyio

VIEWS = {"views": {"all": {}, "research": {"include": ["add"]}}, "default_view": "all"}


@pytest.fixture
async def gateway(tmp_path: Path) -> AsyncGenerator[SignIns]:
    async with signing_in(SignInState(grant_files(tmp_path / "toolbus.yaml")), VIEWS) as served:
        yield served


async def test_a_client_finds_out_where_to_sign_in(gateway: SignIns) -> None:
    refused = await gateway.called("")
    assert refused.status_code == 401
    assert (
        f'resource_metadata="{gateway.base}/.well-known/oauth-protected-resource/mcp"'
        in refused.headers["www-authenticate"]
    )
    assert 'scope="all research"' in refused.headers["www-authenticate"]
    of_view = await gateway.called("", "/mcp/research")
    assert 'scope="research"' in of_view.headers["www-authenticate"]
    resource = (await gateway.http.get(f"{gateway.base}/.well-known/oauth-protected-resource/mcp")).json()
    assert resource["authorization_servers"] == [gateway.base]
    found = (await gateway.http.get(f"{gateway.base}/.well-known/oauth-authorization-server")).json()
    assert found["issuer"] == gateway.base
    assert found["client_id_metadata_document_supported"] is True
    assert found["authorization_response_iss_parameter_supported"] is True
    assert found["code_challenge_methods_supported"] == ["S256"]
    assert found["scopes_supported"] == ["all", "research"]


async def test_a_client_gets_the_views_that_the_person_allowed(gateway: SignIns) -> None:
    client = await gateway.registered()
    waiting = await client.waiting()
    assert (waiting.client_name, waiting.client_host) == ("A client", "")
    assert (waiting.redirect_host, waiting.is_on_this_machine) == ("127.0.0.1:3118", True)
    assert (waiting.views, waiting.scopes) == (("all", "research"), ("all", "research"))
    redirect = await gateway.server.approve(waiting, ANN, ["research"])
    answer = parameters(redirect)
    assert redirect.startswith(f"{CALLBACK}?")
    assert (answer["state"], answer["iss"]) == ("s1", gateway.base)

    response = await client.exchange(answer["code"])
    tokens = response.json()
    assert response.headers["cache-control"] == "no-store"
    assert (tokens["token_type"], tokens["scope"]) == ("Bearer", "research")
    assert (await gateway.called(tokens["access_token"])).status_code == 200
    assert (await gateway.called(tokens["access_token"], "/mcp/research")).status_code == 200
    assert (await gateway.called(tokens["access_token"], "/mcp/all")).status_code == 403


async def test_a_person_refuses(gateway: SignIns) -> None:
    waiting = await (await gateway.registered()).waiting()
    answer = parameters(gateway.server.refuse(waiting))
    assert (answer["error"], answer["state"], answer["iss"]) == ("access_denied", "s1", gateway.base)
    assert gateway.state.grants.all() == []


async def test_tokens_are_renewed_again_and_again(gateway: SignIns) -> None:
    client = await gateway.registered()
    tokens = await client.signed_in()
    for _ in range(3):
        response = await client.refresh(tokens["refresh_token"])
        assert response.status_code == 200, response.text
        tokens = response.json()
        assert (await gateway.called(tokens["access_token"])).status_code == 200
    assert len(gateway.state.grants.all()) == 1


async def test_a_client_with_a_secret_has_to_know_it(gateway: SignIns) -> None:
    for method in ("client_secret_post", "client_secret_basic"):
        client = await gateway.registered(token_endpoint_auth_method=method)
        code = await client.code()
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": CALLBACK,
            "code_verifier": client.verifier,
        }
        wrong = await gateway.http.post(f"{gateway.base}/token", data={**form, "client_id": client.id})
        assert wrong.status_code == 401
        if method == "client_secret_basic":  # without the ID in the form, as RFC 6749 allows
            response = await gateway.http.post(
                f"{gateway.base}/token", data=form, auth=(client.id, client.secret)
            )
        else:
            response = await client.exchange(code)
        assert response.status_code == 200, response.text


async def test_a_revoked_token_ends_the_grant(gateway: SignIns) -> None:
    client = await gateway.registered()
    for name in ("access_token", "refresh_token"):
        tokens = await client.signed_in()
        assert (await gateway.called(tokens["access_token"])).status_code == 200
        form = {"client_id": client.id, "token": tokens[name], "token_type_hint": name}
        assert (await gateway.http.post(f"{gateway.base}/revoke", data=form)).status_code == 200
        assert (await client.refresh(tokens["refresh_token"])).json()["error"] == "invalid_grant"
    assert gateway.state.grants.all() == []


async def test_sign_ins_survive_a_restart(tmp_path: Path) -> None:
    files = grant_files(tmp_path / "toolbus.yaml")
    async with signing_in(SignInState(files)) as first:
        client = await first.registered()
        tokens = await client.signed_in()
        port = first.front.port
    async with signing_in(SignInState(files), port=port) as second:
        assert (await second.called(tokens["access_token"])).status_code == 200
        client.gateway = second
        assert (await client.refresh(tokens["refresh_token"])).status_code == 200


async def test_what_a_replaced_secret_signed_counts_for_a_while(tmp_path: Path) -> None:
    """Clients and tokens of before work until then, in a process that runs and in one that starts."""
    files = grant_files(tmp_path / "toolbus.yaml")
    async with signing_in(SignInState(files)) as first:
        client = await first.registered(token_endpoint_auth_method="client_secret_post")
        tokens, code, before = await client.signed_in(), await client.code(), first.state.keys
        assert await rotate(files, 3600) > files.now() + 3000
        while first.state.keys is before:
            await first.state.open()
            await asyncio.sleep(0.01)
        assert (await client.exchange(code)).status_code == 200
        [new, old] = (await first.http.get(f"{first.base}/.well-known/jwks.json")).json()["keys"]
        assert (new["kid"], old["kid"]) == (first.state.keys.public_key["kid"], before.public_key["kid"])
        port = first.front.port
    async with signing_in(SignInState(files), port=port) as second:
        assert (await second.called(tokens["access_token"])).status_code == 200
        client.gateway = second
        renewed = (await client.refresh(tokens["refresh_token"])).json()
        assert (await second.called(renewed["access_token"])).status_code == 200
        await rotate(files, 3600)  # of two rotations, the first one ends what the oldest secret signed
    async with signing_in(SignInState(files), port=port) as third:
        assert (await third.called(renewed["access_token"])).status_code == 200
        assert (await third.called(tokens["access_token"])).status_code == 401


async def test_scopes_of_the_config_name_the_views(tmp_path: Path) -> None:
    scopes = {"tools:read": "research", "tools:admin": "all"}
    serve = {**VIEWS, "auth": {"sign_in": {"scopes": scopes}}}
    async with signing_in(SignInState(grant_files(tmp_path / "toolbus.yaml")), serve) as gateway:
        client = await gateway.registered()
        waiting = await client.waiting(scope="tools:read unknown")
        assert (waiting.scopes, waiting.views) == (("tools:read",), ("research",))
        tokens = await client.signed_in(scope="tools:read")
        assert tokens["scope"] == "tools:read"
        assert (await gateway.called(tokens["access_token"])).status_code == 200
        refused = await client.authorize(scope="unknown")
        assert parameters(refused.headers["location"])["error"] == "invalid_scope"
        assert parameters(refused.headers["location"])["iss"] == gateway.base


async def test_a_client_of_one_server_gets_that_server_alone(gateway: SignIns) -> None:
    client = await gateway.registered()
    tokens = await client.signed_in(resource=f"{gateway.base}/mcp/gated")
    assert (await gateway.called(tokens["access_token"], "/mcp/gated")).status_code == 200
    assert (await gateway.called(tokens["access_token"])).status_code == 401
    unknown = await client.signed_in(resource=f"{gateway.base}/mcp/unknown")
    assert (await gateway.called(unknown["access_token"], "/mcp/unknown")).status_code == 403


async def test_another_public_url_ends_the_refresh_tokens_of_the_one_before(tmp_path: Path) -> None:
    files = grant_files(tmp_path / "toolbus.yaml")
    async with signing_in(SignInState(files), VIEWS) as first:
        client = await first.registered()
        tokens = [await client.signed_in(resource=f"{first.base}{path}") for path in ("/mcp", "/mcp/all")]
    async with signing_in(SignInState(files), VIEWS) as second:
        client.gateway = second
        for one in tokens:
            refused = await client.refresh(one["refresh_token"])
            assert (refused.status_code, refused.json()["error"]) == (400, "invalid_grant")
        new = await client.signed_in()
        assert (await client.refresh(new["refresh_token"])).status_code == 200


async def test_a_code_that_comes_again_ends_the_access_of_one_client(gateway: SignIns) -> None:
    notes: list[str] = []
    gateway.state.note = notes.append
    lost, kept = await gateway.registered(), await gateway.registered(client_name="Another")
    code, other = await lost.code(), await kept.signed_in()
    assert [(await lost.exchange(code)).status_code for _ in range(2)] == [200, 400]
    assert (await gateway.called(other["access_token"])).status_code == 200
    assert notes[0] == (
        "a used code or refresh token of 'A client' came again, so the access that 'ann' gave to this "
        "client ended; their other clients keep theirs"
    )
