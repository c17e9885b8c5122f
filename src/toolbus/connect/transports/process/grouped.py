"""A server as a process group: how a process starts and ends where there is no guard.

It is used on macOS, on Windows, and in programs that cannot start a Python interpreter. A descendant that
made a session of its own has left the group, and is not ended.

If this process dies without cleaning up (SIGKILL, `os._exit`, a crash), a shell kills the remaining servers.
It reads the process groups to watch from a pipe, and acts when the pipe breaks. One shell serves the whole
process, from before the first server until the last bus has closed. A server announces itself: the shell that
starts it holds the pipe until it has written its own number. So the pipe cannot break earlier.
"""

import asyncio
import os
import signal
import sys
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from typing import Literal, cast

from toolbus.connect.forks import detach_after_fork
from toolbus.connect.transports.process.child import (
    FILTER_FD,
    ChildEvents,
    HelperProcess,
    Launch,
    unread_bytes,
)

LAST_DIGIT = 9
"""The last descriptor that every shell can redirect."""

SCRIPT = """
cd /
left=
while read -r sign group; do
  case $sign in
    +) left="$left $group" ;;
    -) kept=; for g in $left; do [ "$g" = "$group" ] || kept="$kept $g"; done; left=$kept ;;
  esac
done
[ -n "$left" ] || exit 0
for g in $left; do kill -TERM "-$g" 2>/dev/null; done
sleep 1
for g in $left; do kill -KILL "-$g" 2>/dev/null; done
"""


class Reaper(HelperProcess):
    """Starts the shell, and sends it the process groups to watch."""

    def announcing(self, command: Sequence[str]) -> tuple[Sequence[str], tuple[int, ...]]:
        """The command for a process that announces its group itself, and the descriptors it inherits.

        The command alone if this process has too many files open: call `watch` once it is started.
        """
        if sys.platform == "win32":
            return command, ()
        with self._lock:
            self._ensure_running()
            if self._fd > LAST_DIGIT:
                return command, ()
            self._watched += 1
            announce = f'echo "+ $$" >&{self._fd}; exec {self._fd}>&-; exec "$@"'
            return ("/bin/sh", "-c", announce, "sh", *command), (self._fd,)

    def watch(self, group: int) -> None:
        """Kill this process group if this process dies first."""
        self._watched += 1
        self._send(f"+ {group}\n")

    def forget(self, group: int) -> None:
        """Stop watching a group that has ended; the system may reuse its number."""
        self._watched -= 1
        self._send(f"- {group}\n")

    def _send(self, line: str) -> None:
        if sys.platform == "win32":
            return
        with self._lock:
            self._ensure_running()
            # If the shell was killed just now, no call fails; the next group starts another shell.
            with suppress(OSError):
                os.write(self._fd, line.encode())

    def _ensure_running(self) -> None:
        if not self._is_running():
            self._close()
            read_end, self._fd = os.pipe()
            try:
                self._spawn(["/bin/sh", "-c", SCRIPT], {"PATH": os.defpath}, read_end)
            finally:
                os.close(read_end)

    def _is_running(self) -> bool:
        # After a fork the shell belongs to the parent: its pipe would not break when this process dies.
        if self._owner != os.getpid() or self._fd < 0:
            return False
        try:
            return os.waitpid(self._pid, os.WNOHANG) == (0, 0)
        except ChildProcessError:
            return False


reaper = Reaper()


POLL_INTERVAL = 0.01


class GroupedProcess:
    """A server in a process group of its own; `spawn_grouped` makes it."""

    def __init__(self, transport: asyncio.SubprocessTransport) -> None:
        self._transport = transport
        self.pid: int = transport.get_pid()
        """The process ID, which is also the number of its group."""

    @property
    def stdin(self) -> asyncio.WriteTransport:
        return cast(asyncio.WriteTransport, self._transport.get_pipe_transport(0))

    @property
    def unread(self) -> int:
        pipes = self.fds()
        is_open = pipes and not self.stdin.is_closing()
        return unread_bytes(pipes[0]) + self.stdin.get_write_buffer_size() if is_open else 0

    def terminate(self) -> bool:
        return self._kill_process() if sys.platform == "win32" else _signal_group(self.pid, signal.SIGTERM)

    def kill(self) -> bool:
        return self._kill_process() if sys.platform == "win32" else _signal_group(self.pid, signal.SIGKILL)

    def _kill_process(self) -> bool:
        if self._transport.get_returncode() is None:
            self._transport.kill()
        return False

    async def wait_gone(self) -> None:
        # Polled, because the system does not report the end of a process group.
        while _signal_group(self.pid, 0):  # noqa: ASYNC110
            await asyncio.sleep(POLL_INTERVAL)

    def close(self) -> None:
        if sys.platform != "win32" and not _signal_group(self.pid, 0):
            reaper.forget(self.pid)
        self._transport.close()

    def fds(self) -> list[int]:
        found: list[int] = []
        for transport in map(self._transport.get_pipe_transport, range(3)):
            with suppress(ValueError):  # it is closed
                if transport is not None and (pipe := transport.get_extra_info("pipe")):
                    found.append(pipe.fileno())
        return found


class _Forwarding(asyncio.SubprocessProtocol):
    """Passes on what asyncio reports of a process."""

    def __init__(self, events: ChildEvents) -> None:
        self._events = events
        self.pipe_data_received = events.pipe_data_received
        self.pipe_connection_lost = events.pipe_connection_lost
        self.pause_writing = events.pause_writing
        self.resume_writing = events.resume_writing

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.SubprocessTransport, transport)

    def process_exited(self) -> None:
        self._events.process_exited(self._transport.get_returncode())


async def spawn_grouped(events: ChildEvents, launch: Launch) -> GroupedProcess:
    """Start a server in a process group of its own; raises OSError if it cannot start."""
    with ExitStack() as opened:
        command, filters = _with_filter(launch, opened)
        announcing, inherited = reaper.announcing(command)
        transport, _ = await asyncio.get_running_loop().subprocess_exec(
            lambda: _Forwarding(events),
            *announcing,
            env=launch.env,
            cwd=launch.folder,
            start_new_session=True,
            pass_fds=(*inherited, *filters),
        )
    process = GroupedProcess(transport)
    if not inherited:
        reaper.watch(process.pid)
    detach_after_fork(process)
    return process


def _with_filter(launch: Launch, opened: ExitStack) -> tuple[Sequence[str], tuple[int, ...]]:
    """The command for a process that finds its filter of system calls, and the descriptor it inherits."""
    if not launch.syscall_filter:
        return launch.command, ()
    read_end, write_end = os.pipe()
    opened.callback(os.close, read_end)
    os.write(write_end, launch.syscall_filter)
    os.close(write_end)
    # By path: not every shell can redirect a descriptor of two digits.
    redirect = f'exec "$@" {FILTER_FD}</dev/fd/{read_end}'
    return ("/bin/sh", "-c", redirect, "sh", *launch.command), (read_end,)


def _signal_group(pgid: int, sign: signal.Signals | Literal[0]) -> bool:
    """Signal the group; returns whether it has members left."""
    try:
        os.killpg(pgid, sign)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True  # a process is left that we may not signal
    return True
