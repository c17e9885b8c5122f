"""`toolbus runs worker`: execute durable runs until stopped."""

import asyncio
import importlib
import inspect
import logging
import sys
import traceback
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from toolbus.adapters.approval import ApprovalMode
from toolbus.cli.chat.models import choose_model
from toolbus.cli.command import Invocation, command
from toolbus.cli.commands.agents.run_store import Store, durable_settings, load_durable
from toolbus.cli.errors import Usage
from toolbus.cli.output.json_log import use_log_format
from toolbus.cli.output.screen import Screen, enable_logging, picked
from toolbus.cli.parameters import LogFormatOption, Model
from toolbus.cli.session import command_line
from toolbus.cli.terminal import working_folder
from toolbus.core.values.errors import ToolbusError
from toolbus.gateway.serve.signals import Stop, until_stopped

if TYPE_CHECKING:
    from toolbus.agent import Agent
    from toolbus.agent.durable import Durable, Runs

_PATIENCE = 2.0
"""Seconds to find out, at the end, whether there are other workers."""


@command
async def worker(
    own: Invocation,
    target: Annotated[
        str | None,
        typer.Argument(
            metavar="MODULE:NAME",
            help="Your Agent(..., durable=...), or a function that returns it; default: an agent with the "
            "servers of the config.",
        ),
    ] = None,
    model: Model = None,
    approve: Annotated[
        Literal["never", "writes", "ask"] | None,
        typer.Option("--approve", help="Which calls wait for 'toolbus runs resume'; default: writes."),
    ] = None,
    agent: Annotated[
        str | None,
        typer.Option(
            "--agent", metavar="NAME", help="Execute the runs of the agent of this name; default: agent."
        ),
    ] = None,
    version: Annotated[
        str | None,
        typer.Option(
            "--version", metavar="VERSION", help="Execute only the runs that are pinned to this version."
        ),
    ] = None,
    store: Store = None,
    log_format: LogFormatOption = None,
) -> int:
    """Execute durable runs until stopped.

    Start as many as you need, on any machine. With MODULE:NAME, your program decides about the model,
    approvals, name and store. The first Ctrl-C or SIGTERM lets calls in flight end; other workers
    continue its runs.
    """
    use_log_format(log_format)
    _ = own.screen  # first, because it shows the log
    if not own.settings.verbose:
        enable_logging(logging.WARNING)  # nobody else reports what happens to its runs
    if target is None:
        durable = partial(durable_settings, store, agent or "agent", version)
        opened = _agent_of_config(own, model, approve or "writes", durable)
    else:
        options = {"model": model, "approve": approve, "agent": agent, "version": version, "store": store}
        opened = _agent_of_target(own, target, options)
    return await until_stopped(partial(_work, own.screen, opened))


async def _work(screen: Screen, opened: "AbstractAsyncContextManager[Agent]", stop: Stop) -> int:
    """Execute runs until it is to stop; returns the exit code."""
    async with opened as agent:
        assert agent.durable is not None, "it was checked"
        stop.limit = agent.durable.drain
        ready = partial(_print_ready, screen, agent.durable, agent.runs.store.place)
        working = asyncio.create_task(agent.work(ready))
        stopped = asyncio.create_task(stop.event.wait())
        await asyncio.wait({working, stopped}, return_when=asyncio.FIRST_COMPLETED)
        if working.done():
            working.result()  # raises why it ended
        screen.note(f"calls in flight end; {await _last_words(agent.runs, agent.durable.queue)}")
        working.cancel()
        await agent.close()
    return 128 + stop.number if stop.is_forced else 0


def _print_ready(screen: Screen, own: "Durable", place: str) -> None:
    which = repr(own.agent) if own.version is None else f"{own.agent!r} of version {own.version!r}"
    screen.show(
        {**picked(own, "agent version"), "store": place},
        lambda: screen.note(f"takes runs of {which} from {place}; Ctrl-C ends it"),
    )


async def _last_words(runs: "Runs", queue: str) -> str:
    """The fate of this worker's runs when it ends."""
    from toolbus.agent.durable.worker import Worker

    own = "" if Worker.here is None else Worker.here.id
    try:
        async with asyncio.timeout(_PATIENCE):
            workers = await runs.workers()
    except (TimeoutError, ToolbusError):
        return "the store of runs cannot be reached; runs wait until it is back"
    if any(row.takes(queue) and row.worker != own for row in workers):
        return "others continue the runs"
    return "its runs wait for the next worker"


@asynccontextmanager
async def _agent_of_config(
    own: Invocation, model: str | None, approve: ApprovalMode, durable: "Callable[[], Durable]"
) -> "AsyncGenerator[Agent]":
    """An agent with all servers of the config."""
    screen, config, servers = own.screen, own.config, own.selected()
    load_durable(screen, "toolbus runs worker")
    with screen.spinner("loading the agent"):
        from toolbus.agent import Agent
        from toolbus.cli.chat.run import create_model
    async with create_model(choose_model(config, model)) as entered:
        settings = durable()
        async with own.bus(servers) as bus:
            tools = [bus.view(caller=command_line())]
            async with Agent(entered, tools=tools, approve=approve, durable=settings) as agent:
                yield agent


@asynccontextmanager
async def _agent_of_target(
    own: Invocation, target: str, options: dict[str, str | None]
) -> "AsyncGenerator[Agent]":
    """The agent of a program, which decides itself what these options say; `Usage` if one is given."""
    given = {**options, "config": own.settings.config, "profile": own.settings.profile}
    if ignored := [f"--{name}" for name, value in given.items() if value is not None]:
        raise Usage(
            f"{' and '.join(ignored)}: {target} decides that itself; change it there, or leave it out"
        )
    load_durable(own.screen, "toolbus runs worker")
    async with agent_of_program(target) as agent:
        yield agent


class ProgramFailed(ToolbusError):
    """The program of a worker raised an error."""

    def __init__(self, target: str, error: Exception) -> None:
        self.target = target
        what = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        super().__init__(
            f"{target}: your program raised {what}{_place(error)}; --debug shows where it came from"
        )


def agent_of_program(target: str) -> "Agent":
    """The agent of `MODULE:NAME`, from this folder or installed."""
    from toolbus.agent import Agent

    found = _found(target)
    if inspect.isfunction(found):
        try:
            found = found()
        except ToolbusError:
            raise  # says all by itself
        except Exception as error:
            raise ProgramFailed(target, error) from error
    if not isinstance(found, Agent):
        raise Usage(
            f"{target}: expected an Agent, or a function that returns one, not {type(found).__name__}"
        )
    if found.durable is None:
        raise Usage(f'{target}: the agent has no durable runs; create it with Agent(..., durable="runs.db")')
    return found


def _found(target: str) -> Any:
    module, _, name = target.partition(":")
    if not module or not name:
        raise Usage(f"expected MODULE:NAME, such as orders:agent, not {target!r}")
    folder = str(working_folder())
    if folder not in sys.path:
        sys.path.insert(0, folder)
    try:
        imported = importlib.import_module(module)
    except ToolbusError:
        raise
    except Exception as error:
        if isinstance(error, ModuleNotFoundError) and f"{module}.".startswith(f"{error.name}."):
            raise Usage(f"{target}: {error}") from error
        raise ProgramFailed(target, error) from error
    try:
        return getattr(imported, name)
    except AttributeError as error:
        raise Usage(f"{target}: {error}") from error


def _place(error: Exception) -> str:
    """The line of the program, or else of a library, that raised an error."""
    if isinstance(error, SyntaxError):
        return ""  # its text ends with the place
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if Path(frame.filename).is_relative_to(working_folder())]
    last = (own or frames)[-1]
    return f" ({last.filename}, line {last.lineno})"
