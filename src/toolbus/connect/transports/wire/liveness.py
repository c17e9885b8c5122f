"""Detect that a session is idle, or that an idle HTTP server is gone.

A broken stream or a failed request shows it at once. While neither is open, a plain TCP connection is made
now and then, and closed. If it is refused, the session's own probe decides. A busy server still accepts
connections, so it is never taken for gone.
"""

import asyncio
import logging
import time
from contextlib import suppress

from toolbus.connect.ask.callbacks import SessionObserver
from toolbus.connect.opening.diagnostics import HttpActivity
from toolbus.connect.session import Session
from toolbus.core.values.errors import ToolbusError

logger = logging.getLogger("toolbus")

CONNECT_TIMEOUT = 5.0


async def supervise(session: Session, observer: SessionObserver) -> None:
    """Run the observer of a session and check its server, until cancelled; a failure ends the session."""
    try:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(observer.run(session))
            tasks.create_task(_check_server(session))
    except ExceptionGroup as group:  # a task's edge: a session that is not watched would miss changes
        if not session.gone.is_set():
            logger.error("server %r: its observer failed", session.server, exc_info=group)
            session.end(f"its observer failed: {group.exceptions[0]}")


async def wait_until_over(session: Session, observer: SessionObserver, limit: float | None) -> bool:
    """Wait until the session is gone (False), or was idle for `limit` seconds (True)."""
    loop = asyncio.get_running_loop()
    while True:
        wait = None if limit is None else max(0.01, session.used + limit - loop.time())
        try:
            async with asyncio.timeout(wait):
                await session.gone.wait()
            return False
        except TimeoutError:
            if session.busy or observer.keeps_link_open:
                session.used = loop.time()
            elif limit is not None and loop.time() - session.used >= limit:
                return True


async def _check_server(session: Session) -> None:
    """Check the server until the session has ended; a probe that cannot connect ends it."""
    activity = session.activity
    if activity is None or activity.check_interval is None:
        return
    while not session.gone.is_set():
        inactive = 0.0 if activity.open_requests else time.monotonic() - activity.last_used
        if inactive < activity.check_interval:
            await asyncio.sleep(activity.check_interval - inactive)
        elif await _accepts_connections(activity) or activity.open_requests:
            activity.last_used = time.monotonic()
        else:
            with suppress(ToolbusError):
                await session.probe()


async def _accepts_connections(activity: HttpActivity) -> bool:
    """Whether the server accepts a connection; also True if it does not respond in time."""
    try:
        async with asyncio.timeout(CONNECT_TIMEOUT):
            _, writer = await (
                asyncio.open_connection(activity.host, activity.port)
                if activity.socket_path is None
                else asyncio.open_unix_connection(activity.socket_path)
            )
    except TimeoutError:
        return True
    except OSError:
        return False
    writer.close()
    with suppress(OSError):
        await writer.wait_closed()
    return True
