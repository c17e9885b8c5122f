"""The process that has made the imports, and forks the programs. Run by `tests.warm`.

One loop does it all, without threads, so that a fork is safe. A program whose connection goes is killed; all
of them are when our input ends.
"""

import ctypes
import fcntl
import gc
import logging
import marshal
import os
import runpy
import select
import signal
import socket
import sys
import termios
import traceback
import warnings
from contextlib import suppress
from functools import cache
from importlib import import_module
from importlib.metadata import version
from io import BufferedReader, BufferedWriter, FileIO, TextIOWrapper
from pkgutil import walk_packages
from typing import Any

IMPORTED = (
    "sqlite3",
    "encodings.utf_8_sig",
    "yaml",
    "dotenv",
    "platformdirs",
    "uvicorn",
    "anyio._backends._asyncio",
    "mcp.server.mcpserver",
    "typer._adapters",
    "typer._click.decorators",
    "rich._emoji_codes",
    "rich.logging",
    "jsonschema",
    "jsonschema_rs",
    "keyring",
    "pydantic_ai.models.function",
    "pydantic_ai.models.openai",
    "pydantic_ai.providers.openai",
    "openai.resources.chat.completions",
    "openai.resources.responses.responses",
    "genai_prices.data",
)
"""What the programs would import, besides all of toolbus."""

FOLDER = os.path.dirname(sys.argv[-1])
WARM_PYTHON = os.path.join(FOLDER, "bin", "python")


class Program:
    """One that runs: who asked for it, and how its end is seen."""

    def __init__(self, connection: socket.socket, pid: int, home: str) -> None:
        self.connection = connection
        self.pid = pid
        self.ended = os.pidfd_open(pid)
        self._home = os.path.join(FOLDER, "homes", str(pid))
        with open(self._home, "w") as file:
            file.write(home)
        self.tell(pid)

    def end(self) -> None:
        """Kill it if it has not ended, and tell the exit code."""
        if not select.select([self.ended], [], [], 0)[0]:
            os.kill(self.pid, signal.SIGKILL)
        code = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        os.close(self.ended)
        os.unlink(self._home)
        self.tell(code)
        self.connection.close()

    def tell(self, number: int) -> None:
        """Send a number, unless whoever asked is gone."""
        with suppress(OSError):
            self.connection.sendall(number.to_bytes(4, "big", signed=True))


def serve(path: str) -> None:
    """Fork what is asked for, until our input ends."""
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(path)
    listening.listen(100)
    _prepare()
    print("listening", flush=True)
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
                os._exit(_run(request, streams))
            _close(*streams)
            running.append(Program(connection, pid, request["env"].get("HOME", "")))
        for program in list(running):
            if program.ended in ready or program.connection in ready:
                program.end()
                running.remove(program)
    for program in running:
        program.end()


def _prepare() -> None:
    """Do what every program would do first."""
    for module in (*IMPORTED, *_modules()):
        with suppress(ImportError):  # the environment of one adapter has not all of them
            import_module(module)
    typer_main: Any = import_module("typer.main")
    typer_main.get_command = cache(typer_main.get_command)
    typer_main.get_command(import_module("toolbus.cli.app").app)
    version("toolbus")  # the folders that it looks through are kept
    import_module("tests.warm.tools").remember()
    import_module("tests.servers.everyday").everyday()
    logging.basicConfig(level="WARNING", handlers=[], force=True)  # undo what a server of the SDK sets up
    gc.collect()
    gc.freeze()
    _pack()


HUGE = 2 << 20
MADV_HUGEPAGE, MADV_COLLAPSE = 14, 25


def _pack() -> None:
    """Move our memory into huge pages, where Linux can: most of a fork is copying the table of pages."""
    libc = ctypes.CDLL(None)
    with open("/proc/self/maps") as file:
        areas = [line.split() for line in file]
    for area, rights, _, _, _, *name in areas:
        if rights == "rw-p" and name in ([], ["[heap]"]):
            begin, end = (int(address, 16) for address in area.split("-"))
            begin, size = -(-begin // HUGE) * HUGE, (end // HUGE + begin // -HUGE) * HUGE
            for advice in (MADV_HUGEPAGE, MADV_COLLAPSE):
                if size > 0:
                    libc.madvise(ctypes.c_void_p(begin), ctypes.c_size_t(size), advice)


def _modules() -> list[str]:
    """The modules of toolbus, but for those that would import a framework, or are programs."""
    import toolbus

    found = walk_packages(toolbus.__path__, "toolbus.", onerror=lambda name: None)
    left_out = ("toolbus.adapters.", "toolbus.extension.", "toolbus.__main__")
    return [module.name for module in found if not module.name.startswith(left_out)]


def _close(*descriptors: int | socket.socket) -> None:
    for descriptor in descriptors:
        os.close(descriptor if isinstance(descriptor, int) else descriptor.detach())


def _received(connection: socket.socket) -> tuple[dict[str, Any], list[int]]:
    size, streams, _, _ = socket.recv_fds(connection, 4, 3)
    body = connection.recv(int.from_bytes(size, "big"), socket.MSG_WAITALL)
    return marshal.loads(body), streams


def _run(request: dict[str, Any], streams: list[int]) -> int:
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
    sys.stdin = TextIOWrapper(BufferedReader(FileIO(0)), line_buffering=os.isatty(0))
    sys.stdout = TextIOWrapper(BufferedWriter(FileIO(1, "w")), line_buffering=os.isatty(1))
    sys.stderr = TextIOWrapper(BufferedWriter(FileIO(2, "w")), errors="backslashreplace", line_buffering=True)
    code: Any = 0
    try:
        _start(request["words"])
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


def _start(words: list[str]) -> None:
    match words:
        case ["python", "-m", module, *more]:
            sys.argv = [module, *more]
            sys.modules.pop(module, None)  # runpy warns of what was imported before
            runpy.run_module(module, run_name="__main__", alter_sys=True)
        case ["python", "-W", action, script, *more] if action in ("error", "default"):
            warnings.simplefilter(action)
            _start(["python", script, *more])
        case ["python", "-c", code, *more]:
            sys.argv = ["-c", *more]
            sys.path[0] = ""
            exec(code, {"__name__": "__main__"})
        case ["python", first, *more] if first.startswith("-"):
            os.execv(sys.executable, [sys.executable, first, *more])  # a cold one
        case ["python", script, *more]:
            sys.executable = WARM_PYTHON  # for what the script starts in its turn
            sys.argv = [script, *more]
            sys.path[0] = os.path.dirname(os.path.abspath(script))
            runpy.run_path(script, run_name="__main__")
        case _:
            from toolbus.cli.entry import main

            if words[1:2] == ["demo"]:
                sys.executable = WARM_PYTHON  # for its servers
            sys.argv = words
            main()


if __name__ == "__main__":
    serve(sys.argv[1])
