"""The client of `client.py` with a gateway in between: toolbus on both ends.

The gateway is the client of the suite's server, and the bus is the client of the gateway.
"""

import asyncio
import os
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))  # run as a script
from tests.conformance import client
from tests.inside.core import Interactions, QuestionRouting
from tests.inside.gateway import App, Gateway, HttpServer, listening_socket
from toolbus import Toolbus


@asynccontextmanager
async def gateway(bus: Toolbus) -> AsyncGenerator[str]:
    """The URL of a gateway over a bus."""
    async with bus, Gateway(bus) as served:
        front = HttpServer(App(served))
        sock = listening_socket("127.0.0.1", 0)
        await front.start(sock)
        try:
            yield f"http://127.0.0.1:{sock.getsockname()[1]}/mcp"
        finally:
            await front.close()


async def used(
    config: dict[str, Any], interactions: Interactions, scenario: str, context: dict[str, Any]
) -> bool:
    """Use a server through a gateway; whether every call went well."""
    config["servers"]["suite"]["prefix"] = ""
    forwarding = replace(interactions, _routing=QuestionRouting(forwards=True))
    between = Toolbus(config, interactions=forwarding, get_secret=context.get)
    async with gateway(between) as url:
        behind = {"servers": {"suite": {"url": url, "prefix": "", "required": True}}}
        # What signs in is the gateway; of its client, servers only learn the rest.
        async with Toolbus(behind, interactions=replace(interactions, login=None)) as bus:
            print(bus.servers["suite"], between.servers["suite"])
            return await client.use(bus, scenario, context)


if __name__ == "__main__":
    client.used = used
    with client.turn(os.environ["CONFORMANCE_TURN"]):
        client.end(asyncio.run(client.main()))
