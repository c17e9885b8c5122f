"""Programs without their imports: a process that has made them forks one for each.

Most of the cost of a short command or a test server is the import of the SDK, a second each time. A program
of this kind is a process of its own, with its own streams, folder and environment; only its imports were made
before. There are two: `toolbus`, and `python` with a script, `-c` and code, or `-m` and a module.

`process.py` is the process that has made the imports, one for all of pytest's workers. It forks another for
each of them, and that one forks the programs, by `forking.py`. `standin.py` is the command line of such a
program, for tests that have to start one by a command. `folder()` has it under the names `toolbus` and
`python`, for a PATH. In the same way `workers.py` collects the tests once, and forks pytest's workers.
"""

import atexit
import os
import shlex
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cache, cached_property
from pathlib import Path
from subprocess import CompletedProcess, TimeoutExpired
from typing import IO

from tests.processes import adopt, keeping
from tests.warm.standin import ask, received

HERE = Path(__file__).parent
STAND_IN = f"import sys; sys.path.append({str(HERE)!r}); import standin; standin.main()"


class Forking:
    """A process that forks programs; it may still be starting. It ends when its input is closed."""

    def __init__(self, place: Path, stdin: IO[bytes], stdout: IO[bytes]) -> None:
        self._place = place
        self._stdin = stdin
        self._stdout = stdout
        atexit.register(self._end)

    def _end(self) -> None:
        self._stdin.close()
        self._stdout.read()  # until it is gone

    @cached_property
    def pid(self) -> int:
        """Its process, once it listens."""
        listening, pid = self._stdout.readline().split()
        assert listening == b"listening"
        return int(pid)

    @property
    def programs(self) -> Path:
        """The folder of its programs, once it listens."""
        assert self.pid
        return self._place / "bin"

    @property
    def address(self) -> str:
        """Its address, once it listens."""
        assert self.pid
        return _address(self._place)


def _new_place(python: str = sys.executable) -> Path:
    """A folder for a process that forks, with its programs; the process removes it when it ends."""
    place = Path(tempfile.mkdtemp(prefix="warm-"))
    (place / "bin").mkdir()
    (place / "homes").mkdir()
    for program in ("toolbus", "python"):
        stand_in = shlex.join([sys.executable, "-I", "-S", "-c", STAND_IN, _address(place), program])
        cold = f'[ "$1" != -I ] || exec {python} "$@"' if program == "python" else ""
        file = place / "bin" / program
        file.write_text(f'#!/bin/sh\n{cold}\nexec {stand_in} "$@"\n')
        file.chmod(0o755)
    return place


def _address(place: Path) -> str:
    return str(place / "socket")


def _started(module: str, *words: str, python: str = sys.executable) -> Forking:
    place = _new_place(python)
    command = [python, "-m", module, _address(place), *words]
    with keeping():
        process = subprocess.Popen(
            command, cwd=HERE.parents[1], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
    atexit.register(process.wait)
    assert process.stdin is not None
    assert process.stdout is not None
    return Forking(place, process.stdin, process.stdout)


def worker(arguments: Sequence[str]) -> str:
    """The `python` of pytest's workers, which are forked once the tests of these arguments are collected."""
    return str(_started("tests.warm.workers", *arguments).programs / "python")


@cache
def prepared(python: str = sys.executable) -> Forking:
    """The process that makes the imports; the first call starts it, with the Python of an environment."""
    return _started("tests.warm.process", python=python)


_shared: list[str] = []


def share(address: str) -> None:
    """Use the process at this address, which has made the imports, instead of starting one."""
    _shared.append(address)


@cache
def _forked() -> Forking:
    """A fork of the process that has made the imports, for the programs of this process."""
    place = _new_place()
    first = _shared[0] if _shared else prepared().address
    (its_in, stdin), (stdout, its_out) = os.pipe(), os.pipe()
    forking = Forking(place, os.fdopen(stdin, "wb"), os.fdopen(stdout, "rb"))
    words = ["forking", _address(place)]
    with keeping(), socket.socket(socket.AF_UNIX) as connection:
        connection.connect(first)
        ask(connection, words, str(HERE.parents[1]), os.environ, (its_in, its_out, 2))
        os.close(its_in)
        os.close(its_out)
        adopt(forking.pid)
    return forking


def folder() -> Path:
    """A folder with the programs `toolbus` and `python`; what forks them ends with this process."""
    return _forked().programs


def python() -> str:
    """The warm `python`."""
    return str(folder() / "python")


def toolbus() -> str:
    """The warm `toolbus`."""
    return str(folder() / "toolbus")


def homes() -> dict[int, str]:
    """The homes of the running programs; a fork's home cannot be seen in the process table."""
    found: dict[int, str] = {}
    for file in (folder().parent / "homes").iterdir():
        with suppress(OSError):  # it ended while we looked
            found[int(file.name)] = file.read_text()
    return found


class Running:
    """A program under way, with the methods of `subprocess.Popen` that the tests need."""

    def __init__(
        self,
        program: str,
        words: Sequence[str],
        cwd: Path,
        env: Mapping[str, str],
        streams: tuple[int, int, int],
        *,
        in_terminal: bool = False,
    ) -> None:
        self._args = [program, *words]
        self._connection = socket.socket(socket.AF_UNIX)
        self._connection.connect(_forked().address)
        ask(self._connection, self._args, str(cwd), env, streams, in_terminal=in_terminal)
        self.pid = received(self._connection)
        self.returncode: int | None = None

    def wait(self, timeout: float) -> int:
        """The exit code, negative for a signal."""
        if self.returncode is None:
            self._connection.settimeout(timeout)
            try:
                self.returncode = received(self._connection)
            except TimeoutError:
                raise TimeoutExpired(self._args, timeout) from None
            self._connection.close()
        return self.returncode

    def poll(self) -> int | None:
        """The exit code, if it has ended."""
        with suppress(TimeoutExpired):
            self.wait(0.001)
        return self.returncode

    def send_signal(self, number: int) -> None:
        """Send it a signal, if it has not ended."""
        if self.returncode is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def terminate(self) -> None:
        """Ask it to end."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """End it, if it has not ended by itself."""
        self.send_signal(signal.SIGKILL)


def start(program: str, words: Sequence[str], cwd: Path, env: Mapping[str, str], log: Path) -> Running:
    """A program that goes on, without input; all that it prints is in the log."""
    with log.open("wb") as output, open(os.devnull, "rb") as nothing:
        streams = nothing.fileno(), output.fileno(), output.fileno()
        return Running(program, words, cwd, env, streams)


def run(
    program: str, words: Sequence[str], cwd: Path, env: Mapping[str, str], typed: str, seconds: float
) -> CompletedProcess[str]:
    """Run a program to its end, as `subprocess.run` would."""
    (its_in, keys), (out, its_out), (err, its_err) = os.pipe(), os.pipe(), os.pipe()
    process = Running(program, words, cwd, env, (its_in, its_out, its_err))
    for its in (its_in, its_out, its_err):
        os.close(its)
    with ThreadPoolExecutor(3) as pool:
        pool.submit(_type, keys, typed)
        written = [pool.submit(_all, stream) for stream in (out, err)]
        try:
            code = process.wait(seconds)
        except TimeoutExpired:
            process.kill()
            raise
        return CompletedProcess([program, *words], code, *(text.result() for text in written))


def _type(stream: int, text: str) -> None:
    with suppress(BrokenPipeError), open(stream, "w") as file:
        file.write(text)


def _all(stream: int) -> str:
    with open(stream) as file:
        return file.read()
