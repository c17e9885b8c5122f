"""Views in several threads: no user keeps a catalog or a path that was replaced meanwhile."""

import threading
from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

from tests.inside.bus import (
    CatalogShaper,
    Enforcement,
    LockApprovals,
    SnapshotInputs,
    Snapshots,
    live_catalog,
)
from tests.inside.call import CallPath
from tests.inside.config import PolicyRule
from tests.inside.core import Hub, Inventory, Origin, Same, ToolSpec
from tests.patience import PATIENCE
from toolbus.config import load_config

CONFIG = load_config({"servers": {"a": {"command": "x"}}})


def listing(*names: str) -> tuple[tuple[str, Same[Inventory]], ...]:
    tools = [ToolSpec(name=name, origin=Origin("a", name), route="tools/call") for name in names]
    return (("a", Same(Inventory(tools=tuple(tools)))),)


def in_thread(work: Callable[[], object]) -> threading.Thread:
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    return thread


def test_a_user_does_not_keep_the_catalog_that_the_bus_is_replacing() -> None:
    begun, go_on = threading.Event(), threading.Event()

    def slow(tools: list[ToolSpec]) -> list[ToolSpec]:
        if any(tool.name == "new" for tool in tools) and not begun.is_set():
            begun.set()
            assert go_on.wait(PATIENCE)
        return tools

    inputs = SnapshotInputs(
        shaping=Same(CatalogShaper(CONFIG, (slow,))),
        approvals=Same(LockApprovals(CONFIG)),
        listed=listing("old"),
        policy=None,
        keeps_results=False,
    )
    snapshots = Snapshots()

    def live(parent: Any = None) -> live_catalog.LiveCatalog:
        return live_catalog.LiveCatalog(
            snapshots, lambda: inputs, Hub(10), lambda server: True, lambda: (), parent
        )

    bus = live()
    bus.rebuild()
    user = live(bus)
    assert user.now.names == bus.now.names == ("a_old",)
    inputs = replace(inputs, listed=listing("new"))
    bus.outdate()
    user.outdate()
    thread = in_thread(lambda: bus.now)
    assert begun.wait(PATIENCE)
    other = in_thread(lambda: user.now)  # while the bus shapes its tools
    other.join(0.1)
    go_on.set()
    for one in (thread, other):
        one.join(PATIENCE)
    assert user.now.names == user.shaped.catalog.names == bus.now.names == ("a_new",)
    assert user.snapshot.inputs == inputs


def test_a_snapshot_that_could_not_be_built_is_built_again() -> None:
    broken = True

    def inputs() -> SnapshotInputs:
        if broken and built:
            raise MemoryError
        return SnapshotInputs(
            shaping=Same(CatalogShaper(CONFIG, ())),
            approvals=Same(LockApprovals(CONFIG)),
            listed=listing("new" if built else "old"),
            policy=None,
            keeps_results=False,
        )

    built = False
    live = live_catalog.LiveCatalog(Snapshots(), inputs, Hub(10), lambda server: True, lambda: ())
    live.rebuild()
    built = True
    live.is_outdated = True
    for _ in range(2):
        try:
            _ = live.now
        except MemoryError:
            continue
        raise AssertionError("the old catalog was shown")
    broken = False
    assert live.now.names == ("a_new",)


def test_the_path_that_was_listed_last_stays() -> None:
    """A policy that arrives while another thread lays the path without it."""
    listed, go_on = threading.Event(), threading.Event()
    policy, is_first = "none", True

    def stations() -> Any:
        nonlocal is_first
        found = policy
        if found == "none" and not is_first:
            listed.set()
            assert go_on.wait(PATIENCE)
        is_first = False

        def lay(*_: object, **__: object) -> str:
            return found

        station = SimpleNamespace(
            lay=lay, lay_last=lay, run=None, check_offered=None, hooks=(), times_stations=False
        )
        return SimpleNamespace(**dict.fromkeys(STATIONS, station), quotas=lay, is_loaded=True)

    path = CallPath(stations)
    slow = in_thread(path.lay)
    assert listed.wait(PATIENCE)
    policy = "deny"
    other = in_thread(path.lay)
    other.join(0.1)
    go_on.set()
    for thread in (slow, other):
        thread.join(PATIENCE)
    assert path.run == "deny"


STATIONS = ("journal", "observers", "hooks", "arguments", "guards", "policy", "routes")


def test_the_rules_of_a_second_view_count_at_once() -> None:
    """The first view with rules has the path laid; a second one, in another thread, also needs it."""
    enforcement, begun, go_on = Enforcement(CONFIG), threading.Event(), threading.Event()
    laid: list[bool] = []

    def slowly() -> None:
        begun.set()
        assert go_on.wait(PATIENCE)
        laid.append(True)

    enforcement.changed = slowly
    rules = [PolicyRule(do="deny")]
    seen: list[bool] = []

    def second() -> None:
        enforcement.of_view(rules)
        seen.append(bool(laid))

    first = in_thread(lambda: enforcement.of_view(rules))
    assert begun.wait(PATIENCE)
    other = in_thread(second)
    other.join(0.1)
    go_on.set()
    for thread in (first, other):
        thread.join(PATIENCE)
    assert seen == [True]
