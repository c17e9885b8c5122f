"""The cost of a command in toolbus itself for each server, counted in calls of functions."""

import json
import subprocess
import sys
from pathlib import Path

from tests.conftest import plain

COUNTED = """
import cProfile, pstats, sys
from toolbus.cli.entry import main
sys.argv = ["toolbus", "tools", "--config", {config!r}]
profile = cProfile.Profile()
profile.enable()
try:
    main()
except SystemExit:
    pass
profile.disable()
print(pstats.Stats(profile).total_calls, file=sys.stderr)
"""


def calls(folder: Path, servers: int) -> int:
    """The number of function calls of `toolbus tools` for this many servers with twelve tools each."""
    config = folder / f"{servers}.json"
    entries = {f"s{n}": plain("twelve_tools") for n in range(servers)}
    config.write_text(json.dumps({"servers": entries, "timeouts": {"connect": 120}}))
    code = COUNTED.format(config=str(config))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300)
    assert done.stdout.count("tool_11") == servers, done.stderr
    return int(done.stderr.split()[-1])


def test_a_server_costs_the_same_however_many_there_are(tmp_path: Path) -> None:
    few, some, many = (calls(tmp_path, servers) for servers in (1, 9, 41))
    first, more = (some - few) / 8, (many - some) / 32
    assert more < 1.5 * first
    assert more < MOST, f"{more:.0f} calls for each server"


MOST = 21_000
"""Twice as many before the arguments of a tool were read without its types, and its row printed at once."""
