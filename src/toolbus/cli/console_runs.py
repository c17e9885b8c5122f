"""The durable runs that a console shows: those of the store in `$TOOLBUS_RUNS`."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from toolbus.cli.commands.agents.runs import VARIABLE, chosen_store
from toolbus.cli.output.serve_log import ServeLog
from toolbus.cli.terminal import variables
from toolbus.console.console import Console
from toolbus.core.values.errors import ToolbusError

if TYPE_CHECKING:
    from toolbus.agent.durable import Runs


@asynccontextmanager
async def console_runs(console: Console, log: ServeLog) -> AsyncGenerator[None]:
    """Have a console show the runs of the store that the environment names, if it names one."""
    if not variables().get(VARIABLE):
        yield
        return
    try:
        runs = await asyncio.to_thread(_runs)
    except (ToolbusError, ValueError) as error:
        log.add_line("console", f"it shows no runs: {error}", "yellow")
        yield
        return
    console.runs = runs
    try:
        yield
    finally:
        console.runs = None
        await runs.close()


def _runs() -> "Runs":
    from toolbus.agent.durable import Durable, Runs  # takes a while

    return Runs(Durable(store=chosen_store(None)))
