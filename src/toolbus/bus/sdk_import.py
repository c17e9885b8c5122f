"""Import what needs the SDK in a thread, so that processes can start and the loop can run meanwhile."""

import asyncio
import gc
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager, suppress
from importlib import import_module

NEED_SDK = ("toolbus.connect.link", "toolbus.connect.requests", "toolbus.discover")


async def import_stages() -> None:
    """Import the stages that need the SDK; raises what the import raises.

    If the caller is cancelled, the thread still finishes the import.
    """
    if all(name in sys.modules for name in NEED_SDK):
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
            _import()
        except BaseException as error:  # a thread's edge: it is raised in the task that waits
            failure = error
        with suppress(RuntimeError):  # the loop was closed
            loop.call_soon_threadsafe(report, failure)

    # Not a daemon: ending a thread in the middle of the import of an extension may crash the interpreter.
    threading.Thread(target=run, name="toolbus import").start()
    await imported


def _import() -> None:
    with _collecting_later():
        for name in NEED_SDK:
            import_module(name)


@contextmanager
def _collecting_later() -> Generator[None]:
    """Leave the new objects to the next full collection: nearly all stay, and looking for garbage costs."""
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        if gc.get_freeze_count() == 0:  # otherwise the program wants some to stay frozen
            # Moves all objects to the oldest generation, without looking at each.
            gc.freeze()
            gc.unfreeze()
        gc.enable()
