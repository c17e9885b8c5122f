"""Outages of three gateways, their load balancer and their store while clients call."""

import asyncio
import http.client
import json
import math
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from tests.cli.running import toolbus
from tests.gateway.replicas.balancer import balancer
from tests.gateway.replicas.cluster import Cluster, Replica, Start, cold_start, until
from tests.gateway.replicas.rig.accounts import Expected, Report, Window, account, records
from tests.patience import PATIENCE
from tests.postgres import Server, postgres_server

CLIENT = Path(__file__).with_name("client.py")
REPLICAS = 3
BEFORE, AFTER = 3.0, 3.0
"""Seconds of calls before something happens, and after it is over."""
NOTICE = 5.0
"""The default of `store.notice`."""
NOTICED = 20.0
"""Seconds within which the others take over what a frozen replica has."""
SETTLED = 5.0
"""Seconds in which what an outage held up may still fail."""
TIMEOUT = 120.0
"""Seconds after which a client gives up: longer than anything may take."""
DISK = 16 * 1024 * 1024
OLD, NEW = ("removed", "renamed_before"), ("added", "renamed_after")
"""The tools that only the one and only the other version has."""


@dataclass
class Stage:
    """The parts of a scenario, and when something was wrong with them."""

    cluster: Cluster
    key: str
    """The key of the clients."""
    seconds: float
    """The duration of an outage."""
    postgres: Server | None = None
    disk: Path | None = None
    excused: list[Window] = field(default_factory=list[Window])
    gone: dict[str, Window] = field(default_factory=dict[str, Window])
    """The times when a tool was not known everywhere."""
    stops: list[float] = field(default_factory=list[float])
    """Seconds from each SIGTERM to the end of its process."""
    problems: list[str] = field(default_factory=list[str])

    def excuse(self, since: float, seconds: float) -> None:
        """Excuse failures from then on, for `seconds`."""
        self.excused.append((since, since + seconds))


async def deploy(stage: Stage) -> None:
    """Replace each gateway by one of the next version: SIGTERM, its end, and a new process at its place."""
    stage.cluster.config = stage.cluster.written_config("next.yaml", NEW)
    stage.gone = dict.fromkeys(OLD, (time.monotonic(), math.inf))
    for replica in tuple(stage.cluster.replicas):
        began = time.monotonic()
        if (code := await replica.stop()) != 0:
            stage.problems.append(f"a gateway ended with {code} after SIGTERM")
        stage.stops.append(time.monotonic() - began)
        await _replaced(stage.cluster, replica)
        await asyncio.sleep(1)
    stage.gone |= dict.fromkeys(NEW, (0.0, time.monotonic()))


async def kill(stage: Stage) -> None:
    """Kill each gateway, and start another at its place."""
    for replica in tuple(stage.cluster.replicas):
        replica.kill()
        stage.excuse(time.monotonic(), 2)
        await replica.ended()
        await asyncio.sleep(2)
        await _replaced(stage.cluster, replica)
        await asyncio.sleep(3)


async def freeze(stage: Stage) -> None:
    """Stop a gateway as a machine that hangs: its connections stay, and nothing comes back."""
    replica = stage.cluster.replicas[0]
    stage.excuse(time.monotonic(), min(NOTICED, stage.seconds))
    replica.process.send_signal(signal.SIGSTOP)
    try:
        await asyncio.sleep(stage.seconds)
    finally:
        replica.process.send_signal(signal.SIGCONT)
    stage.excuse(time.monotonic(), SETTLED)
    await asyncio.sleep(SETTLED)


async def store(stage: Stage) -> None:
    """Take the database away twice: it refuses connections, and then it accepts them and says nothing."""
    assert stage.postgres is not None
    stage.excuse(time.monotonic(), stage.seconds + SETTLED)
    await asyncio.to_thread(stage.postgres.stop)
    try:
        await asyncio.sleep(stage.seconds)
    finally:
        await asyncio.to_thread(stage.postgres.start)
    await asyncio.sleep(SETTLED)
    stage.excuse(time.monotonic(), stage.seconds + SETTLED)
    with stage.postgres.frozen():
        await asyncio.sleep(stage.seconds)
    await asyncio.sleep(SETTLED)


async def disk(stage: Stage) -> None:
    """Fill the disk of the store, and free it again."""
    assert stage.disk is not None
    stage.excuse(time.monotonic(), stage.seconds + SETTLED)
    ballast = stage.disk / "ballast"
    try:
        with ballast.open("wb", buffering=0) as file:
            while True:
                file.write(bytes(4096))
    except OSError:
        await asyncio.sleep(stage.seconds)
    finally:
        ballast.unlink()
    await asyncio.sleep(SETTLED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """One scenario, with its requirements."""

    run: Callable[[Stage], Awaitable[None]]
    title: str
    seconds: float = 0.0
    silence: float = 15.0
    eras: tuple[str, ...] = ("legacy", "modern")
    """The eras whose operations may fail meanwhile; a modern call needs no store."""
    store: Literal["postgres", "disk"] = "postgres"


SCENARIOS = {
    "deploy": Scenario(run=deploy, title="a rolling restart with other tools", eras=()),
    "kill": Scenario(run=kill, title="each gateway killed and replaced"),
    "freeze": Scenario(run=freeze, title="a gateway stopped for {seconds:g} s", seconds=75),
    "store": Scenario(
        run=store,
        title="Postgres down for {seconds:g} s, then hanging for {seconds:g} s",
        seconds=40,
        silence=22,
        eras=("legacy",),
    ),
    "disk": Scenario(
        run=disk,
        title="a full disk under SQLite for {seconds:g} s",
        seconds=25,
        silence=22,
        eras=("legacy",),
        store="disk",
    ),
}


async def play(
    name: str,
    clients: int,
    seconds: float | None = None,
    *,
    keep: Path | None = None,
    launch: Start = cold_start,
) -> Report:
    """Run a scenario with so many clients; `seconds` is how long an outage lasts.

    `keep` is a folder for the logs and for what the clients wrote down; `launch` starts the gateways.
    """
    scenario, began = SCENARIOS[name], time.monotonic()
    lasting = scenario.seconds if seconds is None else seconds
    async with asyncio.timeout(3 * lasting + PATIENCE), AsyncExitStack() as stack:
        stage = await _staged(stack, scenario, lasting, launch)
        ports = [replica.port for replica in stage.cluster.replicas]
        url = await stack.enter_async_context(balancer(stage.cluster.folder, ports))
        plan = {
            "port": int(url.split(":")[2].removesuffix("/mcp")),
            "folder": str(stage.cluster.folder),
            "clients": clients,
            "key": stage.key,
            "tools": ["write", *OLD, *NEW] if name == "deploy" else ["write"],
            "pause": [0.2, 0.8],
            "lasting": [0.0, 0.3],
            "timeout": TIMEOUT,
        }
        async with _calling(plan, stage):
            await until(lambda: _have_called(stage.cluster.folder) == clients)
            await asyncio.sleep(BEFORE)
            await scenario.run(stage)
            await asyncio.sleep(AFTER)
            stage.problems += await asyncio.to_thread(_unready, stage.cluster)
        expected = Expected(
            silence=scenario.silence,
            excused=stage.excused,
            eras=scenario.eras,
            gone=stage.gone,
        )
        report = account(records(stage.cluster.folder), stage.cluster.written, expected)
        report.broken += stage.problems
        report.slowest_stop = max(stage.stops, default=0.0)
        report.seconds = time.monotonic() - began
        if keep is not None:
            await asyncio.to_thread(shutil.copytree, stage.cluster.folder, keep / name, dirs_exist_ok=True)
    return report


async def _staged(stack: AsyncExitStack, scenario: Scenario, seconds: float, launch: Start) -> Stage:
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="rig-", ignore_cleanup_errors=True)))
    postgres = filled = None
    if scenario.store == "postgres":
        postgres = stack.enter_context(postgres_server())
        url = postgres.database()
    else:
        filled = stack.enter_context(_small_disk(folder / "disk"))
        url = f"sqlite:///{filled / 'store.db'}"
    settings: dict[str, Any] = {"serve": {"auth": {"keys": True}}}
    made = Cluster(folder, url, NOTICE, launch, **settings)
    made.config = made.written_config("first.yaml", OLD if scenario.run is deploy else ())
    key = await asyncio.to_thread(_key, made, is_cold=launch is cold_start)
    stack.push_async_callback(made.close)
    for _ in range(REPLICAS):
        await made.start()
    for replica in made.replicas:
        await replica.ready()
    return Stage(made, key, seconds, postgres, filled)


async def _replaced(made: Cluster, replica: Replica) -> None:
    made.replicas.remove(replica)
    fresh = await made.start(replica.port)
    await fresh.ready()


def _key(made: Cluster, *, is_cold: bool) -> str:
    words = ("key", "add", "rig", "--config", str(made.config))
    done = toolbus(*words, folder=made.folder, env=made.environment(), cold=is_cold)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@asynccontextmanager
async def _calling(plan: dict[str, Any], stage: Stage) -> AsyncGenerator[None]:
    """The clients, until the block ends and each has got the answer that it waits for."""
    folder = stage.cluster.folder
    log = folder / "clients.log"
    crowd = cold_start("python", ["-I", str(CLIENT), json.dumps(plan)], folder, os.environ, log)
    try:
        yield
        (folder / "stop").touch()
        code = await asyncio.to_thread(crowd.wait, TIMEOUT + AFTER)
        if code != 0:
            stage.problems.append(f"a client failed: {log.read_text()[-500:]}")
    except subprocess.TimeoutExpired:
        stage.problems.append("clients still wait for an answer")
    finally:
        crowd.terminate()
        await asyncio.to_thread(crowd.wait, PATIENCE)


def _unready(made: Cluster) -> list[str]:
    """The gateways that do not serve, although nothing is wrong with them."""
    found: list[str] = []
    for replica in made.replicas:
        connection = http.client.HTTPConnection("127.0.0.1", replica.port, timeout=NOTICED)
        try:
            connection.request("GET", "/readyz")
            status = connection.getresponse().status
        except OSError as error:
            found.append(f"a gateway does not serve in the end: {error!r}")
        else:
            found += [] if status == 200 else [f"a gateway is not ready in the end: {status}"]
        finally:
            connection.close()
    return found


def _have_called(folder: Path) -> int:
    """The number of clients that have got the result of a call."""
    return sum('"status": 200, "text": "' in file.read_text() for file in folder.glob("client-*"))


@contextmanager
def _small_disk(folder: Path) -> Generator[Path]:
    """A file system of 16 MiB; only root can mount one."""
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={DISK},mode=700", "tmpfs", folder], check=True)
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", folder], check=True)
