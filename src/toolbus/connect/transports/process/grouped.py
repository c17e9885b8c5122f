"""A server as a process group: how a process starts and ends where there is no guard.

On macOS, on Windows, and in programs that cannot start a Python interpreter. A descendant that made a
session of its own has left the group, and is not ended.
"""

import asyncio
import os
import signal
import sys
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from typing import Literal, cast

from toolbus.connect.forks import detach_after_fork
from toolbus.connect.transports.process.child import FILTER_FD, ChildEvents, Launch, unread_bytes
from toolbus.connect.transports.process.reaper import reaper

POLL_INTERVAL = 0.01


class GroupedProcess:
    """A server in a process group of its own; `spawn_grouped` makes it."""

    def __init__(self, transport: asyncio.SubprocessTransport) -> None:
        self._transport = transport
        self.pid: int = transport.get_pid()
        """Also the number of its group."""

    @property
    def stdin(self) -> asyncio.WriteTransport:
        """Its input."""
        return cast(asyncio.WriteTransport, self._transport.get_pipe_transport(0))

    @property
    def unread(self) -> int:
        """How many bytes of its input it has not read, as far as the system reports it."""
        pipes = self.fds()
        is_open = pipes and not self.stdin.is_closing()
        return unread_bytes(pipes[0]) + self.stdin.get_write_buffer_size() if is_open else 0

    def terminate(self) -> bool:
        """Ask the group to end; returns whether any may be left."""
        return self._kill_process() if sys.platform == "win32" else _signal_group(self.pid, signal.SIGTERM)

    def kill(self) -> bool:
        """Kill the group; returns whether any may be left."""
        return self._kill_process() if sys.platform == "win32" else _signal_group(self.pid, signal.SIGKILL)

    def _kill_process(self) -> bool:
        if self._transport.get_returncode() is None:
            self._transport.kill()
        return False

    async def wait_gone(self) -> None:
        """Wait until none is left."""
        # Polled, because the system does not report the end of a process group.
        while _signal_group(self.pid, 0):  # noqa: ASYNC110
            await asyncio.sleep(POLL_INTERVAL)

    def close(self) -> None:
        """Close its pipes."""
        if sys.platform != "win32" and not _signal_group(self.pid, 0):
            reaper.forget(self.pid)
        self._transport.close()

    def fds(self) -> list[int]:
        """The descriptors that a fork must not keep."""
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
