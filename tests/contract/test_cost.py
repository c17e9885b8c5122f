"""The fast paths cost no more than their limits in cost.json."""

import json
import os
import subprocess
import sys
from typing import Any

from tests.contract.cost import PYTHON, problems, read_limits
from tests.contract.meter import OURS, Cost, Meter
from tests.patience import PATIENCE

WORK = """
from textwrap import dedent

async def nothing():
    pass

async def twice():
    await nothing()
    await nothing()

def numbers():
    yield 1
    yield 2

def work():
    try:
        twice().send(None)
    except StopIteration:
        pass
    return [number for number in numbers()]

def library():
    return dedent("a")
"""


def _calls(function: Any) -> float:
    meter = Meter()
    meter.start()
    try:
        function()
    finally:
        meter.stop()
    return meter.cost.calls


def _defined(file: str) -> dict[str, Any]:
    names: dict[str, Any] = {}
    exec(compile(WORK, file, "exec"), names)
    return names


def test_calls_and_bytes_stay_within_their_limits() -> None:
    """In a process of its own, in which no other test has left anything."""
    command = [sys.executable, "-m", "tests.contract.cost", "--json"]
    env = os.environ | {"PYTHONHASHSEED": "0"}
    done = subprocess.run(command, env=env, stdout=subprocess.PIPE, check=True, timeout=PATIENCE)
    costs = {work: Cost(**cost) for work, cost in json.loads(done.stdout).items()}
    python, limits = read_limits()
    assert problems(costs, limits, same_python=python == PYTHON) == []


def test_the_meter_counts_each_function_of_toolbus_once() -> None:
    ours = _defined(f"{OURS}example.py")
    assert _calls(ours["work"]) == 5  # work, twice, nothing, nothing, numbers
    assert _calls(_defined("elsewhere.py")["work"]) == 0


def test_the_meter_counts_a_library_only_where_toolbus_calls_it() -> None:
    ours = _defined(f"{OURS}example.py")
    assert _calls(ours["library"]) == 2  # and not what `dedent` calls
    assert _calls(_defined("elsewhere.py")["library"]) == 0


def test_the_meter_counts_bytes_that_are_freed_soon() -> None:
    def allocate() -> None:
        len(bytes(1_000_000))

    meter = Meter()
    meter.start()
    for _ in range(3):
        allocate()
    meter.stop()
    assert 3_000_000 <= meter.cost.bytes < 3_010_000


def test_one_call_more_is_too_many_and_much_less_lowers_the_limit() -> None:
    limits = {"call": Cost(100, 20_000)}

    def found(calls: float, size: float, *, same_python: bool = True) -> list[str]:
        return problems({"call": Cost(calls, size)}, limits, same_python=same_python)

    assert found(100, 20_190) == found(99, 19_700) == []
    assert found(101, 20_000) == ["call: 101 calls, at most 100 are allowed"]
    assert found(100, 20_210) == ["call: 20,210 bytes, at most 20,000 are allowed"]
    assert found(100, 99_000, same_python=False) == []
    less = ["call: it costs less now; lower the limit: python -m tests.contract.cost"]
    assert found(97, 20_000) == found(100, 19_000) == less
    assert problems({}, limits, same_python=True) == ["call: it has no limit, or is not counted"]
