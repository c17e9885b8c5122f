"""Be the background bus of a config, in this process."""

import asyncio
import logging
import os
from collections.abc import Callable
from dataclasses import dataclass

from toolbus.background.claim import claim
from toolbus.background.command_runner import RunLine
from toolbus.background.place import Place
from toolbus.background.server import BackgroundBus
from toolbus.cli.output.event_lines import DATE_AND_TIME
from toolbus.cli.output.screen import enable_part_log
from toolbus.cli.output.serve_log import ServeLog
from toolbus.config import BusConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """What a background bus is started with."""

    place: Place
    config: BusConfig
    idle: float | None
    """Seconds without a command after which it ends."""
    run: RunLine
    """Runs the command line of a client."""
    has_console: bool
    began: int
    """The time before the config was read, in nanoseconds."""


def run_here(start: Start, log: ServeLog, ready: Callable[[BackgroundBus], None]) -> int:
    """Run it until it is to stop; `ready` is called when its servers have started. Returns the exit code."""
    claim(start.place)
    if not logging.getLogger("toolbus").isEnabledFor(logging.INFO):  # as it is with -v
        enable_part_log("background", DATE_AND_TIME)  # such as refused clients
    return asyncio.run(_run(start, log, ready))


async def _run(start: Start, log: ServeLog, ready: Callable[[BackgroundBus], None]) -> int:
    background = BackgroundBus(
        start.place, start.config, start.idle, start.run, log, has_console=start.has_console
    )
    log.add_line("up", f"pid {os.getpid()}, {start.place.config}")
    return await background.run(start.began, lambda: ready(background))
