"""The store of durable runs that a command uses: its option, and what opens it."""

import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Annotated

import typer

from toolbus.cli.errors import Usage
from toolbus.cli.output.screen import Screen
from toolbus.cli.terminal import variables, working_folder
from toolbus.core.values.errors import ExtraMissing

if TYPE_CHECKING:
    from toolbus.agent.durable import Durable, Runs

VARIABLE, DEFAULT = "TOOLBUS_RUNS", "runs.db"


def chosen_store(store: str | None) -> str:
    """The store of an option, of the environment, or the file in this folder."""
    chosen = store or variables().get(VARIABLE) or DEFAULT
    return chosen if "://" in chosen else str(working_folder() / chosen)


def durable_settings(store: str | None, agent: str, version: str | None = None) -> "Durable":
    """The settings of these options; `Usage` if one is invalid."""
    from toolbus.agent.durable import Durable

    try:
        settings = Durable(store=chosen_store(store), agent=agent, version=version)
        settings.url  # noqa: B018  raises if it is invalid
    except ValueError as error:
        option = "--store" if store else f"${VARIABLE}"
        raise Usage(re.sub("^durable", option, str(error))) from None
    return settings


def load_durable(screen: Screen, command: str) -> None:
    """Import what a command needs, with a spinner: it takes a while."""
    with screen.spinner("loading durable runs"):
        try:
            import_module("toolbus.agent.durable")
        except ImportError as error:
            # Not that of the part that came first: this extra has all.
            reason = error.reason if isinstance(error, ExtraMissing) else str(error)
            raise ExtraMissing(command, "durable", reason) from error


@asynccontextmanager
async def open_runs(
    screen: Screen,
    store: str | None,
    agent: str = "agent",
    version: str | None = None,
    *,
    create: bool = False,
) -> "AsyncGenerator[Runs]":
    """The runs of a store; without `create`, `Usage` if its file does not exist."""
    load_durable(screen, "toolbus runs")
    from toolbus.agent.durable import Runs

    settings = durable_settings(store, agent, version)
    if (file := settings.file) is not None and not create and not file.exists():
        raise Usage(f"there is no store of runs at {str(file)!r}; name it with --store or ${VARIABLE}")
    runs = Runs(settings)
    try:
        yield runs
    finally:
        await runs.close()


Store = Annotated[
    str | None,
    typer.Option(
        "--store",
        metavar="URL",
        help="Where the runs are: a SQLite file, or a postgresql:// URL; default: $TOOLBUS_RUNS, or runs.db.",
    ),
]
