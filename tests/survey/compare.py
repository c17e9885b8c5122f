"""Published servers, with the plain client of the SDK and with toolbus: what each of them lists."""

import asyncio
import json
import os
import resource
import shutil
import tempfile
import time
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, cast

from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client

from tests.processes import children
from toolbus import Toolbus

LIST = Path(__file__).with_name("servers.json")
CACHE = Path(__file__).parents[2] / ".survey"
"""The downloads; a second survey needs the package index only for changes."""
INSTALL_SECONDS = 400.0
CONNECT_SECONDS = 90.0
PASSED_ON = ("PATH", "LANG", "SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS", "REQUESTS_CA_BUNDLE")
"""The variables of our environment that a server gets: no credentials, and no home."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """One published server, with its exact version."""

    name: str
    command: tuple[str, ...]
    """`{folder}` in it is an empty folder."""
    install: tuple[str, ...] = ()
    """Downloads it, so that nobody's time contains that."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """One client's listing of a server."""

    tools: int | None = None
    """The number of listed tools; None if it could not connect."""
    seconds: float = 0.0
    problem: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One server in the table."""

    server: str
    sdk: Listed
    toolbus: Listed
    verdict: str = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "verdict", verdict(self.sdk.tools, self.toolbus.tools))

    @property
    def is_worse(self) -> bool:
        """Whether the SDK's own client is better."""
        return self.verdict.startswith("WORSE")

    def json(self) -> dict[str, Any]:
        """The row as JSON."""
        return asdict(self)


def verdict(sdk: int | None, toolbus: int | None) -> str:
    """The verdict on toolbus; it begins with WORSE if the SDK's client did better."""
    if sdk is None and toolbus is None:
        return "neither connects"
    if toolbus is None:
        return "WORSE: only the SDK connects"
    if sdk is None:
        return "better: only toolbus connects"
    if toolbus < sdk:
        return f"WORSE: {sdk - toolbus} tools fewer"
    return "same" if toolbus == sdk else f"better: {toolbus - sdk} tools more"


def published(text: str) -> list[Published]:
    """The servers of a list: see `servers.json`."""
    return [_published(entry) for entry in cast(list[dict[str, Any]], json.loads(text))]


def _published(entry: Mapping[str, Any]) -> Published:
    index, _, package = str(entry["package"]).partition(":")
    args = tuple(entry.get("args", ()))
    if index == "npm":
        pinned = f"{package}@{entry['version']}"
        install = ("npx", "-y", "--package", pinned, "--", "node", "-e", "0")
        return Published(name=package, command=("npx", "-y", pinned, *args), install=install)
    pinned, name = f"{package}=={entry['version']}", entry.get("run", package)
    launch = ("uvx", *(("--with", entry["with"]) if "with" in entry else ()), "--from", pinned)
    return Published(name=package, command=(*launch, name, *args), install=(*launch, "python", "-c", ""))


@asynccontextmanager
async def _environment() -> AsyncGenerator[tuple[str, dict[str, str]]]:
    """An empty folder, and the environment of a server whose home it is."""
    folder = tempfile.mkdtemp(prefix="survey")
    kept = {name: os.environ[name] for name in PASSED_ON if name in os.environ}
    caches = {"UV_CACHE_DIR": str(CACHE / "uv"), "npm_config_cache": str(CACHE / "npm")}
    try:
        yield (
            folder,
            {**kept, **caches, "HOME": folder, "TMPDIR": folder, "npm_config_update_notifier": "false"},
        )
    finally:
        shutil.rmtree(folder, ignore_errors=True)


async def install(server: Published) -> str:
    """Download a server; returns the problem, if any."""
    if not server.install:
        return ""
    async with _environment() as (folder, env):
        process = await asyncio.create_subprocess_exec(
            *server.install,
            env=env,
            cwd=folder,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
        )
        try:
            async with asyncio.timeout(INSTALL_SECONDS):
                _, printed = await process.communicate()
        except TimeoutError:
            process.kill()
            await process.wait()
            return f"not installed within {INSTALL_SECONDS:g} s"
    return "" if process.returncode == 0 else printed.decode(errors="replace").strip()[-300:]


async def with_sdk(server: Published) -> Listed:
    """List its tools with the client of the SDK, as in the SDK's own examples."""
    began = time.monotonic()
    async with _environment() as (folder, env):
        with open(os.devnull, "w") as errors:  # noqa: ASYNC230  # it never blocks
            command = [word.format(folder=folder) for word in server.command]
            process = StdioServerParameters(command=command[0], args=command[1:], env=env, cwd=folder)
            try:
                async with asyncio.timeout(CONNECT_SECONDS):
                    return await _listed(Client(stdio_client(process, errlog=errors)), began)
            except (Exception, BaseExceptionGroup) as error:  # the SDK raises anything
                return Listed(seconds=time.monotonic() - began, problem=repr(error)[:300])


async def _listed(client: Client, began: float) -> Listed:
    async with client:
        tools, cursor = 0, None
        while True:
            page = await client.list_tools(cursor=cursor)
            tools, cursor = tools + len(page.tools), page.next_cursor
            if cursor is None:
                return Listed(tools=tools, seconds=time.monotonic() - began)


def entry(server: Published, folder: str, env: Mapping[str, str]) -> dict[str, Any]:
    """The server as an entry of a toolbus config, which gets no other environment than this."""
    command = [word.format(folder=folder) for word in server.command]
    start = {"command": command[0], "args": command[1:], "cwd": folder}
    return {**start, "env": dict(env), "inherit_env": "none", "timeouts": {"connect": CONNECT_SECONDS}}


async def with_toolbus(server: Published) -> Listed:
    """List its tools with toolbus."""
    began = time.monotonic()
    async with _environment() as (folder, env):
        async with Toolbus({"servers": {"s": entry(server, folder, env)}}) as bus:
            await bus.wait_ready(timeout=CONNECT_SECONDS)
            seconds, status = time.monotonic() - began, bus.servers["s"]
        is_ready = status.state == "ready"
        return Listed(
            tools=status.tools if is_ready else None,
            seconds=seconds,
            problem="" if is_ready else status.error or status.state,
        )


async def compared(server: Published) -> Row:
    """One row of the table."""
    if problem := await install(server):
        missing = Listed(problem=problem)
        return Row(server=server.name, sdk=missing, toolbus=missing)
    return Row(server=server.name, sdk=await with_sdk(server), toolbus=await with_toolbus(server))


@dataclass(frozen=True, slots=True, kw_only=True)
class Together:
    """All servers on one bus."""

    tools: dict[str, int | None]
    problems: dict[str, str]
    seconds: float
    own_cpu: float
    """Seconds of CPU of this process."""
    helpers_cpu: float
    """The same of the guard and its keepers."""


async def together(servers: Sequence[Published]) -> Together:
    """Start all servers on one bus, and count the CPU time that toolbus needs for that."""
    began, before = time.monotonic(), _own_cpu()
    async with _environment() as (folder, env):
        config = {"servers": {f"s{n}": entry(server, folder, env) for n, server in enumerate(servers)}}
        async with Toolbus(config) as bus:
            await bus.wait_ready(timeout=CONNECT_SECONDS * 4)
            seconds, own, helpers = time.monotonic() - began, _own_cpu() - before, _helpers_cpu()
            found = [(server.name, bus.servers[f"s{n}"]) for n, server in enumerate(servers)]
    return Together(
        tools={name: status.tools if status.state == "ready" else None for name, status in found},
        problems={name: status.error or status.state for name, status in found if status.state != "ready"},
        seconds=seconds,
        own_cpu=own,
        helpers_cpu=helpers,
    )


def _own_cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def _helpers_cpu() -> float:
    """The CPU time of the living processes of the guard."""
    guards = [pid for pid in children(keepers=True) if b"guard.main(" in _read(f"/proc/{pid}/cmdline")]
    fields = [_read(f"/proc/{pid}/stat").rpartition(b")")[2].split() for pid in guards]
    return sum(int(one[11]) + int(one[12]) for one in fields if one) / os.sysconf("SC_CLK_TCK")


def _read(path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError:  # it ended meanwhile
        return b""
