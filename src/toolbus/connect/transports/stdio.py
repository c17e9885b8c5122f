"""A server as a child process, connected by its pipes.

The process gets its own session, so that its whole group can be ended, in bounded time: stdin is
closed, then the group gets SIGTERM, then SIGKILL, also if only children of the server are left.
Standard error goes to the diagnostics and the log, never to the terminal.
"""

import asyncio
import logging
import os
import shutil
import signal
import sys
from collections.abc import AsyncGenerator, Coroutine, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any, Literal, cast

from mcp.client.stdio import get_default_environment

from toolbus.config import Resolved, ServerConfig
from toolbus.config.secrets.redact import PROXIES
from toolbus.connect.attempt import Attempt
from toolbus.connect.diagnostics import STDERR_WIDTH
from toolbus.connect.process_hints import misplaced_file
from toolbus.connect.transports.jsonrpc import Peer, ResponseFuture, WireError
from toolbus.connect.transports.reaper import reaper
from toolbus.core.errors import ConnectFailed

logger = logging.getLogger("toolbus")

MAX_MESSAGE_SIZE = 256 * 1024 * 1024
REAP_GRACE = 0.5
DRAIN_TIMEOUT = 0.2
"""Seconds in which the last output of a process that ended has to arrive."""
POLL_INTERVAL = 0.01
WARN_DELAY = 0.5
CA_VARIABLES = ("SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS", "REQUESTS_CA_BUNDLE")
"""Paths, not secrets; behind a company's CA, `npx` and `uvx` cannot download anything without them."""


@dataclass(frozen=True, slots=True)
class _Grace:
    exit: float
    """Seconds for the server to exit after its stdin is closed."""
    term: float
    """Seconds for the group to end after SIGTERM."""


NORMAL_GRACE = _Grace(exit=1.5, term=1.0)
SHORT_GRACE = _Grace(exit=0.3, term=0.3)
"""For a server that was never used."""


@asynccontextmanager
async def stdio_peer(attempt: Attempt) -> AsyncGenerator[Peer]:
    """Start the server and connect to it; on exit, end its whole process group."""
    attempt.diagnostics.phase = "spawn"
    child = _Child(attempt)
    spawning = asyncio.ensure_future(_spawn(attempt, child))
    try:
        # Shielded, here and below: a caller who is cancelled must not leave a process behind.
        transport = await asyncio.shield(spawning)
    except asyncio.CancelledError:
        with suppress(ConnectFailed):
            await _terminate(await spawning, child, SHORT_GRACE)
        raise
    attempt.diagnostics.phase = "handshake"
    grace = SHORT_GRACE
    try:
        yield child.peer
        grace = NORMAL_GRACE
    finally:
        child.peer.close("the connection is closed")
        child.warn_skipped()
        await asyncio.shield(asyncio.ensure_future(_terminate(transport, child, grace)))


async def _spawn(attempt: Attempt, child: "_Child") -> asyncio.SubprocessTransport:
    config, values, diagnostics = attempt.config, attempt.values, attempt.diagnostics
    env = _environment(config, values)
    diagnostics.withheld = os.environ.keys() - env.keys()
    program = _find_program(config.alias, values, env)
    try:
        transport, _ = await asyncio.get_running_loop().subprocess_exec(
            lambda: child, program, *values.args, env=env, cwd=values.cwd, start_new_session=True
        )
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise ConnectFailed(
            config.alias,
            "spawn",
            f"{values.command!r} cannot be started: {reason}",
            hint="check that it is executable",
        ) from error
    diagnostics.pid = transport.get_pid()
    reaper.watch(diagnostics.pid)
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
    more = (*CA_VARIABLES, *PROXIES)
    return get_default_environment() | {name: os.environ[name] for name in more if name in os.environ}


def _find_program(server: str, values: Resolved, env: dict[str, str]) -> str:
    assert values.command is not None
    if values.cwd is not None and not os.path.isdir(values.cwd):
        raise ConnectFailed(server, "spawn", f"the folder {values.cwd!r} (cwd) does not exist")
    command = os.path.expanduser(values.command)
    # Also next to our own interpreter, to find `uvx` in a virtual environment that is not activated.
    path = os.pathsep.join([env.get("PATH", os.defpath), os.path.dirname(sys.executable)])
    # A path is relative to the server's working directory; a bare name is searched on the PATH.
    located = (
        os.path.abspath(os.path.join(values.cwd or "", command)) if os.path.dirname(command) else command
    )
    if found := shutil.which(located, path=path):
        return found
    if os.path.isfile(located):
        raise ConnectFailed(server, "spawn", f"{command!r} is not executable", hint="run chmod +x on it")
    hint = misplaced_file(values) or "install it, or give its full path"
    if " " in command.strip():
        hint = "put the arguments into args, not command"
    raise ConnectFailed(server, "spawn", f"command {command!r} not found", hint=hint)


class _Child(asyncio.SubprocessProtocol):
    """The callbacks of one process: stdout goes to the peer, stderr to the diagnostics, its end to both."""

    def __init__(self, attempt: Attempt) -> None:
        self._redacted = attempt.values.redacted
        self._diagnostics = attempt.diagnostics
        self._warn = attempt.warn
        self._log = logger.getChild(f"stderr.{attempt.config.alias}")
        self._partial: list[bytes] = []
        self._partial_size = 0
        self._stderr_partial = b""
        self._writable = asyncio.Event()
        self._writable.set()
        self._stdin: asyncio.WriteTransport | None = None
        self._warn_timer: asyncio.TimerHandle | None = None
        self._first_skipped = ""
        self._flush_scheduled = False
        self._buffered: list[bytes] = []
        self.exited = asyncio.Event()
        self._stdout_ended = False
        self.peer = Peer("stdio", self._write, redacted=self._redacted, on_invalid=self._skip)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        process = cast(asyncio.SubprocessTransport, transport)
        self._process = process
        self._stdin = cast(asyncio.WriteTransport, process.get_pipe_transport(0))

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        self._diagnostics.mark_active()
        if fd == 1:
            self._read(data)
        else:
            *lines, self._stderr_partial = (self._stderr_partial + data).split(b"\n")
            self._stderr_partial = self._stderr_partial[-STDERR_WIDTH:]
            for line in lines:
                self._handle_stderr(line)

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:
        if fd == 1:
            self._stdout_ended = True
            self._disconnect("the server closed its output")
        elif fd == 2 and self._stderr_partial:
            self._handle_stderr(self._stderr_partial)
        elif fd == 0:
            self._writable.set()

    def process_exited(self) -> None:
        self._diagnostics.exit_code = self._process.get_returncode()
        self.exited.set()
        if not self._stdout_ended:
            # Output may still be in the pipe, which a grandchild may keep open forever.
            asyncio.get_running_loop().call_later(DRAIN_TIMEOUT, self._disconnect, "the server process ended")

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    def _read(self, data: bytes) -> None:
        if b"\n" not in data:
            self._partial.append(data)
            self._partial_size += len(data)
            if self._partial_size > MAX_MESSAGE_SIZE:
                self._partial.clear()
                self._disconnect(f"a message was larger than {MAX_MESSAGE_SIZE // 2**20} MiB")
            return
        first, *lines = data.split(b"\n")
        lines.insert(0, b"".join([*self._partial, first]))
        rest = lines.pop()
        self._partial, self._partial_size = [rest], len(rest)
        for line in lines:
            if line.strip():
                self.peer.feed(line)

    def _handle_stderr(self, line: bytes) -> None:
        text = self._redacted(line.decode(errors="replace").rstrip()[:STDERR_WIDTH])
        self._diagnostics.add_stderr(text)
        self._log.debug("%s", text)

    def _skip(self, nth: int, data: bytes) -> None:
        self._diagnostics.skipped = nth
        if nth == 1:
            self._first_skipped = self._redacted(data[:80].decode(errors="replace").strip())
            # Delayed, so that one warning can count the lines.
            self._warn_timer = asyncio.get_running_loop().call_later(WARN_DELAY, self.warn_skipped)

    def warn_skipped(self) -> None:
        """Warn once about output that was skipped."""
        if self._warn_timer is not None:
            self._warn_timer.cancel()
            self._warn_timer = None
            count = self._diagnostics.skipped
            lines, are = (
                ("a line", "is not a message") if count == 1 else (f"{count} lines", "are not messages")
            )
            self._warn(f"skipped {lines} on its standard output that {are}; first: {self._first_skipped!r}")

    def _disconnect(self, reason: str) -> None:
        self._diagnostics.mark_lost(reason)
        self.peer.close(reason)

    async def _write(
        self, data: bytes, headers: Mapping[str, str] | None = None, response: ResponseFuture | None = None
    ) -> None:
        assert self._stdin is not None
        if self._flush_scheduled:
            # Not the first message of this loop iteration: the others are sent in one write at its end.
            self._buffered += (data, b"\n")
        else:
            self._flush_scheduled = True
            asyncio.get_running_loop().call_soon(self._flush)
            self._stdin.write(data + b"\n")
            if self._stdin.is_closing():  # the pipe is broken: nothing was written
                raise WireError("the server closed its input", sent=False)
        if not self._writable.is_set():
            await self._writable.wait()

    def _flush(self) -> None:
        self._flush_scheduled = False
        if self._buffered and self._stdin is not None:
            self._stdin.write(b"".join(self._buffered))
            self._buffered.clear()


async def _terminate(transport: asyncio.SubprocessTransport, child: _Child, grace: _Grace) -> None:
    """End the process and its whole group in bounded time."""
    if stdin := transport.get_pipe_transport(0):
        stdin.close()
    pid = transport.get_pid()
    try:
        await _wait_at_most(grace.exit, child.exited.wait())
        if sys.platform == "win32":
            if not child.exited.is_set():
                transport.kill()
        else:
            # Also after a clean exit: the server's own children are in the group.
            for sign, seconds in ((signal.SIGTERM, grace.term), (signal.SIGKILL, REAP_GRACE)):
                if not _signal_group(pid, sign):
                    break
                await _wait_at_most(seconds, _wait_group_gone(pid))
        await _wait_at_most(REAP_GRACE, child.exited.wait())
    except asyncio.CancelledError:
        # The event loop itself is ending: kill at once.
        if sys.platform != "win32":
            _signal_group(pid, signal.SIGKILL)
        raise
    finally:
        if sys.platform != "win32" and not _signal_group(pid, 0):
            reaper.forget(pid)
        transport.close()


def _signal_group(pgid: int, sign: signal.Signals | Literal[0]) -> bool:
    """Signal the group; returns whether it has members left."""
    try:
        os.killpg(pgid, sign)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True  # a process is left that we may not signal
    return True


async def _wait_group_gone(pgid: int) -> None:
    # Polled, because the system does not report the end of a process group.
    while _signal_group(pgid, 0):  # noqa: ASYNC110
        await asyncio.sleep(POLL_INTERVAL)


async def _wait_at_most(seconds: float, wait: Coroutine[Any, Any, Any]) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await wait
