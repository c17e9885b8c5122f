"""Print the tools of a stdio server, first thing in a program: `first_listing.py SCRIPT [ARGUMENT ...]`."""

import asyncio
import sys

from toolbus import Toolbus


async def main() -> None:
    """Start, list, print, stop."""
    server = {"command": sys.executable, "args": sys.argv[1:]}
    async with Toolbus({"servers": {"bench": server}}) as bus:
        print(*bus.catalog.names)


if __name__ == "__main__":
    asyncio.run(main())
