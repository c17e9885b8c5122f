"""Notice that a web server is gone while nobody calls it.

A stream that breaks, or a request that fails, says so by itself. Where neither is under way, a plain TCP
connection is made now and then, and closed. One that is refused is only a hint: the session's own probe
decides. A server that is busy still accepts connections, so it never counts as gone.
"""

import asyncio
import time
from contextlib import suppress

from toolbus.connect.callbacks import SessionObserver
from toolbus.connect.diagnostics import Line
from toolbus.connect.session import Session
from toolbus.core.errors import ToolbusError

CONNECT_WITHIN = 5.0


async def look_after(session: Session, observer: SessionObserver) -> None:
    """Run the observer of a session, and watch its server meanwhile; until cancelled."""
    async with asyncio.TaskGroup() as both:
        both.create_task(observer.attend(session))
        both.create_task(_watch(session))


async def _watch(session: Session) -> None:
    """Look for the server until the session is over, which a probe that cannot connect brings about."""
    line = session.line
    if line is None or line.every is None:
        return
    while not session.gone.is_set():
        silence = 0.0 if line.busy else time.monotonic() - line.used
        if silence < line.every:
            await asyncio.sleep(line.every - silence)
        elif await _accepts(line) or line.busy:  # what is under way is never cut off from here
            line.used = time.monotonic()
        else:
            with suppress(ToolbusError):
                await session.probe()


async def _accepts(line: Line) -> bool:
    """Whether it takes a connection; no answer in time says nothing."""
    try:
        async with asyncio.timeout(CONNECT_WITHIN):
            _, writer = await asyncio.open_connection(line.host, line.port)
    except TimeoutError:
        return True
    except OSError:
        return False
    writer.close()
    with suppress(OSError):
        await writer.wait_closed()
    return True
