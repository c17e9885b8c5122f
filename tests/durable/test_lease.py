"""Who is dead: decided without a clock."""

import os
from dataclasses import replace
from pathlib import Path

from tests.durable.stage import settings
from toolbus.agent.durable.lease import Leases, Watch, WorkerRow, host, started
from toolbus.agent.durable.store import RunStore

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
