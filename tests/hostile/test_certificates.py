"""Attacks by somebody who has a certificate of the same authority as a gateway."""

import asyncio
from contextlib import suppress
from pathlib import Path

import pytest

from tests.cli.running import toolbus
from tests.hostile.besieged import besieged
from tests.inside.gateway import tls_context
from tests.patience import PATIENCE
from tests.servers.certificates import Authority

pytestmark = pytest.mark.anyio


async def test_a_false_gateway_takes_the_port_of_one_that_was_killed(tmp_path: Path) -> None:
    """`toolbus console` sends it no secret: the certificate is not the one that the gateway had."""
    authority = Authority()
    good = authority.issued(tmp_path / "fullchain.pem", "127.0.0.1")
    evil = authority.issued(tmp_path / "evil.pem", "127.0.0.1")
    heard: list[bytes] = []

    async def listen(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):
            heard.append(await reader.read(65536))
        writer.close()

    async with besieged(tmp_path, certificate=good) as gateway:
        gateway.process.kill()
        await asyncio.to_thread(gateway.process.wait, PATIENCE)
        server = await asyncio.start_server(listen, "127.0.0.1", gateway.port, ssl=tls_context(str(evil)))
        place = tmp_path / "besieged"
        env = {"TOOLBUS_TRUST": "1"}
        done = await asyncio.to_thread(toolbus, "console", "--print", folder=place, env=env)
        server.close()
    assert done.returncode != 0
    assert b"".join(heard) == b"", "only what a handshake needs"
    assert "no console" in done.stderr
