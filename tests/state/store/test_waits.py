"""Waiting times for a store: for one value and for many, with any failure of the database."""

import asyncio
import sqlite3
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import TypeAlias

import pytest

from tests.inside.core import StoreError
from tests.inside.state import Allowance, Cipher, Store, StoreUrl, parse_store_url
from tests.patience import PATIENCE
from tests.postgres import Server, over_tcp

pytestmark = pytest.mark.anyio
SECONDS = 1.0
FACTOR = 5
"""The factor by which a wait may be longer on a busy machine.

Ten statements, or one that waits for its cancellation, would take longer still.
"""


@asynccontextmanager
async def hangs(postgres: Server, cipher: Cipher, tmp_path: Path) -> AsyncGenerator[Store]:
    """It accepts connections, and answers nothing, neither on those nor on the one that is open."""
    passes = asyncio.Event()
    passes.set()
    async with (
        over_tcp(postgres.database(), "127.0.0.1", passes) as url,
        Store(parse_store_url(url), cipher) as store,
    ):
        passes.clear()
        yield store


@asynccontextmanager
async def never_opens(postgres: Server, cipher: Cipher, tmp_path: Path) -> AsyncGenerator[Store]:
    async with over_tcp(postgres.database(), "127.0.0.1", asyncio.Event()) as url:
        store = Store(parse_store_url(url), cipher)
        yield store
        await store.close()


@asynccontextmanager
async def refuses(postgres: Server, cipher: Cipher, tmp_path: Path) -> AsyncGenerator[Store]:
    async with Store(parse_store_url(postgres.database()), cipher) as store:
        await asyncio.to_thread(postgres.stop)
        try:
            yield store
        finally:
            await asyncio.to_thread(postgres.start)


@asynccontextmanager
async def is_locked(postgres: Server, cipher: Cipher, tmp_path: Path) -> AsyncGenerator[Store]:
    """Another process writes to the file, and does not end."""
    file = tmp_path / "store.db"
    async with Store(parse_store_url(f"sqlite:///{file}"), cipher) as store:
        other = sqlite3.connect(file, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        yield store
        other.close()


Case: TypeAlias = Callable[[Server, Cipher, Path], AbstractAsyncContextManager[Store]]
CASES: tuple[Case, ...] = (hangs, never_opens, refuses, is_locked)


@pytest.mark.parametrize("case", CASES)
async def test_many_who_wait_at_once_wait_no_longer_than_one(
    case: Case, postgres: Server, cipher: Cipher, tmp_path: Path
) -> None:
    async with case(postgres, cipher, tmp_path) as store:
        store.patience = SECONDS
        began = time.monotonic()
        writes = (store.put("x", str(number), b"1", 60) for number in range(30))
        failed = await asyncio.gather(*writes, return_exceptions=True)
        assert {type(one) for one in failed} == {StoreError}
        assert all(f"it has not responded for {SECONDS:g} s" in str(one) for one in failed)
        assert time.monotonic() - began < FACTOR * SECONDS


@pytest.mark.parametrize("case", CASES)
async def test_one_who_needs_several_values_waits_once(
    case: Case, postgres: Server, cipher: Cipher, tmp_path: Path
) -> None:
    async with case(postgres, cipher, tmp_path) as store:
        allowance, began = Allowance(SECONDS), time.monotonic()
        with allowance.used():
            for number in range(10):
                with pytest.raises(StoreError, match="it has not responded"):
                    await store.put("x", str(number), b"1", 60)
        assert allowance.left < 0.1
        assert time.monotonic() - began < FACTOR * SECONDS


async def test_only_waits_for_the_database_are_counted(url: StoreUrl, cipher: Cipher) -> None:
    async with Store(url, cipher) as store:
        allowance = Allowance(PATIENCE)
        with allowance.used():
            await store.put("x", "a", b"1")
            left = allowance.left
            await asyncio.sleep(0.1)
            assert allowance.left == left < PATIENCE
            await store.get("x", "a")
            assert allowance.left < left


async def test_a_statement_whose_database_vanishes_is_tried_again(postgres: Server, cipher: Cipher) -> None:
    passes = asyncio.Event()
    passes.set()
    async with (
        over_tcp(postgres.database(), "127.0.0.1", passes) as url,
        Store(parse_store_url(url), cipher) as store,
    ):
        store.patience = PATIENCE
        passes.clear()
        writing = asyncio.create_task(store.add("once", "a"))
        await asyncio.sleep(0.3)
        await asyncio.to_thread(postgres.stop)  # in the middle of it
        passes.set()
        await asyncio.to_thread(postgres.start)
        assert await writing
        assert not await store.add("once", "a")


async def test_after_a_wait_that_was_given_up_the_store_is_used_again(
    postgres: Server, cipher: Cipher
) -> None:
    passes = asyncio.Event()
    passes.set()
    async with (
        over_tcp(postgres.database(), "127.0.0.1", passes) as url,
        Store(parse_store_url(url), cipher) as store,
    ):
        store.patience = SECONDS
        passes.clear()
        given_up: list[Awaitable[bool]] = [store.add("once", str(number)) for number in range(8)]
        failed = await asyncio.gather(*given_up, return_exceptions=True)
        assert {type(one) for one in failed} == {StoreError}
        passes.set()
        store.patience = PATIENCE
        # More at a time than it has connections.
        await asyncio.gather(*(store.put("x", str(number), b"1") for number in range(8)))
        assert len(await store.items("x")) == 8
