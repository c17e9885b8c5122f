"""The maximum speed of a call: JSON-RPC by hand on asyncio, without validation or supervision.

No client can be much faster than this, and none should be this careless.
"""

import asyncio
import sys
from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from itertools import count
from typing import Any, cast
from urllib.parse import urlsplit

from pydantic_core import from_json, to_json

from bench.sides import SERVER, STOPPING, Call


def request(number: int, tool: str, text: str) -> bytes:
    """A call as it goes over the wire."""
    params = {"name": tool, "arguments": {"text": text}}
    return to_json({"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params})


class _Pipes(asyncio.SubprocessProtocol):
    """Lines in, answers out, all in the callbacks of the loop."""

    def __init__(self) -> None:
        self.waiting: dict[int, asyncio.Future[Any]] = {}
        self.ended = asyncio.Event()
        self._partial: list[bytes] = []

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        if b"\n" not in data:
            self._partial.append(data)
            return
        first, *lines = data.split(b"\n")
        self._partial.append(first)
        for line in lines:
            answer = from_json(b"".join(self._partial))
            self._partial = [line]
            self.waiting.pop(answer["id"]).set_result(answer["result"])

    def process_exited(self) -> None:
        self.ended.set()


@asynccontextmanager
async def stdio_limit() -> AsyncGenerator[Call]:
    """Calls over the pipes of a process."""
    loop = asyncio.get_running_loop()
    command = [sys.executable, *SERVER, "stdio"]
    transport, pipes = await loop.subprocess_exec(_Pipes, *command, stderr=None)
    stdin = cast(asyncio.WriteTransport, transport.get_pipe_transport(0))
    numbers = count()

    def call(tool: str, text: str) -> asyncio.Future[Any]:
        number = next(numbers)
        pipes.waiting[number] = answer = loop.create_future()
        stdin.write(request(number, tool, text) + b"\n")
        return answer

    try:
        yield call
    finally:
        stdin.close()  # which ends the server
        async with asyncio.timeout(STOPPING):
            await pipes.ended.wait()
        transport.close()


@asynccontextmanager
async def http_limit(url: str) -> AsyncGenerator[Call]:
    """Calls over connections that are kept alive, as many as are needed at once."""
    where = urlsplit(url)
    head = (
        f"POST {where.path} HTTP/1.1\r\nhost: {where.netloc}\r\n"
        "content-type: application/json\r\naccept: application/json\r\ncontent-length: "
    ).encode()
    free: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []
    numbers = count()

    async def call(tool: str, text: str) -> Any:
        if free:
            reader, writer = free.pop()
        else:
            reader, writer = await asyncio.open_connection(where.hostname, where.port, limit=2**26)
        body = request(next(numbers), tool, text)
        writer.write(head + b"%d\r\n\r\n" % len(body) + body)
        answered = await reader.readuntil(b"\r\n\r\n")
        size = int(answered.partition(b"content-length: ")[2].partition(b"\r\n")[0])
        answer = from_json(await reader.readexactly(size))
        free.append((reader, writer))
        return answer["result"]

    try:
        yield call
    finally:
        for _, writer in free:
            writer.close()
            await writer.wait_closed()


def limit_calls(url: str | None) -> AbstractAsyncContextManager[Call]:
    """Calls over stdio if there is no URL."""
    return http_limit(url) if url else stdio_limit()
