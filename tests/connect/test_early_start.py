"""Servers start while the SDK is imported; none is left over, even after a failure."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from mcp.client.stdio import DEFAULT_INHERITED_ENV_VARS

from tests.conftest import plain
from tests.inside.connect import SAFE_VARIABLES
from tests.patience import PATIENCE
from toolbus import Toolbus

CLIENT = Path(__file__).with_name("early_client.py")
ROOT = CLIENT.parents[2]
NOTHING: dict[str, Any] = {"server": False, "threads": [], "collector": [True, 0]}


def outcome(what: str, folder: Path) -> Any:
    """The output of a fresh interpreter; its server writes its process number first."""
    server = plain()
    words = ["sh", "-c", f'echo $$ > "{folder}/pid"; exec "$0" "$@"', server["command"], *server["args"]]
    run = subprocess.run(
        [sys.executable, "-W", "error", "-m", "tests.connect.early_client", what, str(folder), *words],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert run.stderr == ""
    return json.loads(run.stdout)


@pytest.mark.parametrize("what", ["start", "sync"])
def test_a_server_starts_while_a_thread_imports_the_sdk(what: str, tmp_path: Path) -> None:
    found = outcome(what, tmp_path)
    assert found["outcome"] == ["toolbus import", 1, 0]
    assert found["left"] == NOTHING


def test_an_import_that_fails_ends_the_server_that_was_started(tmp_path: Path) -> None:
    assert outcome("fail", tmp_path) == {"outcome": ["ImportError", "no SDK"], "left": NOTHING}


def test_ctrl_c_during_the_import_ends_the_server(tmp_path: Path) -> None:
    assert outcome("interrupt", tmp_path) == {"outcome": ["KeyboardInterrupt", ""], "left": NOTHING}


def test_a_bus_that_is_stopped_during_the_import_ends_the_server_at_once(tmp_path: Path) -> None:
    assert outcome("stop", tmp_path) == {"outcome": [True, False, "closed"], "left": NOTHING}


FAILURES: dict[str, dict[str, Any]] = {
    "no such command": {"command": "no-such-command"},
    "no such folder": {"command": sys.executable, "cwd": "/nowhere"},
    "no secret": {"command": sys.executable, "env": {"KEY": "${NO_SUCH_VARIABLE_HERE}"}},
    "exits": {"command": sys.executable, "args": ["-c", "import sys; sys.exit('no license')"]},
}
REPORTED = (
    "import asyncio, json, sys\n"
    "from toolbus import Toolbus\n"
    "async def main():\n"
    "    async with Toolbus(json.loads(sys.argv[1])) as bus:\n"
    "        print(json.dumps({a: [s.state, s.error] for a, s in bus.servers.items()}))\n"
    "asyncio.run(main())\n"
)


def reported(config: dict[str, Any]) -> Any:
    """The states and errors of the servers in a fresh interpreter."""
    run = subprocess.run(
        [sys.executable, "-W", "error", "-c", REPORTED, json.dumps(config)],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=True,
    )
    assert run.stderr == ""
    return json.loads(run.stdout)


@pytest.mark.anyio
async def test_a_server_that_fails_during_the_import_is_reported_as_ever() -> None:
    config = {"servers": FAILURES | {"idle": {"command": "no-such-command", "lazy": True}}}
    async with Toolbus(config) as bus:  # here the SDK is imported already
        known = {alias: [status.state, status.error] for alias, status in bus.servers.items()}
    assert reported(config) == known
    assert "no license" in str(known["exits"])


def test_servers_get_the_variables_that_the_sdk_passes() -> None:
    assert list(SAFE_VARIABLES) == DEFAULT_INHERITED_ENV_VARS
