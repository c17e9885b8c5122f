"""What the README shows, beside a server over HTTP and one that is broken. Run it with `make demo`."""

import asyncio
import os
import socket
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from toolbus import Toolbus, ToolbusError
from toolbus.events import CatalogChanged, Event, StateChanged

HERE = Path(__file__).parent


@contextmanager
def clock_server() -> Generator[str]:
    """A server over streamable HTTP, in a process of its own; gives its URL."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    process = subprocess.Popen([sys.executable, str(HERE / "clock.py"), str(port)])
    try:
        deadline = time.monotonic() + 20
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), timeout=1).close()
                break
            except OSError:
                if process.poll() is not None or time.monotonic() > deadline:
                    raise
        yield f"http://127.0.0.1:{port}/mcp"
    finally:
        process.terminate()
        process.wait()


def tell(event: Event) -> None:
    """Print what happens on the bus as it happens."""
    match event:
        case StateChanged():
            print(f"  {event.server:8} {event.previous} -> {event.state}")
        case CatalogChanged():
            print(f"  catalog  +{len(event.added)} -{len(event.removed)} changed {len(event.changed)}")
        case _:
            pass


async def main(clock: str) -> None:
    config = {
        "servers": {
            "notes": {"command": sys.executable, "args": [str(HERE / "notes.py")]},
            "clock": {"url": clock},
            "broken": {"command": "no-such-program"},
        }
    }
    print("starting three servers, one of them broken:")
    async with Toolbus(config, on_event=tell) as bus:
        for alias, status in bus.servers.items():
            print(f"{alias:8} {status.state:8} {status.protocol or status.error}")
        print("\nthe catalog:")
        for spec in bus.catalog:
            print(f"  {spec.name:14} {spec.description}")
        print("\ncalls:")
        for name, arguments in (
            ("notes_add", {"text": "buy tea"}),
            ("notes_search", {"word": "tea"}),
            ("clock_days", {"year": 2028}),
        ):
            result = await bus.call(name, arguments)
            print(f"  {name}({arguments}) -> {result.text}")
        try:
            await bus.call("notes_serch", {"word": "tea"})
        except ToolbusError as error:
            print(f"  {error}")
        print("\nstopping:")


if __name__ == "__main__":
    os.chdir(HERE)
    with clock_server() as url:
        asyncio.run(main(url))
