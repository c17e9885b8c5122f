"""The content of a store: keys, logins, answers and used approvals, for all replicas that share it."""

import asyncio
import json
import socket
import time
from collections.abc import AsyncGenerator
from dataclasses import replace

import pytest

from tests.inside.core import TokenStoreError
from tests.inside.gateway import KEY as KEYS
from tests.inside.gateway import REPLICA as REPLICAS
from tests.inside.gateway import SESSION as SESSIONS
from tests.inside.gateway import (
    STALE_SECONDS,
    ClientSession,
    CredentialDenied,
    CredentialUndecided,
    KeyExists,
    Keys,
    Peers,
    Principal,
    SharedSessions,
    StoredKeys,
    WrongReplica,
)
from tests.inside.policy import ANSWER as ANSWERS
from tests.inside.policy import AnswerKey, Answers, StoredAnswers
from tests.inside.state import (
    Cipher,
    KeptTokens,
    Login,
    Mirror,
    OneTimeUse,
    Store,
    StoreUrl,
    TokenLocks,
    TokenSource,
    kept_seal,
    parse_store_url,
)
from tests.patience import PATIENCE

pytestmark = pytest.mark.anyio
ANN = AnswerKey(user="ann", kind="tool", target="files/delete", definition="d1", rule="r1")


@pytest.fixture
async def mine(url: StoreUrl, cipher: Cipher) -> AsyncGenerator[Store]:
    async with Store(url, cipher) as store:
        yield store


@pytest.fixture
async def theirs(url: StoreUrl, cipher: Cipher) -> AsyncGenerator[Store]:
    """The same store, in another process."""
    async with Store(url, cipher) as store:
        yield store


async def test_an_approval_is_used_once_by_all(mine: Store, theirs: Store) -> None:
    name = OneTimeUse(mine).issue(600)
    uses = await asyncio.gather(*(OneTimeUse(store).use(name) for store in (mine, theirs, mine, theirs)))
    assert sorted(uses) == [False, False, False, True]


async def test_what_one_seals_the_other_opens(mine: Store, theirs: Store) -> None:
    first, second = await asyncio.gather(kept_seal(mine), kept_seal(theirs))
    sealed = first.seal("state", "ann", {"a": 1}, 60)
    assert second.opened("state", "ann", sealed) == {"a": 1}
    assert second.opened("state", "bob", sealed) is None


async def test_a_clock_that_is_set_back_brings_nothing_back(
    mine: Store, theirs: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    seal, spent = await kept_seal(mine), OneTimeUse(mine)
    expired, name = seal.seal("state", "ann", {}, -1), spent.issue(600)
    assert await spent.use(name)
    keys = StoredKeys(theirs)
    secret, _ = await asyncio.to_thread(lambda: keys.add("ann", expires=mine.now() - 1))
    real = time.time
    monkeypatch.setattr(time, "time", lambda: real() - 7 * 86_400)
    assert seal.opened("state", "ann", expired) is None
    assert not await OneTimeUse(theirs).use(name)
    mirror = Mirror(theirs, KEYS)
    await mirror.look()
    shared = StoredKeys(theirs, mirror)
    with pytest.raises(CredentialDenied, match="has expired"):
        Keys(shared, "default", now=shared.now).identity(secret)


async def test_an_answer_counts_here_at_once_and_elsewhere_soon(mine: Store, theirs: Store) -> None:
    here, there = Mirror(mine, ANSWERS), Mirror(theirs, ANSWERS)
    await here.look()
    await there.look()
    warned: list[str] = []
    ours, others = Answers(warned.append), Answers(warned.append)
    ours.share(StoredAnswers(mine, None, here))
    others.share(StoredAnswers(theirs, None, there))
    ours.add(ANN, "always")
    assert ours.find(ANN) == (True, "stored answer")
    async with asyncio.timeout(PATIENCE):
        while others.find(ANN) is None:
            await there.look()
    assert others.find(ANN) == (True, "stored answer")
    # Another definition of the tool is not approved, and its answer replaces the old one.
    changed = AnswerKey(user="ann", kind="tool", target="files/delete", definition="d2", rule="r1")
    assert others.find(changed) is None
    others.add(changed, "never")
    async with asyncio.timeout(PATIENCE):
        while ours.find(changed) is None:
            await here.look()
    assert (ours.find(ANN), ours.find(changed)) == (None, (False, "stored answer"))
    assert await asyncio.to_thread(StoredAnswers(mine).forget, "files/delete") == 1
    await there.look()
    assert others.find(changed) is None
    assert warned == []


async def test_a_stored_answer_replaces_one_for_the_session(mine: Store) -> None:
    mirror = Mirror(mine, ANSWERS)
    await mirror.look()
    answers = Answers(lambda message: None)
    answers.share(StoredAnswers(mine, None, mirror))
    answers.add(ANN, "session")
    assert answers.find(ANN) == (True, "session answer")
    answers.add(ANN, "never")
    assert answers.find(ANN) == (False, "stored answer")
    async with asyncio.timeout(PATIENCE):
        while not mirror.values:
            await mirror.look()
    assert answers.find(ANN) == (False, "stored answer")


async def test_an_answer_that_cannot_be_stored_counts_until_the_end_and_is_reported(cipher: Cipher) -> None:
    store = Store(parse_store_url("postgresql://127.0.0.1:1/db"), cipher)
    store.patience = 0.1
    warned: asyncio.Queue[str] = asyncio.Queue()
    loop = asyncio.get_running_loop()
    answers = Answers(lambda text: loop.call_soon_threadsafe(warned.put_nowait, text) and None)
    answers.share(StoredAnswers(store, None, Mirror(store, ANSWERS)))
    answers.add(ANN, "always")
    async with asyncio.timeout(PATIENCE):
        assert "is kept only until the bus closes: store postgresql://127.0.0.1:1/db" in await warned.get()
    assert answers.find(ANN) == (True, "session answer")
    await store.close()


async def test_keys_are_found_by_all_and_one_that_is_revoked_by_none(mine: Store, theirs: Store) -> None:
    mirror = Mirror(theirs, KEYS)
    admin, gateway = StoredKeys(mine), StoredKeys(theirs, mirror)
    keys = Keys(gateway, "default", now=gateway.now, clock=iter(range(0, 1000, 2)).__next__)
    secret, _ = await asyncio.to_thread(lambda: admin.add("ann", user="ann"))
    await mirror.look()
    assert keys.identity(secret).user == "ann"
    await keys.recorded()
    assert list(await asyncio.to_thread(admin.used)) == [(await asyncio.to_thread(admin.all))[0].digest]
    with pytest.raises(KeyExists):
        await asyncio.to_thread(lambda: admin.add("ann"))
    assert await asyncio.to_thread(admin.revoke, "ann")
    await mirror.look()
    with pytest.raises(CredentialDenied):
        keys.identity(secret)


async def test_while_it_is_not_known_which_keys_are_valid_nobody_is_told_that_theirs_is_not(
    mine: Store,
) -> None:
    now = [0.0]
    mirror = Mirror(mine, KEYS, clock=lambda: now[0])
    shared = StoredKeys(mine, mirror)
    secret, _ = await asyncio.to_thread(lambda: StoredKeys(mine).add("ann"))
    await mirror.look()
    keys = Keys(shared, "default", now=shared.now)
    now[0] = STALE_SECONDS - 1  # the store does not respond, and what was read before counts
    assert keys.identity(secret).name == "ann"
    now[0] = STALE_SECONDS + 1
    with pytest.raises(CredentialUndecided):
        keys.identity(secret)
    await keys.recorded()


async def test_a_login_is_found_by_all_and_renewed_by_one_at_a_time(mine: Store, theirs: Store) -> None:
    first = TokenSource(KeptTokens(mine, ""), TokenLocks([mine]))
    second = TokenSource(KeptTokens(theirs, "", seconds=3600), TokenLocks([theirs]))
    login = Login(issuer="https://as", resource="https://rs", user="ann", access="0", expires_at=None)
    await first.save(login)
    inside, most = 0, 0

    async def renew(tokens: TokenSource) -> None:
        nonlocal inside, most
        async with tokens.lock("https://rs", "ann"):
            inside += 1
            most = max(most, inside)
            found = await tokens.find("https://rs", "ann")
            assert found is not None
            number = int(found.access)
            await tokens.save(replace(found, access=str(number + 1)))
            inside -= 1

    await asyncio.gather(*(renew(tokens) for tokens in (first, second) * 5))
    found = await first.find("https://rs", "ann")
    assert found is not None
    assert (most, found.access) == (1, "10")
    second.lock_seconds = 0.1
    async with first.lock("https://rs", "ann"):
        with pytest.raises(TokenStoreError, match="in use"):
            async with second.lock("https://rs", "ann"):
                pass


async def test_replicas_of_two_versions_understand_each_other(mine: Store, theirs: Store) -> None:
    old, new = Peers(mine), Peers(theirs)
    await new.start("http://127.0.0.1:1")
    # As a newer version may write it: with more than this one knows.
    stored = json.loads(await mine.get(REPLICAS, new.id) or b"")
    await mine.put(REPLICAS, new.id, json.dumps({**stored, "region": "eu"}).encode(), 60)
    found = await old.find(new.id)
    assert found is not None
    assert found.url == "http://127.0.0.1:1"
    ann = Principal(kind="key", name="ann")
    session = ClientSession(name="s", principal=ann, version="2025-11-25", capabilities={})
    sessions = SharedSessions(theirs, new, 60)
    await sessions.opened(session)
    (name,) = await mine.items(SESSIONS)
    facts = json.loads(await mine.get(SESSIONS, name) or b"")
    await mine.put(SESSIONS, name, json.dumps({**facts, "colour": "red"}).encode(), 60)
    await new.close()
    taken = await SharedSessions(mine, old, 60).take("s", ann, avoid={new.id})  # it was not reached
    assert taken is not None
    assert (taken.version, taken.owner, taken.before) == ("2025-11-25", old.id, new.id)
    assert await SharedSessions(mine, old, 60).take("s", Principal(kind="key", name="bob")) is None


async def test_of_replicas_that_take_a_session_over_one_does(mine: Store, theirs: Store) -> None:
    ann = Principal(kind="key", name="ann")
    gone = Peers(mine)
    session = ClientSession(name="s", principal=ann, version="2025-11-25", capabilities={})
    await SharedSessions(mine, gone, 60).opened(session)
    peers = [Peers(mine), Peers(theirs)]
    with socket.create_server(("127.0.0.1", 0)) as listening:  # they can be connected to
        for one in peers:
            await one.start(f"http://127.0.0.1:{listening.getsockname()[1]}")
        taken = await asyncio.gather(
            *(
                SharedSessions(s, one, 60).take("s", ann)
                for s, one in zip((mine, theirs), peers, strict=True)
            ),
            return_exceptions=True,
        )
    owners = [one.owner for one in taken if not isinstance(one, BaseException) and one is not None]
    assert len(owners) == 1
    assert sum(isinstance(one, WrongReplica) for one in taken) == 1
    for one in peers:
        await one.close()
