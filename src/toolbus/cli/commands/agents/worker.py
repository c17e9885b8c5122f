"""`toolbus worker`: execute durable runs until stopped."""

import asyncio
import importlib
import inspect
import logging
import sys
import traceback
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from toolbus.adapters.approval import ApprovalMode
from toolbus.cli.chat.models import ModelChoice, choose_model, keys_from_env_file
from toolbus.cli.commands.agents.runs import durable_settings, load_durable
from toolbus.cli.errors import Usage
from toolbus.cli.options import SharedOptions
from toolbus.cli.output.screen import Screen, enable_logging
from toolbus.cli.session import async_command, command_line, load_trusted_config, open_bus, selected_servers
from toolbus.cli.terminal import variables, working_folder
from toolbus.core.values.errors import ToolbusError
from toolbus.gateway.serve.signals import Stop, stop_signals

if TYPE_CHECKING:
    from toolbus.agent import Agent
    from toolbus.agent.durable import Durable, Runs

_PATIENCE = 2.0
"""Seconds to find out, at the end, whether there are other workers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerOptions:
    """The options of `worker`."""

    model: str | None
    approve: ApprovalMode | None
    agent: str | None
    version: str | None
    store: str | None


@async_command
async def run(settings: SharedOptions, target: str | None, options: WorkerOptions) -> int:
    """Execute runs until a signal comes."""
    screen = Screen(settings)
    if not settings.verbose:
        enable_logging(logging.WARNING)  # nobody else reports what happens to its runs
    with stop_signals() as stop:
        try:
            await _work(screen, settings, target, options, stop)
        except asyncio.CancelledError:
            if not stop.is_forced:
                raise
    return 128 + stop.number if stop.is_forced else 0


async def _work(
    screen: Screen, settings: SharedOptions, target: str | None, options: WorkerOptions, stop: Stop
) -> None:
    async with AsyncExitStack() as stack:
        if target is None:
            agent = await _agent_of_config(screen, settings, options, stack)
        else:
            _refuse_ignored(target, settings, options)
            load_durable(screen, "toolbus worker")
            agent = agent_of_program(target)
        await stack.enter_async_context(agent)
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


def _print_ready(screen: Screen, own: "Durable", place: str) -> None:
    if screen.as_json:
        screen.json({"agent": own.agent, "version": own.version, "store": place})
    else:
        which = repr(own.agent) if own.version is None else f"{own.agent!r} of version {own.version!r}"
        screen.note(f"takes runs of {which} from {place}; Ctrl-C ends it")


def _refuse_ignored(target: str, settings: SharedOptions, options: WorkerOptions) -> None:
    """Raise `Usage` for an option that a program decides itself."""
    given = {
        "--model": options.model,
        "--approve": options.approve,
        "--agent": options.agent,
        "--version": options.version,
        "--store": options.store,
        "--config": settings.config,
    }
    if ignored := [name for name, value in given.items() if value is not None]:
        raise Usage(
            f"{' and '.join(ignored)}: {target} decides that itself; change it there, or leave it out"
        )


async def _last_words(runs: "Runs", queue: str) -> str:
    """What becomes of the runs of this worker when it ends."""
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


async def _agent_of_config(
    screen: Screen, settings: SharedOptions, options: WorkerOptions, stack: AsyncExitStack
) -> "Agent":
    """An agent with all servers of the config."""
    config = load_trusted_config(settings)
    servers = selected_servers(config, ())
    load_durable(screen, "toolbus worker")
    with screen.spinner("loading the agent"):
        from toolbus.agent import Agent
        from toolbus.cli.chat.run import create_model
    keys = keys_from_env_file(config)
    name = choose_model(options.model or variables().get("TOOLBUS_MODEL"), keys)
    model = await stack.enter_async_context(create_model(ModelChoice(model=name, keys=keys)))
    durable = durable_settings(options.store, options.agent or "agent", options.version)
    bus = await stack.enter_async_context(open_bus(screen, config, servers))
    return Agent(
        model, tools=[bus.view(caller=command_line())], approve=options.approve or "writes", durable=durable
    )


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
