"""A web server that keeps no stream open is missed without a call, and never while it only works."""

import asyncio
import os
import signal
import subprocess
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from threading import Event as Gate
from typing import Any

import pytest

from tests import warm
from tests.conftest import SERVERS
from tests.inside.connect import Proxy, http, parse_url
from tests.patience import PATIENCE, until
from tests.servers.recording import recording
from toolbus import Toolbus

pytestmark = pytest.mark.anyio
TIMES = 3


@pytest.fixture(autouse=True)
def _often(monkeypatch: pytest.MonkeyPatch) -> None:  # pyright: ignore[reportUnusedFunction]  # pytest uses it
    monkeypatch.setattr(http, "CHECK_INTERVAL", 0.2)


@contextmanager
def serving(era: str, folder: Path, port: int = 0) -> Generator[tuple[subprocess.Popen[bytes], int]]:
    """A server of that era without sessions, streams and change notices, as a process; gives its port."""
    port_file = folder / f"{era}.port"
    command = [warm.python(), str(SERVERS / "recording.py"), era, str(port_file), str(port)]
    process = subprocess.Popen(command)
    try:
        while not port_file.exists():
            assert process.poll() is None, "the server ended at once"
            time.sleep(0.005)
        yield process, int(port_file.read_text())
    finally:
        process.kill()
        process.wait(PATIENCE)
        port_file.unlink()


def state(bus: Toolbus, alias: str = "a") -> str:
    return bus.servers[alias].state


@pytest.mark.parametrize("era", ["modern", "legacy"])
async def test_a_server_that_dies_is_missed_and_found_again_without_a_call_each_time(
    era: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    times = TIMES if request.config.getoption("--full") else 2
    first = serving(era, tmp_path)
    _, port = first.__enter__()
    config: dict[str, Any] = {"url": f"http://127.0.0.1:{port}/mcp", "era": era}
    async with Toolbus({"servers": {"a": config}}) as bus:
        first.__exit__(None, None, None)
        for _ in range(times):
            await until(lambda: "cannot connect" in (bus.servers["a"].error or ""))
            assert state(bus) != "ready"
            with serving(era, tmp_path, port):
                await until(lambda: state(bus) == "ready")
        assert bus.servers["a"].restarts == times


async def test_a_call_under_way_is_not_cut_off_when_its_server_takes_no_more_connections() -> None:
    with recording() as record:
        config = {"url": record.url}
        async with Toolbus({"servers": {"a": config, "idle": config}}) as bus:
            record.gate = Gate()
            call = asyncio.create_task(bus.call("a_look"))
            await until(lambda: "tools/call" in [method for *_, method in record.requests])
            record.stop_listening()
            await until(lambda: state(bus, "idle") != "ready")
            assert state(bus) == "ready"
            record.gate.set()
            assert (await call).text == "seen"
            await until(lambda: state(bus) != "ready")


async def test_a_server_that_is_busy_for_long_stays_ready(tmp_path: Path) -> None:
    with serving("legacy", tmp_path) as (process, port), recording() as other:
        servers = {"a": {"url": f"http://127.0.0.1:{port}/mcp"}, "gone": {"url": other.url}}
        async with Toolbus({"servers": servers}) as bus:
            os.kill(process.pid, signal.SIGSTOP)
            other.stop_listening()
            await until(lambda: state(bus, "gone") == "failed")  # several times as long as one would take
            os.kill(process.pid, signal.SIGCONT)
            assert (await bus.call("a_look")).text == "seen"
            assert (state(bus), bus.servers["a"].restarts) == ("ready", 0)


@pytest.mark.parametrize(
    ("url", "proxy", "expected"),
    [
        ("http://host.test/mcp", None, ("host.test", 80, 0.2)),
        ("https://host.test:8443/mcp", None, ("host.test", 8443, 30.0)),
        ("http://[::1]:9/mcp", None, ("::1", 9, 0.2)),
        ("http://host.test/mcp", "http://proxy.test:3128", ("host.test", 80, None)),
    ],
)
def test_where_and_how_often_a_server_is_checked(
    url: str, proxy: str | None, expected: tuple[str, int, float | None]
) -> None:
    activity = http.http_activity(parse_url(url), Proxy(parse_url(proxy)) if proxy else None)
    assert (activity.host, activity.port, activity.check_interval) == expected
