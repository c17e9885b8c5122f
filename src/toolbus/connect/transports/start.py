"""Start a process in the way that this system has: below the guard, or as a process group."""

import logging

from toolbus.connect.transports.child import Child, ChildEvents, Launch
from toolbus.connect.transports.grouped import spawn_grouped
from toolbus.connect.transports.guarded import GuardUnavailable, can_guard, spawn_guarded

logger = logging.getLogger("toolbus")


async def start_child(events: ChildEvents, launch: Launch) -> Child:
    """Start a process; raises OSError or ValueError if it cannot start."""
    if can_guard():
        try:
            return await spawn_guarded(events, launch)
        except GuardUnavailable as error:
            logger.debug("the guard of the servers cannot be used: %s", error)
    return await spawn_grouped(events, launch)
