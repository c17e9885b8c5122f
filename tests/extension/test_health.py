"""Health is the truth about every server that should be up, and who is down is named."""

import asyncio
import os
import signal
from pathlib import Path

import pytest

from tests.conftest import web_server
from tests.extension.hosts import broken, desk, initialized, run
from tests.patience import PATIENCE
from toolbus.extension import McpBridgeExtension

pytestmark = pytest.mark.anyio


async def test_health_names_the_server_that_is_down_and_sees_it_come_back(tmp_path: Path) -> None:
    first = web_server("http", tmp_path)
    port = first.__enter__()
    web = {"alias": "web", "transport": "streamable-http", "url": f"http://127.0.0.1:{port}/mcp"}
    extension = await initialized(None, web, desk())
    assert not await extension.health_check()
    await extension.start()
    try:
        assert await extension.health_check()
        first.__exit__(None, None, None)
        assert not await extension.health_check()
        health = await extension.health()
        assert (health["web"].ok, health["desk"].ok) == (False, True)
        with web_server("http", tmp_path, port):
            await healthy(extension)
            await extension.stop()
    finally:
        await extension.stop()
    assert not await extension.health_check()


async def test_health_is_false_after_the_process_is_killed_and_true_once_it_is_back() -> None:
    extension = await initialized(None, desk())
    await extension.start()
    try:
        first = await run(extension, "mcp_desk_process")
        os.kill(int(first), signal.SIGKILL)
        assert not await extension.health_check()
        await healthy(extension)
        assert await run(extension, "mcp_desk_process") != first
        assert extension.servers["desk"].restarts == 1
    finally:
        await extension.stop()


async def test_a_server_that_never_came_up_makes_it_unhealthy() -> None:
    extension = await initialized(None, desk(), broken())
    await extension.start()
    try:
        assert not await extension.health_check()
        assert [alias for alias, one in (await extension.health()).items() if not one.ok] == ["broken"]
    finally:
        await extension.stop()


async def healthy(extension: McpBridgeExtension) -> None:
    async with asyncio.timeout(PATIENCE):
        while not await extension.health_check():
            pass
