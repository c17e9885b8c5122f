"""A call passes few files: each is one more to read for somebody who follows it."""

import asyncio
import json
import sys
from pathlib import Path
from types import FrameType

from bench.sides import bench_bus
from tests.contract.meter import OURS

LIMITS = json.loads(Path(__file__).with_name("journeys.json").read_text())
"""How many files of toolbus run; the limits only go down."""


async def files_of_a_call() -> set[str]:
    """The files whose functions run during a warm call over stdio."""
    found: set[str] = set()

    def take(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(OURS):
            found.add(frame.f_code.co_filename.removeprefix(OURS))

    async with bench_bus(None, "modern") as bus:
        for _ in range(3):
            await bus.call("bench_echo", {"text": "hello"})
        sys.setprofile(take)
        try:
            await bus.call("bench_echo", {"text": "hello"})
        finally:
            sys.setprofile(None)
    return found


def test_a_call_runs_in_few_files() -> None:
    files = asyncio.run(files_of_a_call())
    assert len(files) <= LIMITS["call over stdio"], sorted(files)
