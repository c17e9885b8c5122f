"""A server as a child process: how it is started and ended. Imported without the SDK.

The process and its descendants are ended in bounded time: stdin is closed, then they get SIGTERM, then
SIGKILL. This applies even if only descendants of the server are left. Standard error goes to the diagnostics
and the log, never to the terminal. Standard output goes to the attached reader; earlier output is kept for
it.
"""

import asyncio
import logging
import os
import shutil
import sys
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from toolbus.config import Resolved, ServerConfig
from toolbus.config.secrets.redact import PROXIES
from toolbus.connect.opening.diagnostics import (
    STDERR_KEPT,
    STDERR_WIDTH,
    Diagnostics,
    misplaced_file,
    redacted_cause,
)
from toolbus.connect.transports.process.child import Child, Launch
from toolbus.connect.transports.process.start import StartTurn, start_child
from toolbus.core.loop import Flag
from toolbus.core.values.errors import ConnectFailed

logger = logging.getLogger("toolbus")

REAP_GRACE = 0.5
DRAIN_TIMEOUT = 0.2
"""Seconds in which the last output of a process that ended has to arrive."""
SAFE_VARIABLES = (
    (
        "APPDATA",
        "HOMEDRIVE",
        "HOMEPATH",
        "LOCALAPPDATA",
        "PATH",
        "PATHEXT",
        "PROCESSOR_ARCHITECTURE",
        "SYSTEMDRIVE",
        "SYSTEMROOT",
        "TEMP",
        "USERNAME",
        "USERPROFILE",
    )
    if sys.platform == "win32"
    else ("HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER")
)
"""The variables that the SDK also passes to every server."""
CA_VARIABLES = ("SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS", "REQUESTS_CA_BUNDLE")
"""Paths, not secrets; behind a company's CA, `npx` and `uvx` cannot download anything without them."""

_SIGNALED = {128 + number: -number for number in range(1, 32)}
"""The exit codes with which bubblewrap reports that a signal ended the server."""


@dataclass(frozen=True, slots=True)
class Grace:
    """The time that a process gets to end."""

    exit: float
    """Seconds for the server to exit after its stdin is closed."""
    term: float
    """Seconds for the group to end after SIGTERM."""


NORMAL_GRACE = Grace(exit=1.5, term=1.0)
SHORT_GRACE = Grace(exit=0.3, term=0.3)
"""For a server that was never used."""


class ServerProcess:
    """One process of a server. Its starter ends it, or hands it to someone who does."""

    def __init__(self, config: ServerConfig, values: Resolved, diagnostics: Diagnostics) -> None:
        self._config = config
        self._values = values
        self._diagnostics = diagnostics
        self._log = logger.getChild(f"stderr.{config.alias}")
        self._spawning: asyncio.Task[Child] | None = None
        self._ending: asyncio.Task[None] | None = None
        self._confining: asyncio.Task[Launch] | None = None
        self._exited = Flag()
        self._ended_by_us = False
        self._turn: StartTurn | None = None
        self._stdout_ended = False
        self._unread: list[bytes] = []
        self._on_output: Callable[[bytes], None] = self._unread.append
        self._on_lost: Callable[[str], None] | None = None
        self._on_full: Callable[[], None] | None = None
        self._child: Child | None = None
        self._stderr_partial = b""
        self.stdin: asyncio.WriteTransport | None = None
        self.writable = Flag()
        """Cleared while its input takes no more."""
        self.writable.set()

    # For its owner

    def begin(self) -> None:
        """Begin to start it, if that has not begun yet; failures are reported by `start`."""
        if self._spawning is None:
            self._spawning = asyncio.get_running_loop().create_task(self._spawn())

    def begin_in_turn(self) -> StartTurn:
        """Begin to start it when it is its turn; `end_turn` passes that on to the next one."""
        self._turn = self._turn or StartTurn(self._diagnostics)
        self.begin()
        return self._turn

    def end_turn(self) -> None:
        """It is connected, or never will be."""
        if self._turn is not None:
            self._turn.end()

    async def start(self) -> None:
        """Wait until it is started; raises `ConnectFailed`."""
        self.begin()
        assert self._spawning is not None
        # Shielded: a caller who is cancelled must not leave a process behind; `end` waits for it.
        await asyncio.shield(self._spawning)

    async def wait_spawned(self) -> None:
        """Wait until it is started or has failed to start; never raises."""
        if self._spawning is not None:
            await asyncio.wait({self._spawning})

    def attach(
        self,
        on_output: Callable[[bytes], None],
        on_lost: Callable[[str], None],
        on_full: Callable[[], None],
    ) -> None:
        """Pass on its output from the first byte, why it is lost, and that its input is full."""
        self._on_output, self._on_lost, self._on_full = on_output, on_lost, on_full
        unread, self._unread = self._unread, []
        for data in unread:
            on_output(data)
        if self._diagnostics.lost is not None:
            on_lost(self._diagnostics.lost)

    def disconnect(self, reason: str) -> None:
        """Record that it can no longer be used; the first reason counts."""
        self._diagnostics.mark_lost(reason)
        if self._on_lost is not None:
            self._on_lost(reason)
        self.writable.set()  # those who wait for it fail

    @property
    def lost(self) -> str | None:
        return self._diagnostics.lost

    def unread(self) -> int:
        return 0 if self._child is None else self._child.unread

    async def end(self, grace: Grace = SHORT_GRACE) -> None:
        """End its whole group in bounded time, at once if the caller is cancelled; any number of times."""
        if self._spawning is None:
            return
        if self._ending is None:
            is_broken = self.stdin is not None and self.stdin.is_closing()
            self._ended_by_us = not (self._stdout_ended or self._exited.is_set() or is_broken)
            self._ending = asyncio.get_running_loop().create_task(self._end(self._spawning, grace))
        try:
            await asyncio.wait({self._ending})
        except asyncio.CancelledError:
            self._ending.cancel()
            await asyncio.wait({self._ending})
            raise
        if not self._ending.cancelled():
            self._ending.result()

    async def _end(self, spawning: "asyncio.Task[Child]", grace: Grace) -> None:
        if self._confining is not None:
            self._confining.cancel()  # its package is being installed, which may take long
        self.end_turn()
        with suppress(ConnectFailed):
            await _terminate(await spawning, self._exited, grace)

    async def _spawn(self) -> Child:
        config, values, diagnostics = self._config, self._values, self._diagnostics
        if self._turn is not None:
            await self._turn.wait()
            if self._ending is not None:
                raise ConnectFailed(config.alias, "spawn", "it was closed before it was its turn to start")
        if config.sandbox is not None:
            launch = await self._confined()
        else:
            env = _environment(config, values)
            launch = Launch(command=[self._find_program(env), *values.args], env=env, folder=values.cwd)
        try:
            child = await start_child(self, launch)
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or type(error).__name__
            cause = f"{values.redacted(values.command or '')!r} cannot be started: {reason}"
            failure = ConnectFailed(config.alias, "spawn", cause, hint="check that it is executable")
            failure.__cause__ = redacted_cause(error, values.redacted)
        else:
            self._child, self.stdin = child, child.stdin
            diagnostics.pid = child.pid
            return child
        raise failure  # not in the clause above, which would make the original its context

    def _find_program(self, env: dict[str, str]) -> str:
        self._diagnostics.passed = tuple(env)
        return _find_program(self._config.alias, self._values, env)

    async def _confined(self) -> Launch:
        # Here, because every program that uses a server would wait for these imports.
        from toolbus.connect.sandbox.confine import confined, refuse_container
        from toolbus.connect.sandbox.files import inside_environment

        config, diagnostics = self._config, self._diagnostics
        env = inside_environment(config, self._values)
        refuse_container(config.alias, self._values.command or "")  # before it is missed
        program = self._find_program(env)
        work = confined(config, self._values, program, env, diagnostics, self._handle_stderr_data)
        self._confining = asyncio.get_running_loop().create_task(work)
        try:
            await asyncio.wait({self._confining})
            if self._confining.cancelled():
                raise ConnectFailed(
                    config.alias, "spawn", "its package was being installed when it was closed"
                )
            return self._confining.result()
        finally:
            self._confining = None

    # As `ChildEvents`

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        self._diagnostics.mark_active()
        if fd == 1:
            self._on_output(data)
        else:
            self._handle_stderr_data(data)

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:
        if fd == 1:
            self._stdout_ended = True
            self.disconnect("the server closed its output")
        elif fd == 2 and self._stderr_partial:
            self._handle_stderr(self._stderr_partial)
        elif fd == 0 and self._ending is None:
            # A moment later: a server that ends closes everything, and then its output tells more.
            asyncio.get_running_loop().call_later(
                DRAIN_TIMEOUT, self.disconnect, "the server closed its input"
            )

    def process_exited(self, code: int | None) -> None:
        if self._config.sandbox is not None and code in _SIGNALED:
            code = _SIGNALED[code]
        if not self._ended_by_us:
            self._diagnostics.exit_code = code
        self.end_turn()
        self._exited.set()
        if not self._stdout_ended:
            # Output may still be in the pipe, which a grandchild may keep open forever.
            asyncio.get_running_loop().call_later(DRAIN_TIMEOUT, self.disconnect, "the server process ended")

    def pause_writing(self) -> None:
        self.writable.clear()
        if self._on_full is not None:
            self._on_full()

    def resume_writing(self) -> None:
        self.writable.set()

    def _handle_stderr_data(self, data: bytes) -> None:
        *lines, self._stderr_partial = (self._stderr_partial + data).split(b"\n")
        self._stderr_partial = self._stderr_partial[:STDERR_KEPT]
        for line in lines:
            self._handle_stderr(line)

    def _handle_stderr(self, line: bytes) -> None:
        text = self._values.redacted.head(line.decode(errors="replace").rstrip(), STDERR_WIDTH)
        self._diagnostics.add_stderr(text)
        self._log.debug("%s", text)


def _environment(config: ServerConfig, values: Resolved) -> dict[str, str]:
    match config.inherit_env:
        case "safe":
            base = safe_environment()
        case "all":
            base = dict(os.environ)
        case "none":
            base = dict[str, str]()
        case names:
            base = safe_environment() | {n: os.environ[n] for n in names if n in os.environ}
    return base | dict(values.env)


def safe_environment() -> dict[str, str]:
    """The variables of our environment that every server gets."""
    names = (*SAFE_VARIABLES, *CA_VARIABLES, *PROXIES)
    found = {name: os.environ[name] for name in names if name in os.environ}
    # An exported shell function would be run by the server's shell.
    return {name: value for name, value in found.items() if not value.startswith("()")}


def _find_program(server: str, values: Resolved, env: dict[str, str]) -> str:
    assert values.command is not None
    if values.cwd is not None and not os.path.isdir(values.cwd):
        folder = values.redacted(values.cwd)
        raise ConnectFailed(server, "spawn", f"the folder {folder!r} (cwd) does not exist")
    command = os.path.expanduser(values.command)
    # Also next to our own interpreter, to find `uvx` in a virtual environment that is not activated.
    path = os.pathsep.join([env.get("PATH", os.defpath), os.path.dirname(sys.executable)])
    # A path is relative to the server's working directory; a bare name is searched on the PATH.
    located = (
        os.path.abspath(os.path.join(values.cwd or "", command)) if os.path.dirname(command) else command
    )
    if found := shutil.which(located, path=path):
        return found
    shown = values.redacted(command)
    if os.path.isfile(located):
        raise ConnectFailed(server, "spawn", f"{shown!r} is not executable", hint="run chmod +x on it")
    hint = misplaced_file(values) or "install it, or give its full path"
    if " " in command.strip():
        hint = "put the arguments into args, not command"
    raise ConnectFailed(server, "spawn", f"command {shown!r} not found", hint=hint)


async def _terminate(child: Child, exited: Flag, grace: Grace) -> None:
    # What is still queued is dropped: a server that does not read it would not see the end either.
    child.stdin.abort() if child.stdin.get_write_buffer_size() else child.stdin.close()
    try:
        await _wait_at_most(grace.exit, exited.wait())
        # Also after a clean exit: its descendants may still run.
        for end, seconds in ((child.terminate, grace.term), (child.kill, REAP_GRACE)):
            if not end():
                break
            await _wait_at_most(seconds, child.wait_gone())
        await _wait_at_most(REAP_GRACE, exited.wait())
    except asyncio.CancelledError:
        if child.kill():  # at once: the time is over, or the event loop itself is ending
            await _wait_at_most(REAP_GRACE, child.wait_gone())
        raise
    finally:
        child.close()


async def _wait_at_most(seconds: float, wait: Coroutine[Any, Any, Any]) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await wait
