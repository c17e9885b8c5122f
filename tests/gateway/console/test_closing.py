"""The end of a server, while a browser connects again."""

import asyncio
import socket
from contextlib import suppress

import pytest

from tests.gateway.console.opening import console_over

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("turns", range(5))
async def test_a_connection_that_was_accepted_just_before_is_closed(turns: int) -> None:
    async with console_over({"servers": {}}) as console:
        client = socket.create_connection(("127.0.0.1", console.port))
        for _ in range(turns):
            await asyncio.sleep(0)
    client.setblocking(False)
    with client, suppress(ConnectionResetError):
        assert client.recv(1) == b""
