"""Commands without their imports: a process that has made them forks one for each command.

Most of what a short command costs is the import of the SDK, a second each time. A command of this kind is a
process of its own, with the streams, the folder and the environment that it is given, in which the program's
`main` runs; only the imports were made before.
"""

import os
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from io import BufferedReader, BufferedWriter, FileIO, TextIOWrapper
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from subprocess import CompletedProcess, TimeoutExpired

_context = get_context("forkserver")
_context.set_forkserver_preload(["toolbus.cli.app", "toolbus.connect.session", "toolbus.agent", __name__])


def warm_up() -> None:
    """Start the process that the others come from; it ends with this one."""
    first = _context.Process(target=len, args=("",))
    first.start()
    first.join()


def warm(
    words: Sequence[str], folder: Path, env: Mapping[str, str], typed: str, seconds: float
) -> CompletedProcess[str]:
    """Run `toolbus` with these words to its end, as `subprocess.run` would."""
    (its_in, keys), (out, its_out), (err, its_err) = (_context.Pipe(duplex=False) for _ in range(3))
    process = _context.Process(target=_command, args=(words, folder, dict(env), (its_in, its_out, its_err)))
    process.start()
    for its in (its_in, its_out, its_err):
        its.close()
    with ThreadPoolExecutor(3) as pool:
        pool.submit(_type, keys, typed)
        written = [pool.submit(_all, stream) for stream in (out, err)]
        process.join(seconds)
        if process.exitcode is None:
            process.kill()
            raise TimeoutExpired(["toolbus", *words], seconds)
        return CompletedProcess(["toolbus", *words], process.exitcode, *(text.result() for text in written))


def _type(stream: Connection, text: str) -> None:
    with stream, open(stream.fileno(), "w", closefd=False) as file, suppress(BrokenPipeError):
        file.write(text)


def _all(stream: Connection) -> str:
    with stream, open(stream.fileno(), closefd=False) as file:
        return file.read()


def _command(
    words: Sequence[str], folder: Path, env: Mapping[str, str], streams: Sequence[Connection]
) -> None:
    from toolbus.cli.app import main

    os.chdir(folder)
    os.environ.clear()
    os.environ.update(env)
    for number, stream in enumerate(streams):
        os.dup2(stream.fileno(), number)
        stream.close()
    sys.stdin = TextIOWrapper(BufferedReader(FileIO(0)))
    sys.stdout = TextIOWrapper(BufferedWriter(FileIO(1, "w")))
    sys.stderr = TextIOWrapper(BufferedWriter(FileIO(2, "w")), errors="backslashreplace", line_buffering=True)
    sys.argv = ["toolbus", *words]
    main()
