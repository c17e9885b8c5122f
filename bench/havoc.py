"""The servers of the soak, and who kills them.

stdio servers are started again by toolbus, HTTP servers here, on the port they had. Nothing is
signalled but a child of this process.
"""

import asyncio
import os
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any, Literal

from bench.counting import pid_file
from bench.sides import ROOT, STOPPING

BETWEEN_KILLS = 6.0
"""Seconds that a server lives on average."""
STARTING = 10.0
LONGEST_AWAY = 4.0
"""Seconds until an HTTP server is started again, at most: longer than the callers wait."""
# Below those that the kernel gives to outgoing connections: one of them would take a dead server's port.
PORTS = range(20_000, 32_000)


@dataclass(slots=True, kw_only=True)
class Victim:
    """One server: its transport, its executions, and the faults it suffered."""

    alias: str
    kind: Literal["stdio", "http"]
    era: Literal["modern", "legacy", "auto"]
    log: str
    port: int = 0
    kills: int = 0
    process: asyncio.subprocess.Process | None = field(default=None, repr=False)

    @property
    def entry(self) -> dict[str, Any]:
        """Its entry in the config of toolbus."""
        if self.kind == "http":
            return {"url": f"http://127.0.0.1:{self.port}/mcp", "era": self.era}
        args = ["-m", "bench.counting", "stdio", self.log]
        return {"command": sys.executable, "args": args, "cwd": str(ROOT), "era": self.era}

    async def start(self) -> None:
        """Start it if that is up to us, until it listens; it ends with us, because its input does."""
        if self.kind == "http":
            command = [sys.executable, "-m", "bench.counting", "http", self.log, str(self.port)]
            self.process = await asyncio.create_subprocess_exec(
                *command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE
            )
            assert self.process.stdout is not None
            async with asyncio.timeout(STARTING):
                if not await self.process.stdout.readline():
                    raise RuntimeError(f"the server {self.alias} of the soak did not start")

    async def kill(self) -> bool:
        """Kill it now; False if it is not up."""
        if self.process is not None:
            with suppress(ProcessLookupError):
                self.process.kill()
            async with asyncio.timeout(STOPPING):
                await self.process.wait()
            return True
        return killed_child(pid_file(self.log))


def killed_child(file: Path) -> bool:
    """Kill the process a file names, if it is a living descendant of ours."""
    try:
        pid = ancestor = int(file.read_text())
        state, _ = state_and_parent(pid)
        while ancestor > 1 and ancestor != os.getpid():
            ancestor = state_and_parent(ancestor)[1]
    except OSError:
        return False
    if ancestor != os.getpid() or state in "ZX":
        return False
    os.kill(pid, signal.SIGKILL)
    return True


def state_and_parent(pid: int) -> tuple[str, int]:
    """The state of a process, and the number of its parent."""
    state, parent = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[:2]
    return state, int(parent)


def victims(folder: Path, random: Random) -> list[Victim]:
    """Five servers: three processes on pipes and two on ports, of all eras."""
    log = {alias: str(folder / alias) for alias in ("pipe_a", "pipe_b", "pipe_c", "port_d", "port_e")}
    return [
        Victim(alias="pipe_a", kind="stdio", era="modern", log=log["pipe_a"]),
        Victim(alias="pipe_b", kind="stdio", era="legacy", log=log["pipe_b"]),
        Victim(alias="pipe_c", kind="stdio", era="auto", log=log["pipe_c"]),
        Victim(alias="port_d", kind="http", era="modern", log=log["port_d"], port=free_port(random)),
        Victim(alias="port_e", kind="http", era="legacy", log=log["port_e"], port=free_port(random)),
    ]


def free_port(random: Random) -> int:
    """A port of loopback where nobody listens."""
    while True:
        port = random.choice(PORTS)
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


@asynccontextmanager
async def up(servers: list[Victim]) -> AsyncGenerator[None]:
    """The servers that are ours to start, started; on the way out all of them are ended."""
    try:
        for server in servers:
            await server.start()
        yield
    finally:
        for server in servers:
            await server.kill()
            server.process = None


async def kill_at_random(server: Victim, random: Random, until: float) -> None:
    """Kill a server again and again until that time of the loop; it is up, or coming up, at the end."""
    clock = asyncio.get_running_loop().time
    while True:
        pause = random.expovariate(1 / BETWEEN_KILLS)
        if clock() + pause >= until:
            return
        await asyncio.sleep(pause)
        server.kills += await server.kill()
        if server.kind == "http":
            await asyncio.sleep(random.uniform(0, LONGEST_AWAY))
            await server.start()
