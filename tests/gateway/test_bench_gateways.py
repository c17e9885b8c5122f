"""The benchmark of the gateway makes the calls that it says; its figures are for `make bench`."""

from collections.abc import Callable
from contextlib import AsyncExitStack
from typing import Any

import pytest

from bench.gateway import gateway, http_behind, many_in_flight, one_in_flight, sessions
from bench.gateways import OTHERS, calls_round, open_others
from bench.sides import STDIO, http_server

pytestmark = [pytest.mark.anyio, pytest.mark.full]


async def test_every_other_gateway_answers_calls() -> None:
    async with AsyncExitStack() as stack:
        rounds, left_out = await open_others(stack, 2, 4)
        assert (list(rounds), left_out) == (list(OTHERS), {})
        for run in rounds.values():
            [seconds] = await run()
            assert seconds > 0


async def test_a_gateway_wants_its_key() -> None:
    with gateway(STDIO) as served:
        assert len(await calls_round(served.url, [served.call], 3)()) == 3
        without = served.call.replace(served.key.encode(), b"tb_wrong")
        with pytest.raises(AssertionError, match="401"):
            await calls_round(served.url, [without], 1)()


LINES: dict[str, Callable[[str], Any]] = {
    "one call": lambda _: one_in_flight(),
    "many calls": lambda _: many_in_flight(),
    "http": http_behind,
    "sessions": lambda _: sessions(2),
}


@pytest.mark.parametrize("line", LINES)
async def test_each_line_measures_both_sides(line: str) -> None:
    with http_server() as url:
        async with LINES[line](url)() as sides:
            assert not sides.left_out
            assert min(*await sides.raw(), *await sides.toolbus()) > 0
