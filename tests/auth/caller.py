"""A program that uses a server which wants a token: calls at once, then one after another until it is killed.

Run with its settings as JSON. Prints `ready` and waits for a line, then makes the calls and prints what they
returned, and how often somebody was to sign in.
"""

import asyncio
import json
import sys
from typing import Any

from tests.auth.buses import bus_of, called
from toolbus.records import LoginRequest


async def main(settings: dict[str, Any]) -> None:
    """Make the calls."""
    asked = 0

    async def nobody(request: LoginRequest) -> None:
        nonlocal asked
        asked += 1

    print("ready", flush=True)
    await asyncio.to_thread(sys.stdin.readline)
    async with bus_of(settings["config"], nobody) as bus:
        texts = await asyncio.gather(*(called(bus, "whoami") for _ in range(settings["calls"])))
        print(json.dumps({"texts": texts, "asked": asked}), flush=True)
        while settings["endless"]:
            await called(bus, "whoami")


if __name__ == "__main__":
    asyncio.run(main(json.loads(sys.argv[1])))
