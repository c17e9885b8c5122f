"""A gateway under attack, in a process of its own, with a good user beside the attacker.

`Besieged.cost` runs an attack and returns its cost. That is the longest step of the gateway's event loop, in
units of `tests/budget.py`, and the memory of the gateway.
"""

import asyncio
import json
import os
import ssl
from collections.abc import AsyncGenerator, Awaitable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import httpx2

from tests import warm
from tests.budget import BUDGET
from tests.cli.running import environment, toolbus
from tests.gateway.front import modern_request
from tests.gateway.serving import URL, end, wait_until
from tests.patience import PATIENCE

HERE = Path(__file__).parent
GOOD, BAD = "good", "bad"
"""The names of the two keys."""
SERVER = str(HERE.parent / "gateway" / "worker_server.py")


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """The cost of an attack for the gateway."""

    longest: float
    """The longest step of its loop."""
    callback: str
    peak_mib: float
    """The memory that it took while the attack went on."""
    kept_mib: float
    """The memory that it still uses afterwards."""
    answered: int
    """Calls of the good user that were answered meanwhile."""

    def assert_bearable(self, *, mib: float) -> None:
        """No step was too long, memory stayed within a limit, and the good user was served."""
        assert self.longest < BUDGET, self
        assert self.peak_mib < mib, self
        assert self.answered > 0, self


@dataclass(slots=True, kw_only=True)
class Besieged:
    """A gateway that measures itself."""

    url: str
    """The URL of its MCP endpoint."""
    keys: Mapping[str, str]
    http: httpx2.AsyncClient
    process: warm.Running
    log: Path
    _asks: IO[bytes]
    _answers: IO[bytes]

    @property
    def port(self) -> int:
        return httpx2.URL(self.url).port or 0

    async def call(self, who: str = GOOD, method: str = "tools/call", **params: Any) -> httpx2.Response:
        """A request of a modern client with that key; by default a call of the tool `pid`."""
        given = params or {"name": "pid", "arguments": {}}
        content, headers = modern_request(method, given, {"authorization": f"Bearer {self.keys[who]}"})
        return await self.http.post(self.url, content=content, headers=headers)

    async def cost(self, attack: Awaitable[object]) -> Cost:
        """Run an attack while a good user makes calls, one after the other."""
        for _ in range(3):
            await self._good_call()
        before = await self._asked("reset")
        under_way = asyncio.ensure_future(attack)
        answered = 0
        async with asyncio.timeout(PATIENCE):
            while not under_way.done():
                await self._good_call()
                answered += 1
            await under_way
            await self._good_call()
        now = await self._asked("")
        return Cost(
            longest=now["longest"],
            callback=now["callback"],
            peak_mib=(now["peak"] - before["now"]) / 1024,
            kept_mib=(now["now"] - before["now"]) / 1024,
            answered=answered,
        )

    async def _good_call(self) -> None:
        response = await self.call()
        assert response.status_code == 200, response.text
        assert response.json()["result"]["content"][0]["text"].isdigit(), response.text

    async def _asked(self, question: str) -> dict[str, Any]:
        def exchange() -> dict[str, Any]:
            self._asks.write(f"{question}\n".encode())
            self._asks.flush()
            while not (line := self._answers.readline()).startswith(b"{"):
                assert line, self.log.read_text()
            return json.loads(line)

        return await asyncio.to_thread(exchange)


@asynccontextmanager
async def besieged(
    folder: Path,
    *,
    servers: Mapping[str, object] | None = None,
    serve: Mapping[str, object] | None = None,
    certificate: Path | None = None,
    **config: object,
) -> AsyncGenerator[Besieged]:
    """`toolbus serve` with the keys `good` and `bad`, in a new folder; over HTTPS with a certificate.

    It has a server `worker` whose tool `pid` the good user calls; `servers` are further ones.
    """
    place = folder / "besieged"
    place.mkdir()
    tls = {} if certificate is None else {"tls": {"cert": str(certificate), "key": str(certificate)}}
    worker = {"command": warm.python(), "args": [SERVER], "prefix": ""}
    file = place / "toolbus.yaml"
    written = {
        "servers": {"worker": worker, **(servers or {})},
        "serve": {"auth": {"keys": True}, **tls, **(serve or {})},
        **config,
    }
    file.write_text(json.dumps(written))
    env = {"TOOLBUS_TRUST": "1"}
    keys = {
        name: json.loads(toolbus("key", "add", name, "--json", folder=place, env=env).stdout)["key"]
        for name in (GOOD, BAD)
    }
    words = [str(HERE / "measured_serve.py"), "serve", "--http", "127.0.0.1:0", "--config", str(file)]
    log = place / "log"
    (its_in, asks), (answers, its_out) = os.pipe(), os.pipe()
    with log.open("wb") as stderr:
        streams = (its_in, its_out, stderr.fileno())
        process = warm.Running("python", words, place, environment(folder, **env), streams)
    os.close(its_in)
    os.close(its_out)
    verify = ssl.create_default_context(cafile=certificate) if certificate else False
    with os.fdopen(asks, "wb") as asking, os.fdopen(answers, "rb") as answering:
        try:
            await asyncio.to_thread(
                wait_until, lambda: URL.search(log.read_text()), process, "toolbus serve", log
            )
            found = URL.search(log.read_text())
            assert found
            async with httpx2.AsyncClient(timeout=PATIENCE, verify=verify) as http:
                yield Besieged(
                    url=found[0],
                    keys=keys,
                    http=http,
                    process=process,
                    log=log,
                    _asks=asking,
                    _answers=answering,
                )
        finally:
            with suppress(ProcessLookupError):
                await asyncio.to_thread(end, process)
