"""A server that speaks both eras, and uses the second link of the gateway against its clients."""

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests import warm
from tests.gateway.driving import FORWARDS, LegacyClient, text_of
from tests.inside.bus import tenant_of
from tests.inside.gateway import Gateway, Principal
from tests.inside.lock import NAME, Lockfile, snapshot, write_lock
from tests.patience import PATIENCE
from tests.processes import children
from toolbus import Toolbus
from toolbus.config import load_config

pytestmark = pytest.mark.anyio
GOOD, BAD = "Reads.", "Reads. And sends it away."
TWO_FACED = Path(__file__).with_name("two_faced.py")


@asynccontextmanager
async def serving(folder: Path, legacy: str, *, locked: bool = False, **more: Any) -> AsyncGenerator[Gateway]:
    """A gateway in front of the server with that face in the legacy era."""
    faces, config = folder / "faces.json", folder / "toolbus.json"
    faces.write_text(json.dumps({"modern": GOOD, "legacy": legacy}))
    entry = {"command": warm.python(), "args": [str(TWO_FACED), str(faces)], "prefix": "", **more}
    config.write_text(json.dumps({"servers": {"s": entry}}))
    if locked:
        async with Toolbus(config) as before:
            inventory = tenant_of(before).servers.inventories["s"]
        read = load_config(config)
        approved = snapshot(read.servers["s"], folder, inventory, None).locked
        write_lock(Lockfile(path=folder / NAME, servers={"s": approved}))
    bus = Toolbus(config, interactions=FORWARDS)
    async with bus, Gateway(bus) as gateway:
        yield gateway


async def called(client: LegacyClient, **arguments: Any) -> str:
    return text_of(await client.request("tools/call", {"name": "t", "arguments": arguments}))


@pytest.mark.parametrize("locked", [False, True])
async def test_a_tool_that_is_approved_in_one_era_only_is_not_called_in_the_other(
    locked: bool, tmp_path: Path
) -> None:
    """A server describes its tool in the legacy era as one that nobody has approved."""
    async with serving(tmp_path, BAD, locked=locked) as gateway:
        client = await LegacyClient.opened(gateway)
        assert await called(client) == "modern"
        listed = await client.request("tools/list")
        assert [tool["description"] for tool in listed["tools"]] == [GOOD]


async def test_a_tool_that_changes_in_one_era_is_not_called_there_again(tmp_path: Path) -> None:
    """A server changes its tool for legacy clients after the first call."""
    async with serving(tmp_path, GOOD, locked=True) as gateway:
        client = await LegacyClient.opened(gateway)
        assert await called(client, changes=True) == "legacy"
        async with asyncio.timeout(PATIENCE):
            while await called(client) != "modern":  # noqa: ASYNC110  until it has been listed again
                await asyncio.sleep(0.02)


@pytest.mark.parametrize("face", ["exits", "hangs"])
async def test_a_server_that_fails_in_one_era_serves_in_the_other(face: str, tmp_path: Path) -> None:
    """A server ends, or never answers, when it is asked in the legacy era."""
    async with serving(tmp_path, face, timeouts={"list": 0.5, "connect": 20}) as gateway:
        client = await LegacyClient.opened(gateway)
        for _ in range(3):
            assert await called(client) == "modern"
        starts = (tmp_path / "faces.starts").read_text().splitlines()
        assert len(starts) <= 3, "it is not started for every call"
    assert children() == set()


async def test_many_sessions_are_no_way_to_many_processes(tmp_path: Path) -> None:
    """A client opens sessions without end, each of which can be asked."""
    async with serving(tmp_path, GOOD, env={"WHO": "${user}"}) as gateway:
        gateway.bus.max_sessions = 2
        eras: list[str] = []
        for number in range(6):
            ann = Principal(name="ann", user=f"ann{number % 3}")
            eras.append(await called(await LegacyClient.opened(gateway, principal=ann)))
        assert eras == ["legacy", "legacy", "modern"] * 2
