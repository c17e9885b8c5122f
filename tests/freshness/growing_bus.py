"""Buses over the growing server, and a clock that tests can set ahead."""

import json
import subprocess
import sys
import time
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

from tests.inside.bus import View
from tests.inside.core import ToolResult
from tests.patience import wait_until
from toolbus import Toolbus

SERVER = str(Path(__file__).parents[1] / "servers" / "growing.py")
HOUR = 3_600_000
JSON = dict[str, Any]


class Clock:
    """The time, set ahead."""

    def __init__(self) -> None:
        self.ahead = 0.0

    def __call__(self) -> float:
        return time.monotonic() + self.ahead


def over_stdio(**script: Any) -> JSON:
    """The entry of a config for a server of its own."""
    return {"command": sys.executable, "args": [SERVER, "stdio", json.dumps(script)]}


@contextmanager
def over_http(folder: Path, **script: Any) -> Generator[JSON]:
    """The entry of a config for a web server, in a process of its own."""
    port_file = folder / "growing.port"
    port_file.unlink(missing_ok=True)
    process = subprocess.Popen([sys.executable, SERVER, "http", str(port_file), json.dumps(script)])
    try:
        wait_until(port_file.exists, "the server did not start")
        yield {"url": f"http://127.0.0.1:{port_file.read_text()}/mcp"}
    finally:
        process.terminate()
        process.wait()


@asynccontextmanager
async def growing(transport: str, folder: Path, **script: Any) -> AsyncGenerator[Toolbus]:
    """A bus with one growing server, `g`."""
    if transport == "stdio":
        async with Toolbus({"servers": {"g": over_stdio(**script)}}) as bus:
            yield bus
    else:
        with over_http(folder, **script) as entry:
            async with Toolbus({"servers": {"g": entry}}) as bus:
                yield bus


def text_of(result: ToolResult) -> str:
    assert not result.is_error, result.text
    return result.text


async def counts(view: View, server: str = "g") -> JSON:
    """The number of calls of each method of the server."""
    return json.loads(text_of(await view.call(f"{server}_counts")))


async def grow(view: View, kind: str = "tools", server: str = "g") -> None:
    assert text_of(await view.call(f"{server}_grow", {"kind": kind})) == "grown"
