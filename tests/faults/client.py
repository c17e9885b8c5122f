"""A program that uses toolbus and waits to be ended: `python client.py CONFIG_JSON`.

It starts the bus, prints the numbers of the processes its servers tell, and then does nothing.
"""

import asyncio
import json
import sys

from toolbus import Toolbus


async def main() -> None:
    async with Toolbus(json.loads(sys.argv[1])) as bus:
        for name in bus.catalog.names:
            print((await bus.call(name)).text)
        print("ready", flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main())
