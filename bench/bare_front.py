"""The HTTP front of the gateway alone: `python -m bench.bare_front` answers every request with a constant.

It prints its URL once it listens, and ends when its input does.
"""

import asyncio
import os
import sys
from collections.abc import Mapping

from toolbus import Toolbus
from toolbus.core.values.records import JSONObject
from toolbus.gateway.gateway import Gateway
from toolbus.gateway.http.app import App
from toolbus.gateway.http.run import HttpServer, listening_socket
from toolbus.gateway.methods import Method
from toolbus.gateway.protocol.request import ClientExchange


class ConstantGateway(Gateway):
    """Answers every request with the same result."""

    async def answer(
        self,
        exchange: ClientExchange,
        method: str,
        params: JSONObject | None,
        methods: Mapping[str, Method] | None = None,
    ) -> JSONObject:
        return {"content": [{"type": "text", "text": "hello"}], "resultType": "complete"}


async def main() -> None:
    """Serve on a free port of loopback."""
    sock = listening_socket("127.0.0.1", 0)
    await HttpServer(App(ConstantGateway(Toolbus({"servers": {}})))).start(sock)
    asyncio.get_running_loop().add_reader(sys.stdin, os._exit, 0)
    print(f"http://127.0.0.1:{sock.getsockname()[1]}/mcp", flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main())
