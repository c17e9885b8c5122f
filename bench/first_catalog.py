"""Print the seconds from the import to the catalog of ten servers, and its tools: `first_catalog.py CONFIG`.

With a lockfile next to the config, the catalog comes from the file; otherwise from started servers.
"""

import sys
from pathlib import Path
from time import perf_counter

from toolbus import Toolbus

TOOLS = 50
"""The number of tools of all servers together."""


def main(config: Path) -> None:
    """Make a catalog, start servers only if there is no other way, and print."""
    began = perf_counter()
    bus = Toolbus(config)
    if bus.lock is None:
        import asyncio

        async def start() -> float:
            async with bus:
                await bus.wait_ready()
                assert len(bus.catalog) == TOOLS
                return perf_counter() - began

        elapsed = asyncio.run(start())
    else:
        assert len(bus.catalog) == TOOLS
        elapsed = perf_counter() - began
    print(elapsed, *bus.catalog.names)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
