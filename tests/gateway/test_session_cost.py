"""Many sessions that share their links cost next to nothing."""

import gc
import tracemalloc
from typing import Any

import pytest

from tests.servers.everyday import everyday
from toolbus import Toolbus

pytestmark = pytest.mark.anyio
SESSIONS = 1_000
MOST = 20_000
"""Bytes for a session."""
SERVERS = 20


def _servers(**more: Any) -> dict[str, Any]:
    return {f"day{number}": {"server": everyday(), **more} for number in range(SERVERS)}


@pytest.mark.parametrize(
    ("per_session", "include"),
    [
        (True, None),
        pytest.param(False, None, marks=pytest.mark.full),
        pytest.param(False, "day*", marks=pytest.mark.full),
    ],
)
async def test_a_thousand_idle_sessions(per_session: bool, include: str | None) -> None:
    """A session without calls of its own takes less than 20 KB."""
    async with Toolbus({"servers": _servers(per_session=per_session)}) as bus:
        warm = bus.as_user("", session="warm")
        await _use(warm.view(include=include))
        gc.collect()
        tracemalloc.start()
        try:
            before, _ = tracemalloc.get_traced_memory()
            sessions = [bus.as_user("", session=f"s{number}") for number in range(SESSIONS)]
            views = [session.view(include=include) for session in sessions]
            for view in views:
                await _use(view)
            gc.collect()
            after, _ = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert len({id(view.catalog) for view in views}) == 1
        assert (after - before) / SESSIONS < MOST
        for session in sessions:
            await session.close()


async def _use(view: Any) -> None:
    assert len(view.catalog.names) > SERVERS
    assert len(view.resources()) == SERVERS
    assert view.prompts()
