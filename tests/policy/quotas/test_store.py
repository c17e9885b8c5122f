"""Quotas in a store that does not respond for a while."""

import sqlite3
from pathlib import Path

import pytest

from tests.servers.everyday import everyday
from toolbus import OverQuota, Toolbus

pytestmark = pytest.mark.anyio
SUM = {"a": 1, "b": 2}


async def test_without_its_store_a_bus_makes_the_calls_that_it_has_leased_and_no_more(tmp_path: Path) -> None:
    file = tmp_path / "store.db"
    servers = {"day": {"server": everyday()}}
    quotas = [{"per": "server", "per_day": 80}]
    async with Toolbus({"servers": servers, "store": f"sqlite:///{file}", "quotas": quotas}) as bus:
        await bus.call("day_add", SUM)  # ten calls are leased
        locker = sqlite3.connect(file, isolation_level=None)
        locker.execute("BEGIN EXCLUSIVE")
        made, refused = 1, None
        while refused is None:
            try:
                await bus.call("day_add", SUM)
            except OverQuota as error:
                refused = error
            else:
                made += 1
        assert made <= 10
        assert (refused.limit, refused.retry_after) == ("uncounted", 5)
        assert "the calls of quotas[0] cannot be counted (store " in str(refused)
        locker.execute("ROLLBACK")
        locker.close()
        while True:
            try:
                await bus.call("day_add", SUM)
            except OverQuota as error:
                if error.limit == "uncounted":
                    continue  # it is known to be away for a second
                break
            made += 1
    assert 80 - 10 <= made <= 80
