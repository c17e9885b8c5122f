"""Start a process in the way that this system has: below the guard, or as a process group.

Either way has a helper process, which starts with the first server and ends with the last bus of the program.
"""

import asyncio
import logging
import os
import weakref
from contextlib import suppress

from toolbus.connect.forks import detach_after_fork
from toolbus.connect.transports.process.child import Child, ChildEvents, Launch
from toolbus.connect.transports.process.grouped import spawn_grouped
from toolbus.connect.transports.process.guarded import GuardUnavailable, can_guard, guard, spawn_guarded
from toolbus.connect.transports.process.reaper import reaper

logger = logging.getLogger("toolbus")
END_TIMEOUT = 1.0
"""Seconds to wait for the end of a helper; one that takes longer still ends."""
END_INTERVAL = 0.005


async def start_child(events: ChildEvents, launch: Launch) -> Child:
    """Start a process; raises OSError or ValueError if it cannot start."""
    if can_guard():
        try:
            return await spawn_guarded(events, launch)
        except GuardUnavailable as error:
            logger.debug("the guard of the servers cannot be used: %s", error)
    return await spawn_grouped(events, launch)


class Helpers:
    """The guard and the reaper, for as long as somebody in this process uses them."""

    def __init__(self) -> None:
        self._users: weakref.WeakSet[object] = weakref.WeakSet()

    def use(self, user: object) -> None:
        """Keep a helper that runs until `user` releases it; none is started here."""
        self._users.add(user)
        detach_after_fork(self)

    async def release(self, user: object) -> None:
        """End the helpers, and wait for that, if there is no other user."""
        self._users.discard(user)
        if not self._users:
            for helper in (guard, reaper):
                if (pid := helper.end()) and await _has_ended(pid):
                    helper.forget_ended(pid)

    def fds(self) -> list[int]:
        """In a fork: the users are those of the parent."""
        self._users.clear()
        return []


helpers = Helpers()


async def _has_ended(pid: int) -> bool:
    with suppress(TimeoutError):
        async with asyncio.timeout(END_TIMEOUT):
            while _is_running(pid):  # noqa: ASYNC110  # not every system reports the end of a process
                await asyncio.sleep(END_INTERVAL)
            return True
    return False


def _is_running(pid: int) -> bool:
    try:
        return os.waitpid(pid, os.WNOHANG) == (0, 0)
    except ChildProcessError:  # the program waits for all of its children itself
        return False
