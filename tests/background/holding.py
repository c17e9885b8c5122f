"""Hold a background bus for a test."""

import json
import os
import select
import signal
from collections.abc import Generator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from tests import warm
from tests.cli.running import environment, toolbus
from tests.patience import PATIENCE

SERVERS = Path(__file__).parents[1] / "servers"


def everyday_entry() -> dict[str, Any]:
    """A server entry for the everyday server."""
    return {"command": warm.python(), "args": [str(SERVERS / "everyday.py"), "stdio"]}


def asking_entry() -> dict[str, Any]:
    """A server entry for the server that asks."""
    return {"command": warm.python(), "args": [str(SERVERS / "asking.py"), "stdio"]}


class Background:
    """A background bus in the foreground of a process of its own."""

    def __init__(self, process: warm.Running, output: int) -> None:
        self.process = process
        self._output = output
        self.log = ""
        """Its output so far."""

    def until(self, text: str) -> None:
        """Wait until it has written that."""
        while text not in self.log:
            ready, _, _ = select.select([self._output], [], [], PATIENCE)
            assert ready, f"{text!r} did not come; instead: {self.log}"
            data = os.read(self._output, 65536)
            assert data, f"it ended before {text!r}: {self.log}"
            self.log += data.decode()

    def ended(self) -> int:
        """Wait for its end; gives the exit code."""
        code = self.process.wait(PATIENCE)
        while data := os.read(self._output, 65536):
            self.log += data.decode()
        return code


@contextmanager
def background(folder: Path, *words: str, env: Mapping[str, str] | None = None) -> Generator[Background]:
    """`toolbus up --foreground` in that folder, once its servers have started."""
    nothing = os.open(os.devnull, os.O_RDWR)
    output, writer = os.pipe()
    seen = environment(folder.parent, **(env or {}))
    process = warm.Running("toolbus", ["up", "--foreground", *words], folder, seen, (nothing, writer, writer))
    os.close(writer)
    os.close(nothing)
    try:
        held = Background(process, output)
        held.until("'toolbus down")
        yield held
    finally:
        with suppress(ProcessLookupError):
            os.kill(process.pid, signal.SIGTERM)
        with suppress(TimeoutError):
            process.wait(PATIENCE)
        process.kill()
        os.close(output)


def status(folder: Path, *words: str) -> dict[str, Any]:
    """The output of `toolbus status`."""
    run = toolbus("status", "--json", *words, folder=folder)
    assert run.stdout, run.stderr
    return json.loads(run.stdout)


def called(folder: Path, *words: str) -> str:
    """The output of a call, which must succeed."""
    run = toolbus("call", *words, folder=folder)
    assert run.returncode == 0, run.stderr
    return run.stdout.strip()


def is_running(pid: int) -> bool:
    """Whether there is such a process that has not ended."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0]
    except OSError:
        return False
    return state != "Z"
