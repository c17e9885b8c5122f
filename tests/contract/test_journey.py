"""A call passes through no more files than its limit in journey.json, so that it can be followed."""

import json
import subprocess
import sys

from tests.contract.journey import read_limits
from tests.patience import PATIENCE


def test_a_call_passes_through_few_files() -> None:
    """In a process of its own, in which no other test has left anything."""
    command = [sys.executable, "-m", "tests.contract.journey", "--json"]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True, timeout=PATIENCE)
    counts, limits = json.loads(done.stdout), read_limits()
    less = {journey for journey, count in counts.items() if count < limits[journey]}
    assert {journey: count for journey, count in counts.items() if count > limits[journey]} == {}
    assert not less, "it is shorter now; lower the limit: python -m tests.contract.journey"
