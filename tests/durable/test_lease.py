"""The death of a worker: decided without a clock."""

import os
import sqlite3
from dataclasses import replace
from pathlib import Path

import pytest

from tests.durable.stage import settings
from tests.inside.agent import Leases, RunStore, Watch, WorkerRow, host, started

ROW = WorkerRow(worker="a", lease=3.0, host="", pid=1, started="", agents="agent", version="0")


def test_a_worker_is_dead_once_its_count_stood_still_for_its_lease() -> None:
    watch = Watch(own_beat=1.0)
    assert [watch.dead([ROW]) for _ in range(3)] == [[], [], []]
    assert watch.dead([ROW]) == [ROW]


def test_a_beat_in_time_keeps_it_alive() -> None:
    watch = Watch(own_beat=1.0)
    for beats in range(20):
        assert watch.dead([replace(ROW, beats=beats // 3)]) == []


def test_a_worker_of_this_machine_is_dead_as_soon_as_its_process_has_ended() -> None:
    assert started(os.getpid()), "Linux"
    here = replace(ROW, host=host(), pid=os.getpid(), started=started(os.getpid()))
    assert Watch(1.0).dead([here]) == []
    assert Watch(1.0).dead([replace(here, started="1")]) != [], "its id was given to another process"
    assert Watch(1.0).dead([replace(here, pid=2**22 + 1)]) != []
    assert Watch(1.0).dead([replace(here, host="another", pid=2**22 + 1)]) == []


def test_a_worker_that_has_beaten_meanwhile_is_not_declared_dead(tmp_path: Path) -> None:
    store = RunStore(settings(tmp_path).url)
    store.open()
    leases = Leases(store.engine)
    leases.join(ROW)
    (seen,) = leases.all()
    assert leases.beat("a", "agent", "{}")
    assert not leases.declare_dead(seen)
    (seen,) = leases.all()
    assert leases.declare_dead(seen)
    assert not leases.beat("a", "agent", "{}"), "it learns that it was declared dead"
    leases.leave("a")
    assert leases.all() == []
    store.close()


def test_a_store_of_an_earlier_version_gets_what_it_lacks(tmp_path: Path) -> None:
    own = settings(tmp_path)
    with sqlite3.connect(own.store) as database:
        database.execute(
            "CREATE TABLE toolbus_workers (worker TEXT PRIMARY KEY, beats BIGINT NOT NULL, lease DOUBLE "
            "PRECISION NOT NULL, dead INTEGER NOT NULL DEFAULT 0, host TEXT NOT NULL, pid INTEGER NOT NULL, "
            "started TEXT NOT NULL, agents TEXT NOT NULL, version TEXT NOT NULL)"
        )
        database.execute("INSERT INTO toolbus_workers VALUES ('old', 7, 3.0, 0, '', 1, '', 'agent', '0.0')")
    Path(own.store).chmod(0o600)
    store = RunStore(own.url)
    for _ in range(2):
        store.open()
    leases = Leases(store.engine)
    assert [leases.join(replace(ROW, worker=name)) for name in ("a", "b")] == [1, 2]
    assert leases.join(replace(ROW, worker="again", joined=1)) == 1, "it joins again after it seemed dead"
    rows = leases.all()
    assert [(row.worker, row.joined) for row in rows] == [("b", 2), ("a", 1), ("again", 1), ("old", 0)]
    assert not rows[-1].takes("toolbus.agent"), "nobody knows its tools"
    store.close()


@pytest.mark.parametrize("written", ["", "[]", "7", "[" * 10_000, "\x00"])
def test_a_row_that_toolbus_did_not_write_is_no_worker_of_any_queue(written: str) -> None:
    assert replace(ROW, programs=written).labels == {}
