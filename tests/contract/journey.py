"""The files of toolbus that a call passes through, counted: `python -m tests.contract.journey`.

A file counts if one of its functions starts or resumes during a warm call, in any thread of the processes
that run toolbus. The command prints the counts and lowers the limits in journey.json. Limits only go down.
`--files` lists the files, and `--json` prints the counts; both change nothing.

Calls are repeated. A file counts if most calls pass through it, so that a timer changes nothing: few calls
meet one.
"""

import asyncio
import json
import os
import signal
import sys
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FrameType
from typing import TypeAlias

from bench.sides import bench_bus
from tests import warm
from tests.background.holding import everyday_entry
from tests.cli.running import environment, write_config
from tests.contract.cost import WARM, run_gateway
from tests.contract.meter import OURS
from tests.patience import PATIENCE, wait_until

LIMITS = Path(__file__).with_name("journey.json")
CALLS = 9
"""The number of counted calls in each journey."""

Files: TypeAlias = frozenset[str]


class Passed:
    """The files whose functions run, in this thread and in all that it starts."""

    def __init__(self) -> None:
        self._files: set[str] = set()
        threading.setprofile(self._take)
        sys.setprofile(self._take)

    def taken(self) -> Files:
        """The files since the last time."""
        files, self._files = self._files, set()
        return frozenset(files)

    def stop(self) -> None:
        """Stop counting."""
        sys.setprofile(None)
        threading.setprofile(None)

    def _take(self, frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(OURS) and code.co_name != "<module>":
            self._files.add(code.co_filename.removeprefix(OURS))


def usual(calls: Sequence[Files]) -> Files:
    """The files of most calls."""
    times = Counter(file for files in calls for file in files)
    return frozenset(file for file, count in times.items() if 2 * count > len(calls))


# The journeys


def through_bus() -> Files:
    """`bus.call`, to a server over stdio."""

    async def found() -> list[Files]:
        calls = list[Files]()
        async with bench_bus(None, "modern") as bus:
            for _ in range(WARM + CALLS):
                passed.taken()
                await bus.call("bench_echo", {"text": "hello"})
                calls.append(passed.taken())
        return calls

    passed = Passed()
    try:
        return usual(asyncio.run(found())[WARM:])
    finally:
        passed.stop()


def through_gateway() -> Files:
    """`tools/call`: an HTTP client, the gateway, a server over stdio."""
    passed, found = Passed(), list[Files]()

    def measure(call: Callable[[], None]) -> None:
        passed.taken()
        call()
        found.append(passed.taken())

    try:
        run_gateway(lambda: None, measure)
    finally:
        passed.stop()
    return usual(found[WARM:])


def through_background() -> Files:
    """`toolbus call` in the background bus, to a server over stdio; the command and the bus together."""
    with TemporaryDirectory(prefix="journey-") as home:
        folder = Path(home) / "work"
        folder.mkdir()
        write_config(folder, {"every": everyday_entry()})
        seen, here, there = environment(Path(home)), folder / "here", folder / "there"
        traced = ["-m", "tests.contract.journey", "--trace"]
        up = [*traced, str(there), "up", "--foreground", "--no-console"]
        call = [*traced, str(here), "call", "every_echo", "text=on"]
        log = folder / "log"
        bus = warm.start("python", up, folder, seen, log)

        def files() -> Files:
            there.unlink(missing_ok=True)
            os.kill(bus.pid, signal.SIGUSR1)
            wait_until(there.exists, "the background bus reports nothing")
            return frozenset(json.loads(there.read_text()))

        try:
            wait_until(lambda: "'toolbus down" in log.read_text(), "the background bus does not start")
            calls = list[Files]()
            for _ in range(WARM + CALLS):
                done = warm.run("python", call, folder, seen, "", PATIENCE)
                assert (done.returncode, done.stdout) == (0, "on\n"), done.stderr
                calls.append(files() | frozenset(json.loads(here.read_text())))
        finally:
            bus.terminate()
            bus.wait(PATIENCE)
    return usual(calls[WARM:])


def trace(output: Path, words: Sequence[str]) -> None:
    """Run toolbus with these words, and write the files since the last time at SIGUSR1 and at the end."""
    from toolbus.cli.entry import main as toolbus

    def write(*_: object) -> None:
        draft = output.with_suffix(".new")
        draft.write_text(json.dumps(sorted(passed.taken())))
        draft.replace(output)

    signal.signal(signal.SIGUSR1, write)
    sys.argv = ["toolbus", *words]
    passed = Passed()
    try:
        toolbus()
    finally:
        passed.stop()
        write()


JOURNEYS: dict[str, Callable[[], Files]] = {
    "bus.call": through_bus,
    "background": through_background,
    "gateway": through_gateway,  # the last one, since it changes the environment
}


# Limits


def read_limits() -> dict[str, int]:
    """The most files of each journey."""
    return json.loads(LIMITS.read_text())


def main() -> None:
    """Print the counts, and lower the limits unless something else is asked for."""
    words = sys.argv[1:]  # before the gateway has a command line of its own
    if words[:1] == ["--trace"]:
        trace(Path(words[1]), words[2:])
        return
    journeys = {journey: files() for journey, files in JOURNEYS.items()}
    counts = {journey: len(files) for journey, files in journeys.items()}
    if words == ["--json"]:
        print(json.dumps(counts))
        return
    for journey, files in journeys.items():
        print(f"{journey:12} {len(files):4} files")
        if words == ["--files"]:
            print(*(f"  {file}" for file in sorted(files)), sep="\n")
    if not words:
        limits = {journey: min(count, read_limits().get(journey, count)) for journey, count in counts.items()}
        LIMITS.write_text(json.dumps(limits, indent=2) + "\n")


if __name__ == "__main__":
    main()
