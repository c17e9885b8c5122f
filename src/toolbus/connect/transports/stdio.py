"""A server as a child process, spoken to over its pipes.

The process gets its own session, so that the whole group can be ended. Ending is always bounded:
stdin is closed, then the group is asked to end, then it is killed, also when the server itself left
but its children stayed. Standard error goes to the diagnostics and the log, never to the terminal.
"""

import asyncio
import logging
import os
import shutil
import signal
import sys
from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any, Literal, cast

from mcp.client.stdio import get_default_environment

from toolbus.config import Resolved, ServerConfig
from toolbus.config.secrets.redact import PROXIES
from toolbus.connect.diagnostics import STDERR_WIDTH, Diagnostics
from toolbus.connect.lacking import misplaced
from toolbus.connect.transports.jsonrpc import Answer, Peer
from toolbus.connect.transports.reaper import reaper
from toolbus.core.errors import ConnectFailed

logger = logging.getLogger("toolbus")

LARGEST_MESSAGE = 256 * 1024 * 1024
REAP_GRACE = 0.5
LAST_OUTPUT = 0.2
"""Seconds that what a dead process has written may take to arrive."""
POLL = 0.01
TELL_SKIPPED = 0.5
TRUST_STORES = ("SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS", "REQUESTS_CA_BUNDLE")
"""Paths, no secrets; without them nothing that `npx` or `uvx` downloads is trusted behind a company's CA."""


@dataclass(frozen=True, slots=True)
class _Grace:
    leave: float
    """Seconds a server has to leave after its stdin closed."""
    term: float
    """Seconds the group has after SIGTERM."""


PATIENT = _Grace(leave=1.5, term=1.0)
HURRIED = _Grace(leave=0.3, term=0.3)
"""For a server that never got as far as being used."""


@asynccontextmanager
async def stdio_peer(
    config: ServerConfig, values: Resolved, diagnostics: Diagnostics, warn: Callable[[str], None]
) -> AsyncGenerator[Peer]:
    """Start the server; give the conversation with it; on the way out, leave no process behind."""
    diagnostics.phase = "spawn"
    child = _Child(config.alias, values, diagnostics, warn)
    spawning = asyncio.ensure_future(_spawned(config, values, child))
    try:
        # Shielded, here and below: a caller who gives up must not leave a process behind.
        transport = await asyncio.shield(spawning)
    except asyncio.CancelledError:
        with suppress(ConnectFailed):
            await _stopped(await spawning, child, HURRIED)
        raise
    diagnostics.phase = "handshake"
    grace = HURRIED
    try:
        yield child.peer
        grace = PATIENT
    finally:
        child.peer.close("the connection is closed")
        child.tell_skipped()
        await asyncio.shield(asyncio.ensure_future(_stopped(transport, child, grace)))


async def _spawned(config: ServerConfig, values: Resolved, child: "_Child") -> asyncio.SubprocessTransport:
    env = _environment(config, values)
    child.diagnostics.withheld = os.environ.keys() - env.keys()
    if not _is_folder(values.cwd):
        raise ConnectFailed(config.alias, "spawn", f"the folder {values.cwd!r} (cwd) does not exist")
    program = _program(config.alias, values, env)
    try:
        transport, _ = await asyncio.get_running_loop().subprocess_exec(
            lambda: child, program, *values.args, env=env, cwd=values.cwd, start_new_session=True
        )
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise ConnectFailed(
            config.alias, "spawn", f"{values.command!r} cannot be started: {reason}", hint="is it executable?"
        ) from error
    child.diagnostics.pid = transport.get_pid()
    reaper.watch(child.diagnostics.pid)
    return transport


def _environment(config: ServerConfig, values: Resolved) -> dict[str, str]:
    match config.inherit_env:
        case "safe":
            base = _safe_environment()
        case "all":
            base = dict(os.environ)
        case "none":
            base = dict[str, str]()
        case names:
            base = _safe_environment() | {n: os.environ[n] for n in names if n in os.environ}
    return base | dict(values.env)


def _safe_environment() -> dict[str, str]:
    more = (*TRUST_STORES, *PROXIES)
    return get_default_environment() | {name: os.environ[name] for name in more if name in os.environ}


def _is_folder(cwd: str | None) -> bool:
    return cwd is None or os.path.isdir(cwd)


def _program(server: str, values: Resolved, env: dict[str, str]) -> str:
    assert values.command is not None
    command = os.path.expanduser(values.command)
    # Beside our own interpreter as well: finds `uvx` in a virtual environment that is not activated.
    path = os.pathsep.join([env.get("PATH", os.defpath), os.path.dirname(sys.executable)])
    # A path is meant from where the server runs; a mere name is looked for on the PATH.
    located = (
        os.path.abspath(os.path.join(values.cwd or "", command)) if os.path.dirname(command) else command
    )
    if found := shutil.which(located, path=path):
        return found
    if os.path.isfile(located):
        raise ConnectFailed(server, "spawn", f"{command!r} is not executable", hint="chmod +x makes it so")
    hint = misplaced(values) or "install it, or give its full path"
    if " " in command.strip():
        hint = "arguments belong in args, not in command"
    raise ConnectFailed(server, "spawn", f"command {command!r} not found", hint=hint)


class _Child(asyncio.SubprocessProtocol):
    """The callbacks of one process: stdout to the peer, stderr to the diagnostics, its end to both."""

    def __init__(
        self, server: str, values: Resolved, diagnostics: Diagnostics, warn: Callable[[str], None]
    ) -> None:
        self._values = values
        self.diagnostics = diagnostics
        self._warn = warn
        self._log = logger.getChild(f"stderr.{server}")
        self._partial: list[bytes] = []
        self._partial_size = 0
        self._stderr_partial = b""
        self._writable = asyncio.Event()
        self._writable.set()
        self._stdin: asyncio.WriteTransport | None = None
        self._telling: asyncio.TimerHandle | None = None
        self._skipped = 0
        self._first_skipped = ""
        self._turn_begun = False
        self._waiting: list[bytes] = []
        self.exited = asyncio.Event()
        self._stdout_ended = False
        self.peer = Peer("stdio", self._write, on_garbage=self._garbage)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        process = cast(asyncio.SubprocessTransport, transport)
        self._process = process
        self._stdin = cast(asyncio.WriteTransport, process.get_pipe_transport(0))

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        self.diagnostics.stir()
        if fd == 1:
            self._read(data)
        else:
            *lines, self._stderr_partial = (self._stderr_partial + data).split(b"\n")
            self._stderr_partial = self._stderr_partial[-STDERR_WIDTH:]
            for line in lines:
                self._heard(line)

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:
        if fd == 1:
            self._stdout_ended = True
            self._lost("the server closed its output")
        elif fd == 2 and self._stderr_partial:
            self._heard(self._stderr_partial)
        elif fd == 0:
            self._writable.set()

    def process_exited(self) -> None:
        self.diagnostics.exit_code = self._process.get_returncode()
        self.exited.set()
        if not self._stdout_ended:
            # A grandchild may hold the pipe open for ever: what is in it has this long to arrive.
            asyncio.get_running_loop().call_later(LAST_OUTPUT, self._lost, "the server process ended")

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    def _read(self, data: bytes) -> None:
        if b"\n" not in data:
            self._partial.append(data)
            self._partial_size += len(data)
            if self._partial_size > LARGEST_MESSAGE:
                self._partial.clear()
                self._lost(f"a message was larger than {LARGEST_MESSAGE // 2**20} MiB")
            return
        first, *lines = data.split(b"\n")
        lines.insert(0, b"".join([*self._partial, first]))
        rest = lines.pop()
        self._partial, self._partial_size = [rest], len(rest)
        for line in lines:
            if line.strip():
                self.peer.feed(line)

    def _heard(self, line: bytes) -> None:
        text = self._values.redacted(line.decode(errors="replace").rstrip()[:STDERR_WIDTH])
        self.diagnostics.hear(text)
        self._log.debug("%s", text)

    def _garbage(self, nth: int, data: bytes) -> None:
        self._skipped = self.diagnostics.garbage = nth
        if nth == 1:
            self._first_skipped = self._values.redacted(data[:80].decode(errors="replace").strip())
            # A moment later, so that one warning can say how many there were.
            self._telling = asyncio.get_running_loop().call_later(TELL_SKIPPED, self.tell_skipped)

    def tell_skipped(self) -> None:
        """Warn of lines that were skipped, once."""
        if self._telling is not None:
            self._telling.cancel()
            self._telling = None
            lines = "a line" if self._skipped == 1 else f"{self._skipped} lines"
            self._warn(f"skipped {lines} on its standard output, no messages; first {self._first_skipped!r}")

    def _lost(self, reason: str) -> None:
        self.diagnostics.lose(reason)
        self.peer.close(reason)

    async def _write(
        self, data: bytes, headers: Mapping[str, str] | None = None, answer: Answer | None = None
    ) -> None:
        assert self._stdin is not None
        if self._turn_begun:
            # Not the first message of this turn of the loop: all of them go in one write at its end.
            self._waiting += (data, b"\n")
        else:
            self._turn_begun = True
            asyncio.get_running_loop().call_soon(self._end_turn)
            self._stdin.write(data + b"\n")
        if not self._writable.is_set():
            await self._writable.wait()

    def _end_turn(self) -> None:
        self._turn_begun = False
        if self._waiting and self._stdin is not None:
            self._stdin.write(b"".join(self._waiting))
            self._waiting.clear()


async def _stopped(transport: asyncio.SubprocessTransport, child: _Child, grace: _Grace) -> None:
    """End the process and its whole group, step by step, each step bounded."""
    if stdin := transport.get_pipe_transport(0):
        stdin.close()
    pid = transport.get_pid()
    try:
        await _bounded(grace.leave, child.exited.wait())
        if sys.platform == "win32":
            if not child.exited.is_set():
                transport.kill()
        else:
            # Also when the server left politely: its own children are in the group.
            for sign, seconds in ((signal.SIGTERM, grace.term), (signal.SIGKILL, REAP_GRACE)):
                if not _group_signalled(pid, sign):
                    break
                await _bounded(seconds, _group_gone(pid))
        await _bounded(REAP_GRACE, child.exited.wait())
    except asyncio.CancelledError:
        # The loop itself is ending: no time for grace.
        if sys.platform != "win32":
            _group_signalled(pid, signal.SIGKILL)
        raise
    finally:
        if sys.platform != "win32" and not _group_signalled(pid, 0):
            reaper.forget(pid)
        transport.close()


def _group_signalled(pgid: int, sign: signal.Signals | Literal[0]) -> bool:
    """Signal the group; False when no member is left."""
    try:
        os.killpg(pgid, sign)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True  # someone is left whom we may not signal
    return True


async def _group_gone(pgid: int) -> None:
    # Polled, because nothing tells when the last member of a process group is gone.
    while _group_signalled(pgid, 0):  # noqa: ASYNC110
        await asyncio.sleep(POLL)


async def _bounded(seconds: float, wait: Coroutine[Any, Any, Any]) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await wait
