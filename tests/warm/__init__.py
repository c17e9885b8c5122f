"""Programs without their imports: a process that has made them forks one for each.

Most of what a short command or a test server costs is the import of the SDK, a second each time. A program
of this kind is a process of its own, with the streams, the folder and the environment that it is given; only
its imports were made before. There are two: `toolbus`, and `python` with a script, `-c` and code, or `-m`
and a module.

`process.py` is the process that forks them, by `forking.py`. `standin.py` is the command line of such a
program, for whoever has to start one by a command; `folder()` has it under the names `toolbus` and `python`,
for a PATH. In the same way `workers.py` collects the tests once, and forks pytest's workers.
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
from functools import cache
from pathlib import Path
from subprocess import CompletedProcess, TimeoutExpired

from tests.processes import keeping
from tests.warm.standin import ask, received

HERE = Path(__file__).parent
STAND_IN = f"import sys; sys.path.append({str(HERE)!r}); import standin; standin.main()"


@cache
def folder() -> Path:
    """A folder with the programs `toolbus` and `python`; starts the process, which ends with this one."""
    return _serving("tests.warm.process")


def worker(arguments: Sequence[str]) -> str:
    """The `python` of pytest's workers, which are forked once the tests of these arguments are collected."""
    return str(_serving("tests.warm.workers", *arguments) / "python")


def _serving(module: str, *words: str) -> Path:
    """Start a process that forks; returns the folder of its programs."""
    place = Path(tempfile.mkdtemp(prefix="warm-"))  # the process removes it when it ends
    bin_folder, address = place / "bin", str(place / "socket")
    bin_folder.mkdir()
    (place / "homes").mkdir()
    for program in ("toolbus", "python"):
        stand_in = shlex.join([sys.executable, "-I", "-S", "-c", STAND_IN, address, program])
        cold = f'[ "$1" != -I ] || exec {sys.executable} "$@"' if program == "python" else ""
        (bin_folder / program).write_text(f'#!/bin/sh\n{cold}\nexec {stand_in} "$@"\n')
        (bin_folder / program).chmod(0o755)
    with keeping():
        # It ends when nobody holds the other end of its input any more.
        process = subprocess.Popen(
            [sys.executable, "-m", module, address, *words],
            cwd=HERE.parents[1],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
    atexit.register(process.communicate)
    assert process.stdout is not None
    assert process.stdout.readline() == b"listening\n"
    return bin_folder


def python() -> str:
    """The warm `python`."""
    return str(folder() / "python")


def toolbus() -> str:
    """The warm `toolbus`."""
    return str(folder() / "toolbus")


def homes() -> dict[int, str]:
    """The homes of the programs that run; that of a fork cannot be seen in the process table."""
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
        self._connection.connect(str(folder().parent / "socket"))
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
