"""A process that has made the imports forks the programs that are asked for.

One loop does it all, without threads, so that a fork is safe. A program whose connection goes is killed; all
of them are when our input ends, and the folder of the address is removed.
"""

import fcntl
import marshal
import os
import select
import shutil
import signal
import socket
import sys
import termios
import traceback
from collections.abc import Callable
from contextlib import suppress
from io import BufferedReader, BufferedWriter, FileIO, TextIOWrapper
from typing import Any

Start = Callable[[list[str]], None]
"""Be the program of these words."""


class Program:
    """One that runs: who asked for it, and how its end is seen."""

    def __init__(self, connection: socket.socket, pid: int, home_file: str, home: str) -> None:
        self.connection = connection
        self.pid = pid
        self.ended = os.pidfd_open(pid)
        self._home_file = home_file
        with open(home_file, "w") as file:
            file.write(home)
        self.tell(pid)

    def end(self) -> None:
        """Kill it if it has not ended, and tell the exit code."""
        if not select.select([self.ended], [], [], 0)[0]:
            os.kill(self.pid, signal.SIGKILL)
        code = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        os.close(self.ended)
        os.unlink(self._home_file)
        self.tell(code)
        self.connection.close()

    def tell(self, number: int) -> None:
        """Send a number, unless the client is gone."""
        with suppress(OSError):
            self.connection.sendall(number.to_bytes(4, "big", signed=True))


def serve(address: str, start: Start) -> None:
    """Fork the requested programs, until our input ends."""
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(address)
    listening.listen(100)
    print("listening", os.getpid(), flush=True)
    homes = os.path.join(os.path.dirname(address), "homes")
    running: list[Program] = []
    while True:
        ready, _, _ = select.select(
            [0, listening, *(p.connection for p in running), *(p.ended for p in running)], [], []
        )
        if 0 in ready:
            break
        if listening in ready:
            connection, _ = listening.accept()
            request, streams = _received(connection)
            pid = os.fork()
            if pid == 0:
                _close(listening, connection, *(p.connection for p in running), *(p.ended for p in running))
                os._exit(_run(request, streams, start))
            _close(*streams)
            home = request["env"].get("HOME", "")
            running.append(Program(connection, pid, os.path.join(homes, str(pid)), home))
        for program in list(running):
            if program.ended in ready or program.connection in ready:
                program.end()
                running.remove(program)
    for program in running:
        program.end()
    shutil.rmtree(os.path.dirname(address), ignore_errors=True)


def _close(*descriptors: int | socket.socket) -> None:
    for descriptor in descriptors:
        os.close(descriptor if isinstance(descriptor, int) else descriptor.detach())


def _received(connection: socket.socket) -> tuple[dict[str, Any], list[int]]:
    size, streams, _, _ = socket.recv_fds(connection, 4, 3)
    body = connection.recv(int.from_bytes(size, "big"), socket.MSG_WAITALL)
    return marshal.loads(body), streams


def _run(request: dict[str, Any], streams: list[int], start: Start) -> int:
    """Be the program; returns its exit code."""
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["env"])
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    if request["in_terminal"]:
        os.setsid()
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)  # so that Ctrl-C becomes a signal
    stdin, stdout, stderr = (FileIO(number, "w" if number else "r", closefd=False) for number in range(3))
    sys.stdin = TextIOWrapper(BufferedReader(stdin), line_buffering=os.isatty(0))
    sys.stdout = TextIOWrapper(BufferedWriter(stdout), line_buffering=os.isatty(1))
    sys.stderr = TextIOWrapper(BufferedWriter(stderr), errors="backslashreplace", line_buffering=True)
    code: Any = 0
    try:
        start(request["words"])
    except SystemExit as end:
        code = end.code
        if isinstance(code, str):
            print(code, file=sys.stderr)
            code = 1
    except BaseException:  # as the interpreter does at the end of a program
        traceback.print_exc()
        code = 1
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            code = code or 120  # as the interpreter does
    return code or 0
