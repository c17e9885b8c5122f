"""The files of toolbus that a call passes through, counted: `python -m tests.contract.journey`.

It prints how many files a journey takes now, and lowers the limits in journey.json. Limits only go down.
`--files` lists the files, and `--json` prints the counts and changes nothing.
"""

import json
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import FrameType

from tests.contract.cost import WARM, run_gateway
from tests.contract.meter import OURS

LIMITS = Path(__file__).with_name("journey.json")


def through_gateway() -> frozenset[str]:
    """The files of a warm `tools/call`: an HTTP client, the gateway, a server over stdio.

    Nearly all calls pass through the same files; the others met a timer of the gateway.
    """
    files, found = set[str](), list[frozenset[str]]()

    def take(frame: FrameType, event: str, _: object) -> None:
        file = frame.f_code.co_filename
        if event == "call" and file.startswith(OURS):
            files.add(file.removeprefix(OURS))

    def measure(call: Callable[[], None]) -> None:
        files.clear()
        call()
        found.append(frozenset(files))

    run_gateway(lambda: sys.setprofile(take), measure)
    sys.setprofile(None)
    return Counter(found[WARM:]).most_common(1)[0][0]


def read_limits() -> dict[str, int]:
    """The most files of each journey."""
    return json.loads(LIMITS.read_text())


def main() -> None:
    """Print the counts, and lower the limits unless something else is asked for."""
    words = sys.argv[1:]  # before the gateway has a command line of its own
    journeys = {"gateway": through_gateway()}
    counts = {journey: len(files) for journey, files in journeys.items()}
    if words == ["--json"]:
        print(json.dumps(counts))
    elif words == ["--files"]:
        print(*(file for files in journeys.values() for file in sorted(files)), sep="\n")
    else:
        print(*(f"{journey:12} {count:4} files" for journey, count in counts.items()), sep="\n")
        limits = {journey: min(count, read_limits().get(journey, count)) for journey, count in counts.items()}
        LIMITS.write_text(json.dumps(limits, indent=2) + "\n")


if __name__ == "__main__":
    main()
