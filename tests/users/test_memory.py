"""Everything remembered about inventories ends with them."""

import gc
import tracemalloc
from pathlib import Path
from weakref import ref

from tests.inside.bus import BusSnapshot, CatalogShaper, LockApprovals, SnapshotInputs
from tests.inside.core import Inventory, Same
from tests.lock.place import OFFER, Place, inventory_of
from toolbus.config import load_config


def offered() -> Inventory:
    return inventory_of("files", OFFER)


def approvals_of(folder: Path) -> LockApprovals:
    place = Place(folder)
    place.approve()
    return LockApprovals(load_config(place.config))


def test_a_review_ends_with_its_inventory(tmp_path: Path) -> None:
    approvals, listed = approvals_of(tmp_path), offered()
    assert approvals.review("files", listed).held == ()
    gone = ref(listed)
    del listed
    gc.collect()
    assert gone() is None


def test_a_review_is_made_once_however_many_users_there_are(tmp_path: Path) -> None:
    approvals, every = approvals_of(tmp_path), [offered() for _ in range(600)]
    first = [approvals.review("files", one) for one in every]
    assert all(approvals.review("files", one) is known for one, known in zip(every, first, strict=True))


def test_unknown_names_are_not_remembered() -> None:
    config = load_config({"servers": {"files": {"command": "x"}}})
    inputs = SnapshotInputs(
        shaping=Same(CatalogShaper(config, ())),
        approvals=Same(LockApprovals(config)),
        listed=(("files", Same(offered())),),
        policy=None,
        keeps_results=False,
    )
    snapshot = BusSnapshot(inputs)
    assert snapshot.digest("prompt", "files", "greet")
    assert snapshot.digest("tool", "files", "read") != snapshot.digest("tool", "files", "write")
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    for number in range(100):
        assert snapshot.digest("prompt", "files", f"{number}" * 100_000) is None
    assert tracemalloc.get_traced_memory()[0] - before < 1_000_000
    tracemalloc.stop()
