"""A program that uses toolbus and is killed: `python client.py WHAT CONFIG_JSON`; prints "ready".

WHAT: `start` waits; `fork` forks a child, prints its number, and waits. `frozen` and `frozen fork` do so as a
frozen program, which has no interpreter to start. `broken` has one that does not work.
"""

import asyncio
import json
import os
import signal
import sys
from pathlib import Path

from toolbus import Toolbus


async def main(what: str, config: str) -> None:
    if "frozen" in what:
        sys.frozen = True  # pyright: ignore[reportAttributeAccessIssue]  # what PyInstaller sets
    if "broken" in what:
        sys.executable = str(Path(__file__).with_name("broken_python.sh"))
    async with Toolbus(json.loads(config)):
        if "fork" in what:
            child = os.fork()
            if child == 0:
                signal.pause()
            print(child)
        print("ready", flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
