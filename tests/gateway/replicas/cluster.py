"""Several `toolbus serve` processes on one store, and clients of both eras that reach any of them."""

import asyncio
import base64
import json
import re
import signal
import ssl
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from itertools import count
from pathlib import Path
from typing import Any

import httpx2

from tests import warm
from tests.cli.running import environment
from tests.gateway.front import BOTH, Events, modern_request
from tests.patience import PATIENCE

URL = re.compile(r"https?://127\.0\.0\.1:\d+/mcp")
SERVER = Path(__file__).with_name("journal_server.py")
STORE_KEY = base64.b64encode(b"k" * 32).decode()
ELICITS: dict[str, Any] = {"elicitation": {"form": {}}}
TASKS: dict[str, Any] = {"extensions": {"io.modelcontextprotocol/tasks": {}}}
JSON = dict[str, Any]
_ids = count(1)
Process = warm.Running | subprocess.Popen[bytes]
Start = Callable[[str, Sequence[str], Path, Mapping[str, str], Path], Process]
"""Starts a program with words, in a folder, with an environment and a log."""


def cold_start(
    program: str, words: Sequence[str], cwd: Path, env: Mapping[str, str], log: Path
) -> subprocess.Popen[bytes]:
    """A program as a user starts it, out of reach of a Ctrl-C in our terminal."""
    command = [str(Path(sys.executable).with_name(program)), *words]
    with log.open("wb") as output:
        return subprocess.Popen(
            command,
            cwd=cwd,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )


async def until(true: Callable[[], bool | Awaitable[bool]]) -> None:
    """Wait for something in another process, which has no event."""
    async with asyncio.timeout(PATIENCE):
        while True:
            found = true()
            if found if isinstance(found, bool) else await found:
                return
            await asyncio.sleep(0.05)


class Replica:
    """One process."""

    def __init__(self, process: Process, log: Path, port: int = 0) -> None:
        self.process = process
        self.log = log
        self.url = ""
        self.port = port

    async def ready(self) -> None:
        """Wait until it serves."""
        await until(self._has_started)
        self.url = URL.findall(self.log.read_text())[0]
        self.port = int(self.url.split(":")[2].removesuffix("/mcp"))

    def _has_started(self) -> bool:
        said = self.log.read_text()
        assert self.process.poll() is None, said
        return URL.search(said) is not None

    def kill(self) -> None:
        """End it at once, as a power failure would."""
        self.process.kill()

    async def stop(self) -> int:
        """End it as a rolling restart does; returns its exit code."""
        self.process.send_signal(signal.SIGTERM)
        return await self.ended()

    async def ended(self) -> int:
        return await asyncio.to_thread(self.process.wait, PATIENCE)


class Cluster:
    """The replicas, what they share, and the journal of their server."""

    def __init__(
        self, folder: Path, store: str, notice: float, launch: Start = warm.start, **settings: Any
    ) -> None:
        self.folder = folder
        self.journal = folder / "journal"
        self.journal.touch()
        self._settings = {"store": {"url": store, "notice": notice}, **settings}
        self._launch = launch
        self.config = self.written_config("toolbus.yaml")
        self.replicas: list[Replica] = []
        self._logs = count(1)

    def written_config(self, name: str, tools: Sequence[str] = ()) -> Path:
        """A config in which the server has more tools; set `config` to it for replicas to come."""
        args = [str(SERVER), str(self.journal), *tools]
        server = {"command": sys.executable, "args": args, "prefix": ""}
        file = self.folder / name
        file.write_text(json.dumps({"servers": {"journal": server}, **self._settings}))
        return file

    def environment(self, **more: str) -> dict[str, str]:
        return environment(self.folder, TOOLBUS_TRUST="1", TOOLBUS_STORE_KEY=STORE_KEY, **more)

    async def start(self, port: int = 0) -> Replica:
        """Another replica."""
        log = self.folder / f"replica{next(self._logs)}.log"
        words = ["serve", "--config", str(self.config), "--http", f"127.0.0.1:{port}"]
        process = await asyncio.to_thread(
            self._launch, "toolbus", words, self.folder, self.environment(), log
        )
        replica = Replica(process, log, port)
        self.replicas.append(replica)
        return replica

    @property
    def written(self) -> Counter[str]:
        """The number of times that each call was made."""
        return Counter(self.journal.read_text().splitlines())

    async def until_written(self, token: str) -> None:
        """Wait until a call has reached the server."""
        await until(lambda: token in self.written)

    async def close(self) -> None:
        for replica in self.replicas:
            replica.kill()  # to stop, each would give the others time to see it
        for replica in self.replicas:
            await replica.ended()


@asynccontextmanager
async def cluster(
    replicas: int, store: str = "", *, notice: float = 0.0, launch: Start = warm.start, **settings: Any
) -> AsyncGenerator[Cluster]:
    """Replicas on one store, by default a file; `settings` are settings of the config."""
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(ignore_cleanup_errors=True)))
        made = Cluster(folder, store or f"sqlite:///{folder / 'store.db'}", notice, launch, **settings)
        stack.push_async_callback(made.close)
        for _ in range(replicas):
            await made.start()
        for replica in made.replicas:
            await replica.ready()
        yield made


class Client:
    """A client that sends each request to a given replica, like a load balancer without sticky sessions."""

    def __init__(self, http: httpx2.AsyncClient, key: str = "") -> None:
        self.http = http
        self._headers = {"authorization": f"Bearer {key}"} if key else {}
        self.session = ""

    async def modern(
        self, url: str, method: str, params: JSON | None = None, capabilities: JSON | None = None
    ) -> JSON:
        """The response to a modern request: its result or its error."""
        meta = {"_meta": {"io.modelcontextprotocol/clientCapabilities": capabilities or {}}}
        body, headers = modern_request(method, {**(params or {}), **meta}, id=next(_ids))
        return await self._posted(url, body, headers)

    async def call(self, url: str, name: str, capabilities: JSON | None = None, **arguments: Any) -> JSON:
        """Call a tool as a modern client."""
        return await self.modern(url, "tools/call", {"name": name, "arguments": arguments}, capabilities)

    async def open(self, url: str, capabilities: JSON | None = None) -> None:
        """Open a legacy session."""
        info = {"name": "test", "version": "1"}
        params = {"protocolVersion": "2025-11-25", "capabilities": capabilities or {}, "clientInfo": info}
        message = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}
        response = await self.http.post(url, json=message, headers={**BOTH, **self._headers})
        assert response.status_code == 200, response.text
        self.session = response.headers["mcp-session-id"]

    @property
    def headers(self) -> dict[str, str]:
        """The headers of a request in the session."""
        return {**BOTH, "mcp-session-id": self.session, "mcp-protocol-version": "2025-11-25", **self._headers}

    async def legacy(self, url: str, method: str, params: JSON | None = None) -> JSON:
        """The response to a request of the session."""
        message = {"jsonrpc": "2.0", "id": next(_ids), "method": method, "params": params or {}}
        return await self._posted(url, json.dumps(message).encode(), self.headers)

    async def legacy_call(self, url: str, name: str, **arguments: Any) -> JSON:
        """Call a tool in the session."""
        return await self.legacy(url, "tools/call", {"name": name, "arguments": arguments})

    async def send(self, url: str, message: JSON) -> int:
        """Send a response or a notification of the session; returns the status."""
        response = await self.http.post(url, json={"jsonrpc": "2.0", **message}, headers=self.headers)
        return response.status_code

    async def _posted(self, url: str, body: bytes, headers: dict[str, str]) -> JSON:
        sent = {**headers, **self._headers}
        async with self.http.stream("POST", url, content=body, headers=sent) as response:
            if response.headers.get("content-type", "").startswith("text/event-stream"):
                return (await Events(response).rest())[-1]
            await response.aread()
            is_json = response.headers.get("content-type", "").startswith("application/json")
            return response.json() if is_json else {"status": response.status_code}


@asynccontextmanager
async def client(key: str = "", certificate: Path | None = None) -> AsyncGenerator[Client]:
    """A client with connections of its own; it trusts that certificate, if one is given."""
    verify = ssl.create_default_context(cafile=certificate) if certificate else False
    async with httpx2.AsyncClient(timeout=PATIENCE, verify=verify) as http:
        yield Client(http, key)


def text_of(response: JSON) -> str:
    """The text of the result of a call."""
    return response["result"]["content"][0]["text"]
