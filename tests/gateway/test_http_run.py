"""The HTTP front as a process: how it starts, and how it ends without losing calls."""

import asyncio
import json
import signal
import socket
import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import httpx2
import pytest

from tests import warm
from tests.gateway.front import Events, front, modern_request
from tests.inside.gateway import CannotListen, HttpLimits, listening_socket
from tests.patience import PATIENCE, until
from tests.servers.certificates import self_signed

pytestmark = pytest.mark.anyio

SCRIPT = Path(__file__).parent / "waiting_gateway.py"


@contextmanager
def gateway_process(drain: float) -> Generator[tuple[subprocess.Popen[str], str]]:
    """A gateway in a process of its own, and its URL."""
    command = [warm.python(), str(SCRIPT), "0", str(drain)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield process, f"http://127.0.0.1:{process.stdout.readline().strip()}"
        finally:
            process.kill()


async def _call(http: httpx2.AsyncClient, url: str, file: Path) -> httpx2.Response:
    body, headers = modern_request("tools/call", {"name": "wait_for", "arguments": {"path": str(file)}})
    return await http.post(f"{url}/mcp", content=body, headers=headers)


async def test_sigterm_lets_running_calls_end(tmp_path: Path) -> None:
    file = tmp_path / "go"
    with gateway_process(drain=PATIENCE) as (process, url):
        async with (
            httpx2.AsyncClient(timeout=PATIENCE) as http,
            httpx2.AsyncClient(timeout=PATIENCE) as other,
        ):
            assert (await other.get(f"{url}/readyz")).status_code == 200
            call = asyncio.create_task(_call(http, url, file))
            await until(Path(f"{file}.entered").exists)
            process.send_signal(signal.SIGTERM)
            port = int(url.rpartition(":")[2])
            await until(lambda: not _is_open(port))
            # The connection from before is still there, and told not to send more.
            ready = await other.get(f"{url}/readyz")
            assert (ready.status_code, ready.json()["reason"]) == (503, "the gateway is stopping")
            body, headers = modern_request("tools/list")
            refused = await other.post(f"{url}/mcp", content=body, headers=headers)
            assert (refused.status_code, refused.headers["connection"]) == (503, "close")
            assert not call.done()
            file.touch()
            assert (await call).json()["result"]["content"] == [{"type": "text", "text": "done"}]
        assert process.stdout is not None
        assert await asyncio.to_thread(process.stdout.read) == "ended\n"
        assert await asyncio.to_thread(process.wait) == 0


def _is_open(port: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0


@pytest.mark.parametrize(("drain", "signals"), [(0.1, 1), (PATIENCE, 2)])
async def test_a_call_that_does_not_end_in_time_is_cancelled(
    drain: float, signals: int, tmp_path: Path
) -> None:
    """So is every call if there is a second signal."""
    with gateway_process(drain) as (process, url):
        async with httpx2.AsyncClient(timeout=PATIENCE) as http:
            call = asyncio.create_task(_call(http, url, tmp_path / "never"))
            await until((tmp_path / "never.entered").exists)
            port = int(url.rpartition(":")[2])
            for _ in range(signals):
                process.send_signal(signal.SIGTERM)
                await until(lambda: not _is_open(port))
            with pytest.raises(httpx2.TransportError):
                await call
        assert process.stdout is not None
        assert await asyncio.to_thread(process.stdout.read) == "ended\n"


async def test_a_question_can_be_answered_while_the_gateway_stops() -> None:
    async with front() as served:
        session = await served.opened()
        live = served.gateway.sessions
        ping = {"id": 1, "method": "ping"}
        await asyncio.gather(session.post(ping), session.post(ping))  # leaves two connections open
        call = asyncio.create_task(session.call("wait"))
        async with asyncio.timeout(PATIENCE):
            await served.gates.entered.wait()
        draining = asyncio.create_task(served.server.drain(PATIENCE))
        await until(lambda: served.app.is_draining)
        answer = await session.post({"id": "toolbus-1", "result": {}})
        assert (answer.status_code, len(live)) == (202, 1)
        served.gates.opened.set()
        async with asyncio.timeout(PATIENCE):
            assert '"done"' in (await call).text
            await draining


async def test_streams_without_end_do_not_keep_it_from_ending() -> None:
    async with front() as served:
        session = await served.opened()
        async with served.http.stream("GET", served.url, headers=session.headers) as stream:
            events = Events(stream)
            await events.next()
            async with asyncio.timeout(PATIENCE):
                await served.server.drain(PATIENCE)
            assert await events.rest() == []


async def test_calls_over_tls(tmp_path: Path) -> None:
    async with front(HttpLimits(body_bytes=10_000), certificate=self_signed(tmp_path)) as served:
        response = await served.modern("tools/call", {"name": "add", "arguments": {"a": 1, "b": 2}})
        assert response.json()["result"]["content"] == [{"type": "text", "text": "3"}]
        refused = await served.raw(b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n")
        assert b"200" not in refused
        assert served.url.startswith("https:")


def test_an_address_in_use_is_reported_in_one_line() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(CannotListen) as raised:
            listening_socket("127.0.0.1", port)
    assert str(raised.value) == f"cannot listen on 127.0.0.1:{port}: the address is in use"
    with pytest.raises(CannotListen, match=r"^cannot listen on no\.such\.host\.invalid:1: "):
        listening_socket("no.such.host.invalid", 1)


async def test_requests_over_ipv6_and_with_a_name() -> None:
    with listening_socket("::1", 0) as sock:
        assert sock.family == socket.AF_INET6
        assert sock.getsockname()[1] > 0
    async with front() as served:
        url = served.url.replace("127.0.0.1", "localhost")
        response = await served.http.get(url.replace("/mcp", "/healthz"))
    assert json.loads(response.content) == {"status": "ok"}
