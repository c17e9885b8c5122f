"""Time limits of calls, by a clock that does not depend on how busy the machine is."""

import asyncio
from typing import Any

import pytest

from tests.servers.asking import asking
from tests.virtual_time import VIRTUAL_TIME
from toolbus import CallTimeout, Toolbus

pytestmark = pytest.mark.anyio
TICKS: tuple[str, dict[str, Any]] = ("ask_tick", {"times": 4, "seconds": 50})


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, Any]]:
    return VIRTUAL_TIME


def bus_of(era: str, **timeouts: float) -> Toolbus:
    return Toolbus({"servers": {"ask": {"server": asking(), "era": era}}, "timeouts": timeouts})


@pytest.mark.parametrize("era", ["modern", "legacy"])
async def test_progress_gives_a_call_more_time_up_to_a_limit(era: str) -> None:
    loop = asyncio.get_running_loop()
    async with bus_of(era) as bus:
        for max_timeout in (None, 170.0):
            began, end = loop.time(), max_timeout or 150
            with pytest.raises(CallTimeout):
                await bus.call(*TICKS, timeout=150, max_timeout=max_timeout)
            assert end <= loop.time() - began < end + 5
        began = loop.time()
        assert (await bus.call(*TICKS, timeout=150, max_timeout=1000)).text == "done"
        assert 200 <= loop.time() - began < 205
        with pytest.raises(ValueError, match="max_timeout must be more than 0"):
            await bus.call(*TICKS, max_timeout=0)
    async with bus_of(era, call=150, max=1000) as bus:
        assert (await bus.call(*TICKS)).text == "done"
