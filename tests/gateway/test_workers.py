"""`toolbus serve --workers`: processes that share a socket serve as one, and each may die."""

import asyncio
import base64
import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urljoin

import httpx2
import pytest

from tests import warm
from tests.cli.running import environment
from tests.gateway.driving import JSON
from tests.gateway.front import BOTH, META, PREFIX, Events, modern_request, tool_call
from tests.gateway.serving import URL, end, wait_until
from tests.inside.gateway import crowding
from tests.patience import PATIENCE, until
from tests.processes import alive

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(not hasattr(os, "fork"), reason="workers are forks"),
]

SERVER = Path(__file__).parent / "worker_server.py"
WORKERS = 3
ELICITS: JSON = {"_meta": {**META, f"{PREFIX}clientCapabilities": {"elicitation": {"form": {}}}}}
RED: JSON = {"action": "accept", "content": {"color": "red"}}


@dataclass
class Served:
    """A gateway with several workers."""

    process: warm.Running
    url: str
    log: Path

    @property
    def workers(self) -> list[int]:
        """The processes of the workers."""
        return _children(self.process.pid)

    async def send(self, message: JSON, headers: dict[str, str] | None = None) -> httpx2.Response:
        """Send a message on a connection of its own, which any of the workers may take."""
        async with httpx2.AsyncClient(timeout=PATIENCE) as http:
            return await http.post(
                self.url, json={"jsonrpc": "2.0", **message}, headers={**BOTH, **(headers or {})}
            )

    async def call(self, tool: str, params: JSON | None = None, **arguments: Any) -> httpx2.Response:
        """A call of a modern client, on a connection of its own."""
        content, headers = modern_request(
            "tools/call", {"name": tool, "arguments": arguments, **(params or {})}
        )
        async with httpx2.AsyncClient(timeout=PATIENCE) as http:
            return await http.post(self.url, content=content, headers=headers)

    async def page(self, path: str) -> httpx2.Response:
        async with httpx2.AsyncClient(timeout=PATIENCE) as http:
            return await http.get(self.url.replace("/mcp", path))


@dataclass
class LegacySession:
    """A session whose requests all come on connections of their own."""

    served: Served
    headers: dict[str, str]

    async def owner(self) -> int:
        """The process of the worker that has it."""
        pid, workers = int(_text(await self.call(1, "pid"))), self.served.workers
        while pid not in workers:
            assert pid, "its worker has ended"
            pid = _parent(pid)
        return pid

    async def post(self, message: JSON) -> httpx2.Response:
        return await self.served.send(message, self.headers)

    async def call(self, number: int, tool: str, **arguments: Any) -> JSON:
        response = await self.post(tool_call(tool, number, **arguments))
        assert response.status_code == 200, response.text
        return _message(response, number)


@contextmanager
def serving(
    folder: Path,
    *words: str,
    server: JSON | None = None,
    serve: JSON | None = None,
    store: JSON | None = None,
    **variables: str,
) -> Generator[Served]:
    """A gateway in front of the server, with workers."""
    entry = {
        "command": sys.executable,
        "args": [str(SERVER)],
        "prefix": "",
        "era": "legacy",
        **(server or {}),
    }
    config, log = folder / "toolbus.json", folder / "log"
    given = {"servers": {"worker": entry}, "serve": serve or {}, **({"store": store} if store else {})}
    config.write_text(json.dumps(given))
    options = ["serve", "--http", ":0", "--config", str(config), "--workers", str(WORKERS), *words]
    env = environment(folder, TOOLBUS_TRUST="1", **variables)
    process = warm.start("toolbus", options, folder, env, log)
    try:
        wait_until(lambda: URL.search(log.read_text()) is not None, process, "toolbus serve", log)
        found = URL.search(log.read_text())
        assert found is not None
        yield Served(process, found[0], log)
    finally:
        end(process)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Generator[Served]:
    """One gateway for all tests that leave it as it was."""
    with serving(tmp_path_factory.mktemp("workers")) as served:
        yield served


async def opened(served: Served) -> LegacySession:
    """A session of a legacy client that can be asked."""
    params: JSON = {
        "protocolVersion": "2025-11-25",
        "capabilities": {"elicitation": {}},
        "clientInfo": {"name": "test", "version": "1"},
    }
    response = await served.send({"id": 0, "method": "initialize", "params": params})
    assert response.status_code == 200, response.text
    headers = {"mcp-session-id": response.headers["mcp-session-id"], "mcp-protocol-version": "2025-11-25"}
    session = LegacySession(served, headers)
    assert (await session.post({"method": "notifications/initialized"})).status_code == 202
    return session


def _message(response: httpx2.Response, number: int) -> JSON:
    """The response to a request, which came as JSON or at the end of a stream."""
    if response.headers["content-type"].startswith("application/json"):
        return response.json()
    lines = [line.removeprefix("data: ") for line in response.text.splitlines() if line.startswith("data: {")]
    return next(one for one in map(json.loads, lines) if one.get("id") == number and "method" not in one)


def _children(pid: int) -> list[int]:
    return [int(one) for one in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def _up(metrics: str) -> int:
    return len(re.findall(r"worker_up\{.*\} 1\n", metrics))


def _parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


async def _until_gone(pids: list[int]) -> None:
    await until(lambda: not any(map(alive, pids)))


def _text(message: JSON) -> str:
    return message["result"]["content"][0]["text"]


# Serving


async def test_all_workers_serve(shared: Served) -> None:
    """Each has its own connection to the server, and the gateway says so once, when all are ready."""
    answered: Counter[str] = Counter()
    async with asyncio.timeout(PATIENCE):
        while len(answered) < WORKERS:
            found = await asyncio.gather(*(shared.call("pid") for _ in range(10)))
            answered.update(_text(response.json()) for response in found)
    assert len(answered) == len(shared.workers) == WORKERS
    assert len(re.findall(f"serving .* {WORKERS} workers", shared.log.read_text())) == 1


async def test_a_session_is_found_from_every_worker(shared: Served) -> None:
    session = await opened(shared)
    found = [await session.call(number, "pid") for number in range(1, 21)]
    assert len({_text(message) for message in found}) == 1
    assert _message(await session.post({"id": 99, "method": "ping"}), 99)["result"] == {}
    async with httpx2.AsyncClient(timeout=PATIENCE) as http:
        assert (await http.delete(shared.url, headers=session.headers)).status_code == 200
    assert {(await session.post({"id": 1, "method": "ping"})).status_code for _ in range(6)} == {404}


async def test_the_stream_of_a_session_is_found_from_every_worker(shared: Served) -> None:
    session = await opened(shared)
    for _ in range(6):
        async with (
            httpx2.AsyncClient(timeout=PATIENCE) as http,
            http.stream("GET", shared.url, headers={**BOTH, **session.headers}) as stream,
        ):
            assert stream.status_code == 200
            assert stream.headers["content-type"] == "text/event-stream"
            assert stream.headers["mcp-session-id"] == session.headers["mcp-session-id"]
            assert await Events(stream).next()


async def test_a_legacy_client_is_asked_whoever_takes_its_answer(shared: Served) -> None:
    session = await opened(shared)
    for number in range(1, 9):
        message = {"jsonrpc": "2.0", **tool_call("ask", number)}
        async with (
            httpx2.AsyncClient(timeout=PATIENCE) as http,
            http.stream("POST", shared.url, json=message, headers={**BOTH, **session.headers}) as stream,
        ):
            events = Events(stream)
            asked = await events.message()
            assert asked["method"] == "elicitation/create"
            assert (await session.post({"id": asked["id"], "result": RED})).status_code == 202
            assert _text(await events.message()) == "red"


async def test_a_waiting_call_is_found_from_every_worker(shared: Served) -> None:
    """A modern client and a legacy server: the call waits in one worker for what the client answers."""
    for _ in range(8):
        asked = (await shared.call("ask", ELICITS)).json()["result"]
        assert asked["resultType"] == "input_required"
        [key] = asked["inputRequests"]
        answer = {"inputResponses": {key: RED}, "requestState": asked["requestState"]}
        assert _text((await shared.call("ask", {**ELICITS, **answer})).json()) == "red"


async def test_the_metrics_are_those_of_all_workers(shared: Served) -> None:
    assert (await shared.call("pid")).status_code == 200
    page = (await shared.page("/metrics")).text
    for worker in range(WORKERS):
        assert f'toolbus_gateway_worker_up{{worker="{worker}"}} 1\n' in page
        assert f'toolbus_gateway_server_tools{{worker="{worker}",server="worker"}} 3\n' in page
    assert page.count("# TYPE toolbus_gateway_server_tools gauge\n") == 1
    calls = re.findall(r'requests_total\{worker="\d",method="tools/call"\} (\d+)', page)
    assert sum(map(int, calls)) >= 1
    assert (await shared.page("/readyz")).json()["ready"] is True


async def test_there_is_no_console_unless_it_is_wanted(shared: Served) -> None:
    assert {(await shared.page("/console")).status_code for _ in range(6)} == {404}


async def test_the_console_is_reached_through_every_worker(tmp_path: Path) -> None:
    """Its first worker has it, and lets a browser in that comes through the others."""
    with serving(tmp_path, serve={"console": True}) as served:
        assert {(await served.page("/console/servers")).status_code for _ in range(10)} == {401}
        for _ in range(6):
            command = [warm.toolbus(), "console", "--print", "--config", str(tmp_path / "toolbus.json")]
            entry = await asyncio.to_thread(
                subprocess.run, command, env=environment(tmp_path), capture_output=True, check=True
            )
            async with httpx2.AsyncClient(timeout=PATIENCE) as http:
                entered = await http.get(entry.stdout.decode().strip())
            assert entered.status_code == 303, entered.text
            cookie = {"cookie": entered.headers["set-cookie"].partition(";")[0]}
            url = urljoin(served.url, entered.headers["location"])
            for _ in range(4):
                async with httpx2.AsyncClient(timeout=PATIENCE) as http:
                    page = await http.get(url, headers=cookie)
                    head = await http.head(url, headers=cookie)
                    alone = await http.get(url), await http.get(urljoin(url, "../servers"), headers=cookie)
                assert page.status_code == head.status_code == 200
                assert [one.status_code for one in alone] == [401, 401]
                assert "worker" in page.text


# Ends


async def test_a_worker_that_dies_is_started_again_and_its_sessions_go_on(tmp_path: Path) -> None:
    with serving(tmp_path) as served:
        before = served.workers
        sessions = {await (one := await opened(served)).owner(): one for _ in range(20)}
        dead, other = tuple(sessions)[:2]
        os.kill(dead, signal.SIGKILL)
        line = f"worker {before.index(dead)} was ended by SIGKILL; it is started again"
        await until(lambda: line in served.log.read_text())
        owner = await sessions[dead].owner()
        assert owner != dead
        assert {await sessions[dead].owner() for _ in range(10)} == {owner}
        assert await sessions[other].owner() == other
        await until(lambda: len(served.workers) == WORKERS)
        [fresh] = set(served.workers) - set(before)
        async with asyncio.timeout(PATIENCE):
            while await (await opened(served)).owner() != fresh:
                pass
        assert _up((await served.page("/metrics")).text) == WORKERS


async def test_what_workers_share_goes_with_them(tmp_path: Path) -> None:
    folder = tmp_path / "tmp"
    folder.mkdir()
    with serving(tmp_path, TMPDIR=str(folder)) as served:
        [store] = folder.glob("toolbus-*/store.db")
        assert store.parent.stat().st_mode & 0o77 == 0
        served.process.send_signal(signal.SIGTERM)
        assert await asyncio.to_thread(served.process.wait, PATIENCE) == 0
    assert not list(folder.glob("toolbus-*"))


async def test_workers_of_a_gateway_with_a_store_are_replicas_in_it(tmp_path: Path) -> None:
    """Their sessions outlive all of them."""
    store = {"url": f"sqlite:///{tmp_path}/store.db", "notice": 0}
    key = base64.b64encode(os.urandom(32)).decode()
    with serving(tmp_path, store=store, TOOLBUS_STORE_KEY=key) as served:
        session = await opened(served)
        assert len({await session.owner() for _ in range(10)}) == 1
        assert _up((await served.page("/metrics")).text) == WORKERS
    with serving(tmp_path, store=store, TOOLBUS_STORE_KEY=key) as served:
        session.served = served
        assert len({await session.owner() for _ in range(10)}) == 1


async def test_calls_in_flight_end_when_it_stops(tmp_path: Path) -> None:
    files = [tmp_path / f"go{number}" for number in range(6)]
    with serving(tmp_path) as served:
        workers = served.workers
        calls = [asyncio.create_task(served.call("wait_for", path=str(file))) for file in files]
        for file in files:
            await until(Path(f"{file}.entered").exists)
        served.process.send_signal(signal.SIGTERM)
        for worker in workers:  # as systemd does, which sends it to all
            os.kill(worker, signal.SIGTERM)
        await until(lambda: not _is_open(served.url))
        for file in files:
            file.touch()
        assert [_text((await call).json()) for call in calls] == ["done"] * len(files)
        assert await asyncio.to_thread(served.process.wait, PATIENCE) == 0
        await _until_gone(workers)


def _is_open(url: str) -> bool:
    host, _, port = url.removeprefix("http://").removesuffix("/mcp").partition(":")
    try:
        socket.create_connection((host, int(port)), PATIENCE).close()
    except ConnectionRefusedError:
        return False
    return True


async def test_a_second_signal_ends_it_at_once(tmp_path: Path) -> None:
    with serving(tmp_path, "--drain", "600") as served:
        workers = served.workers
        call = asyncio.create_task(served.call("wait_for", path=str(tmp_path / "never")))
        await until((tmp_path / "never.entered").exists)
        served.process.send_signal(signal.SIGINT)
        await until(lambda: not _is_open(served.url))
        assert served.process.poll() is None
        served.process.send_signal(signal.SIGINT)
        assert await asyncio.to_thread(served.process.wait, PATIENCE) == 128 + signal.SIGINT
        with pytest.raises(httpx2.HTTPError):
            await call
        await _until_gone(workers)


async def test_workers_do_not_outlive_their_parent(tmp_path: Path) -> None:
    with serving(tmp_path) as served:
        workers = served.workers
        served.process.kill()
        await _until_gone(workers)


def test_more_workers_than_the_cores_can_use_are_reported() -> None:
    assert crowding(8, 2) is None
    warning = crowding(1000, 2)
    assert warning is not None
    assert warning.startswith("1000 workers on 2 cores: more than one for each core is no faster")


def test_a_required_server_that_fails(tmp_path: Path) -> None:
    """It ends, as one process would."""
    broken = {"command": "no-such-program", "required": True}
    with pytest.raises(AssertionError, match="ended at once") as raised, serving(tmp_path, server=broken):
        pass
    assert "command 'no-such-program' not found" in str(raised.value)
