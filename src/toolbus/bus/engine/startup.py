"""Import the modules that need the SDK in a thread; meanwhile, processes can start and the loop can run."""

import asyncio
import gc
import sys
import threading
from contextlib import suppress
from importlib import import_module

from toolbus.core.collector import paused_collector

LATE = (
    *("toolbus.connect.link", "toolbus.connect.requests", "toolbus.discover"),
    *("toolbus.call.arguments.problem", "toolbus.call.arguments.repairer"),
)
"""The modules that only calls need; the first ones import the SDK."""


async def import_stages() -> None:
    """Import the modules that calls need, in a thread; errors of the import are raised here.

    If the caller is cancelled, the thread still finishes the import.
    """
    if all(name in sys.modules for name in LATE):
        return
    loop = asyncio.get_running_loop()
    imported: asyncio.Future[None] = loop.create_future()

    def report(error: BaseException | None) -> None:
        if imported.done():  # the caller was cancelled
            return
        if error is None:
            imported.set_result(None)
        else:
            imported.set_exception(error)

    def run() -> None:
        failure: BaseException | None = None
        try:
            import_late()
        except BaseException as error:  # a thread's edge: it is raised in the task that waits
            failure = error
        with suppress(RuntimeError):  # the loop was closed
            loop.call_soon_threadsafe(report, failure)

    # Not a daemon: ending a thread in the middle of the import of an extension may crash the interpreter.
    threading.Thread(target=run, name="toolbus import").start()
    await imported


def import_late() -> None:
    """Import the modules that calls need, in this thread."""
    with paused_collector():
        for name in LATE:
            import_module(name)
        if gc.get_freeze_count() == 0:  # otherwise the program wants some objects to stay frozen
            # Moves all objects to the oldest generation, so that the next collection does not look at each.
            gc.freeze()
            gc.unfreeze()
