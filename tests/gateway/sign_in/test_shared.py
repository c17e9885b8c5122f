"""Two gateways on one store: what one of them gives, the other one knows."""

import asyncio
import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from tests.gateway.sign_in.signing_in import SignIns, signing_in
from tests.inside.gateway import (
    CODE_SECONDS,
    GRANT,
    SECRET,
    Grant,
    Principal,
    Refusal,
    RequestFacts,
    SignInState,
    Turn,
    access_of,
    grant_files,
)
from tests.inside.state import Cipher, Store, StoreUrl
from tests.patience import until

pytestmark = pytest.mark.anyio


def store_in(folder: Path) -> Store:
    path = str(folder / "store.db")
    return Store(StoreUrl(database="sqlite", target=path, place=path), Cipher([bytes(32)]))


@asynccontextmanager
async def two(folder: Path) -> AsyncGenerator[tuple[SignIns, SignIns]]:
    """Two gateways behind one public URL."""
    async with (
        store_in(folder) as one,
        store_in(folder) as other,
        signing_in(SignInState(one, is_shared=True)) as first,
        signing_in(SignInState(other, is_shared=True), {"public_url": first.base}) as second,
    ):
        second.public = first.base
        yield first, second


async def test_each_step_of_a_sign_in_may_reach_another_replica(tmp_path: Path) -> None:
    async with two(tmp_path) as (first, second):
        client = await first.registered()
        client.gateway = second
        waiting = await client.waiting()
        client.gateway = first
        code = await client.code()
        assert waiting.client_id == client.id
        client.gateway = second
        tokens = (await client.exchange(code)).json()
        for gateway in (first, second):
            assert (await gateway.called(tokens["access_token"])).status_code == 200
        client.gateway = first
        renewed = (await client.refresh(tokens["refresh_token"])).json()
        client.gateway = second
        assert (await client.refresh(renewed["refresh_token"])).status_code == 200


async def test_a_revoked_grant_ends_at_the_other_replica(tmp_path: Path) -> None:
    async with two(tmp_path) as (first, second):
        client = await first.registered()
        tokens = await client.signed_in()
        headers = {"authorization": f"Bearer {tokens['access_token']}"}
        call = second.front.modern("tools/call", {"name": "wait", "arguments": {}}, headers)
        waiting = asyncio.create_task(call)
        await second.front.gates.entered.wait()
        form = {"client_id": client.id, "token": tokens["refresh_token"]}
        assert (await first.http.post(f"{first.base}/revoke", data=form)).status_code == 200
        assert (await waiting).status_code == 401
        assert (await second.called(tokens["access_token"])).status_code == 401


async def test_a_refresh_token_that_is_used_at_two_replicas_at_once_is_a_replay(tmp_path: Path) -> None:
    async with two(tmp_path) as (first, second):
        client = await first.registered()
        tokens = await client.signed_in()
        other = replace(client, gateway=second)
        found = await asyncio.gather(
            client.refresh(tokens["refresh_token"]), other.refresh(tokens["refresh_token"])
        )
        assert sorted(response.status_code for response in found) in ([200, 400], [400, 400])
        await until(lambda: not first.state.grants.all() and not second.state.grants.all())


def a_grant(grant_id: str, expires: float) -> Grant:
    return Grant(
        id=grant_id,
        person="ann",
        user="ann",
        client_id="c",
        client_name="C",
        resource="r",
        scopes=(),
        views=("all",),
        created=0,
        expires=expires,
    )


@pytest.mark.parametrize("is_shared", [False, True])
async def test_a_value_is_swapped_by_one_of_many(is_shared: bool, tmp_path: Path) -> None:
    values = store_in(tmp_path) if is_shared else grant_files(tmp_path / "toolbus.yaml")
    await values.put(GRANT, "a", b'"old"')
    swaps = [values.swap(GRANT, "a", b'"old"', f'"{number}"'.encode()) for number in range(8)]
    assert sorted(await asyncio.gather(*swaps)) == [False] * 7 + [True]
    assert not await values.swap(GRANT, "a", b'"old"', b'"later"')
    assert not await values.swap(GRANT, "b", b'"old"', b'"later"')
    assert await values.get(GRANT, "b") is None
    if isinstance(values, Store):
        await values.close()


async def test_grants_that_expired_are_forgotten(tmp_path: Path) -> None:
    now = [1000.0]
    grants = SignInState(grant_files(tmp_path / "toolbus.yaml", lambda: now[0])).grants
    await grants.add(a_grant("a" * 32, now[0] + CODE_SECONDS), Turn(number=0))
    assert [grant.id for grant in grants.all()] == ["a" * 32]
    now[0] += CODE_SECONDS
    assert grants.all() == []
    assert await grants.found("a" * 32) is None
    await grants.add(a_grant("b" * 32, now[0] + CODE_SECONDS), Turn(number=0))
    assert list(await grants.values.items(GRANT)) == ["b" * 32]


async def test_a_token_is_neither_right_nor_wrong_while_the_keys_cannot_be_read(tmp_path: Path) -> None:
    files = grant_files(tmp_path / "toolbus.yaml")
    async with signing_in(SignInState(files)) as gateway:
        token = (await (await gateway.registered()).signed_in())["access_token"]
        secret = files.place_of(SECRET, "key")
        others = access_of(gateway.config, sign_in=SignInState(files))
        facts = RequestFacts(
            method="POST",
            path="/mcp",
            headers={"host": "localhost", "authorization": f"Bearer {token}"},
            address="",
        )
        os.chmod(secret, 0o644)
        refused = await others.admit(facts)
        assert isinstance(refused, Refusal)
        assert refused.status == 503
        os.chmod(secret, 0o600)
        assert isinstance(await others.admit(facts), Principal)
