"""The starts of demo servers in tests: as an entry of a config, or as a process that the tests end."""

import json
import select
import subprocess
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

import pytest

from tests import warm
from tests.patience import PATIENCE

PLACES = [("stdio", "modern"), ("stdio", "legacy"), ("http", "modern"), ("http", "legacy")]
HELLO = {
    "protocolVersion": "2025-11-25",
    "capabilities": {},
    "clientInfo": {"name": "test", "version": "1"},
}

in_every_place = pytest.mark.parametrize(("transport", "era"), PLACES, ids=map("-".join, PLACES))
in_two_places = pytest.mark.parametrize(("transport", "era"), PLACES[::3], ids=map("-".join, PLACES[::3]))


def arguments(name: str, *more: str) -> list[str]:
    """The arguments for Python to run this server."""
    return ["-m", f"toolbus.demo.{name}", *more]


@contextmanager
def started(name: str, *more: str) -> Generator[subprocess.Popen[str]]:
    """A server's process, with all its pipes; killed at the end if it still runs."""
    command = [warm.python(), *arguments(name, *more)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def said(process: subprocess.Popen[str]) -> str:
    """The next line of its standard output."""
    assert process.stdout is not None
    ready, _, _ = select.select([process.stdout], [], [], PATIENCE)
    assert ready, "the server says nothing"
    return process.stdout.readline()


def greeted(process: subprocess.Popen[str]) -> str:
    """The name that a server over stdio gives itself; it serves from then on."""
    told(process, "initialize", HELLO)
    return json.loads(said(process))["result"]["serverInfo"]["name"]


def told(process: subprocess.Popen[str], method: str, params: dict[str, Any]) -> None:
    """Send a request to a server over stdio."""
    assert process.stdin is not None
    request = {"jsonrpc": "2.0", "id": method, "method": method, "params": params}
    process.stdin.write(json.dumps(request) + "\n")
    process.stdin.flush()


def last_words(process: subprocess.Popen[str]) -> tuple[int, str | None, str]:
    """Close its standard input; its exit code, and what it still wrote to standard output and error."""
    out, error = process.communicate(timeout=PATIENCE)
    return process.returncode, out, error


def address(line: str) -> str:
    """The URL in the line that a server over HTTP prints."""
    announced, _, url = line.removesuffix("\n").rpartition(" ")
    assert announced == "listening on"
    return url


@dataclass
class Servers:
    """Gives config entries for demo servers over one transport, in one era; ends what it had to start."""

    transport: Literal["stdio", "http"]
    era: str
    stack: ExitStack = field(default_factory=ExitStack)

    def entry(self, name: str, *more: str) -> dict[str, Any]:
        """A server entry for the demo server of this name."""
        if self.transport == "stdio":
            return {"command": warm.python(), "args": arguments(name, *more), "era": self.era}
        return {"url": self.stack.enter_context(_on_the_web(name, *more)), "era": self.era}


@contextmanager
def _on_the_web(name: str, *more: str) -> Generator[str]:
    with started(name, *more, "--http", "0") as process:
        yield address(said(process))
        process.terminate()
        assert last_words(process) == (0, "", "")
