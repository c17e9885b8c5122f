"""`toolbus serve` that tells what its clients cost it: the longest step of its loop, and its memory.

It answers each line on stdin with a line of JSON on stdout; `reset` begins a new measurement.
"""

import json
import sys
import threading
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))  # run as a script
from tests.budget import Steps, measured
from toolbus.cli.entry import main

STATUS = Path("/proc/self/status")
RESET_PEAK = "5"
"""The value that makes the kernel forget a process's peak memory (proc(5), clear_refs)."""


def kib(name: str) -> int:
    """A field of the process's status."""
    found = next(line for line in STATUS.read_text().splitlines() if line.startswith(f"{name}:"))
    return int(found.split()[1])


def report(steps: Steps) -> None:
    """Answer the lines on stdin."""
    for line in sys.stdin:
        if line.strip() == "reset":
            Path("/proc/self/clear_refs").write_text(RESET_PEAK)
            steps.reset()
        facts = {
            "longest": steps.longest,
            "callback": steps.callback,
            "now": kib("VmRSS"),
            "peak": kib("VmHWM"),
        }
        print(json.dumps(facts), flush=True)


if __name__ == "__main__":
    with measured() as steps:
        threading.Thread(target=report, args=(steps,), daemon=True).start()
        sys.argv[0] = "toolbus"
        sys.exit(main())
