"""The many clients of one user, in a process of their own: `python -m bench.load.crowd URL KEY CLIENTS TOOL`.

Prints a line when all are connected, calls until its input ends, and prints how many calls were made and
refused. The other user's client must not have to wait for this process.
"""

import asyncio
import json
import sys

from bench.gateways import TEXT
from bench.http_load import lanes, request
from bench.load.measure import Tally, repeat


async def main(url: str, key: str, clients: int, tool: str) -> None:
    """Call until the input ends."""
    tally, data = Tally([]), request(url, tool, TEXT, key)
    async with lanes(url, clients) as over:
        calls = [asyncio.create_task(repeat(lane, [data], float("inf"), tally)) for lane in over]
        print("connected", flush=True)
        await asyncio.to_thread(sys.stdin.read)
        for call in calls:
            call.cancel()
        print(json.dumps({"calls": len(tally.latencies), "refused": tally.refused}), flush=True)
        await asyncio.gather(*calls, return_exceptions=True)


if __name__ == "__main__":
    url, key, clients, tool = sys.argv[1:]
    asyncio.run(main(url, key, int(clients), tool))
