"""A tool for user interfaces is locked as any other, and models do not get it from the lock either."""

from pathlib import Path
from typing import Any

import pytest

from tests.lock.place import STAT, Place
from toolbus import CallDenied, Toolbus

pytestmark = pytest.mark.anyio

HIDDEN = [{"ui": {"visibility": ["app"]}}, {"ui/visibility": ["app"]}]


def offering(meta: dict[str, Any]) -> dict[str, Any]:
    return {"tools": [STAT, {"name": "refresh", "inputSchema": {"type": "object"}, "_meta": meta}]}


@pytest.mark.parametrize("meta", HIDDEN, ids=["ui", "flat"])
async def test_models_do_not_get_it_from_the_lock_either(meta: dict[str, Any], tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.offer(offering(meta))
    place.approve(offering(meta))
    bus = Toolbus(place.config)
    assert [tool.name for tool in bus.tools()] == ["files_stat"]
    assert sorted(bus.catalog.names) == ["files_refresh", "files_stat"]
    async with bus:
        await bus.wait_ready(["files"])
        assert bus.held == {}
        assert [tool.name for tool in bus.tools()] == ["files_stat"]


@pytest.mark.parametrize("meta", HIDDEN, ids=["ui", "flat"])
@pytest.mark.parametrize("now", [{}, {"ui": {"visibility": ["model", "app"]}}], ids=["gone", "model"])
async def test_a_tool_that_is_shown_to_models_later_is_held(
    meta: dict[str, Any], now: dict[str, Any], tmp_path: Path
) -> None:
    place = Place(tmp_path)
    place.approve(offering(meta))
    place.offer(offering(now))
    async with Toolbus(place.config) as bus:
        await bus.wait_ready(["files"])
        assert list(bus.held) == ["files/refresh"]
        assert [tool.name for tool in bus.tools()] == ["files_stat"]
        with pytest.raises(CallDenied):
            await bus.call("files_refresh")


@pytest.mark.parametrize(
    ("was", "now", "is_held"),
    [
        ({"ui": {"resourceUri": "ui://a"}}, {"ui": {"resourceUri": "ui://b"}}, True),
        ({"ui/resourceUri": "ui://a"}, {"ui/resourceUri": "ui://b"}, True),
        (
            {"ui": {"resourceUri": "ui://a"}},
            {"ui": {"resourceUri": "ui://a"}, "ui/resourceUri": "ui://b"},
            False,
        ),
        ({"ui": {"visibility": ["model"]}}, {"ui": {"visibility": ["model", "app"]}}, True),
    ],
    ids=["uri", "flat", "unused", "app"],
)
async def test_another_interface_is_held(
    was: dict[str, Any], now: dict[str, Any], is_held: bool, tmp_path: Path
) -> None:
    place = Place(tmp_path)
    place.approve(offering(was))
    place.offer(offering(now))
    async with Toolbus(place.config) as bus:
        await bus.wait_ready(["files"])
        assert list(bus.held) == (["files/refresh"] if is_held else [])
