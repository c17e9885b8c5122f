"""A fork has a copy of the bus, but not its event loop, and its servers belong to the parent."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import plain, sampled
from tests.patience import PATIENCE

PROGRAM = Path(__file__).with_name("forking.py")
FORKED = (
    "the bus is closed: it was started before this process was forked, and belongs to the parent; "
    "create a new one"
)
PARENT = {"call": "still", "state": "ready"}


def printed(how: str, entry: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The output of the fork and of the parent."""
    config = json.dumps({"servers": {"a": entry}})
    # Later versions of Python warn of a fork beside threads, which is the point here.
    warnings = ["-W", "error::ResourceWarning", "-W", "ignore::DeprecationWarning"]
    words = [sys.executable, *warnings, str(PROGRAM), how, config]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=PATIENCE)
    assert (done.returncode, done.stderr) == (0, "")
    fork, parent = map(json.loads, done.stdout.splitlines())
    return fork, parent


PLACES = ("stdio", "http-modern", "http-legacy")
WAYS = [(how, place) for how in ("in a loop", "in a new loop") for place in PLACES]


@pytest.mark.parametrize("way", sampled(WAYS, ("in a new loop", "http-modern")), ids="-".join)
def test_a_fork_that_uses_the_bus(way: tuple[str, str], web_ports: dict[str, int]) -> None:
    """Every use is an immediate error, and the parent's servers stay."""
    how, place = way
    url = f"http://127.0.0.1:{web_ports['http']}/mcp"
    fork, parent = printed(how, plain() if place == "stdio" else {"url": url, "era": place[5:]})
    assert fork.pop("execute") == fork.pop("execute_sync") == f"MCP error: {FORKED}"
    assert fork.pop("stream") == f"BusClosed: {FORKED.replace('the bus', 'the event stream')}"
    assert fork.pop("stop") == "None"
    assert set(fork.values()) == {f"BusClosed: {FORKED}"}
    assert parent == PARENT


@pytest.mark.parametrize("how", sampled(["in a script", "in a pool"], "in a script"))
def test_a_fork_that_uses_a_synchronous_bus(how: str) -> None:
    """Every use is an immediate error, and the parent's servers stay."""
    fork, parent = printed(how, plain())
    assert fork.pop("execute") == f"MCP error: {FORKED}"
    assert fork.pop("stop") == "None"
    assert fork.pop("after").startswith("BusClosed: the bus is closed")
    assert set(fork.values()) == {f"BusClosed: {FORKED}"}
    assert parent == PARENT


def test_a_fork_with_a_bus_of_its_own() -> None:
    """It has servers of its own, which end with it, not with the parent."""
    assert printed("with its own", plain()) == ({"call": "mine"}, PARENT)
