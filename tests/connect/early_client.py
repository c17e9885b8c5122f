"""A program whose import of the SDK waits until the server has started, with several endings.

Run it: `python early_client.py WHAT FOLDER COMMAND...`; the server writes its number into FOLDER/pid. It
prints the outcome as JSON.
"""

import asyncio
import gc
import importlib.abc
import json
import os
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any

from tests.patience import PATIENCE
from tests.processes import alive
from toolbus import Toolbus
from toolbus.sync import SyncToolbus

WHAT, FOLDER, COMMAND = sys.argv[1], Path(sys.argv[2]), sys.argv[3:]
CONFIG = {"servers": {"a": {"command": COMMAND[0], "args": COMMAND[1:]}}}
PID = FOLDER / "pid"
at_import, stopped = threading.Event(), threading.Event()
importer = ""


class Gate(importlib.abc.MetaPathFinder):
    """Holds the import of `mcp` until the server's process exists."""

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> None:
        if fullname != "mcp" or at_import.is_set():
            return
        global importer
        importer = threading.current_thread().name
        deadline = time.monotonic() + 60
        while not (PID.exists() and PID.read_text().strip()):
            assert time.monotonic() < deadline, "the server was not started meanwhile"
            time.sleep(0.005)
        at_import.set()
        if WHAT == "fail":
            raise ImportError("no SDK")
        if WHAT == "interrupt":
            os.kill(os.getpid(), signal.SIGINT)
        if WHAT in ("stop", "interrupt"):
            assert stopped.wait(PATIENCE)


def left() -> dict[str, Any]:
    """The leftovers at the end: the server, threads, and the settings of the garbage collector."""
    others = [thread for thread in threading.enumerate() if thread is not threading.main_thread()]
    for thread in others:
        thread.join(30)  # the import may go on for a moment, and asyncio's thread that waited for the process
    names = [thread.name for thread in others if thread.is_alive()]
    collector = [gc.isenabled(), gc.get_freeze_count()]
    return {"server": alive(int(PID.read_text())), "threads": names, "collector": collector}


async def started() -> Any:
    async with Toolbus(CONFIG) as bus:
        return [importer, len(bus.catalog), bus.servers["a"].restarts]


async def stopped_meanwhile() -> Any:
    bus = Toolbus(CONFIG)
    starting = asyncio.create_task(bus.start())
    assert await asyncio.to_thread(at_import.wait, 60)
    await bus.stop()
    gone = not alive(int(PID.read_text()))
    stopped.set()
    await starting
    return [gone, bus.running, bus.servers["a"].state]


async def interrupted() -> None:
    try:
        await Toolbus(CONFIG).start()
    finally:
        stopped.set()


def sync() -> Any:
    with SyncToolbus(CONFIG) as bus:
        return [importer, len(bus.catalog), bus.servers["a"].restarts]


def main() -> None:
    sys.meta_path.insert(0, Gate())
    outcome: Any = None
    try:
        if WHAT == "sync":
            outcome = sync()
        else:
            work = {"stop": stopped_meanwhile, "interrupt": interrupted}.get(WHAT, started)
            outcome = asyncio.run(work())
    except (ImportError, KeyboardInterrupt) as error:
        outcome = [type(error).__name__, str(error)]
    print(json.dumps({"outcome": outcome, "left": left()}))


main()
