"""`toolbus worker`: execute durable runs until stopped."""

import asyncio
import importlib
import inspect
import sys
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from toolbus.adapters.approval import ApprovalMode
from toolbus.cli.chat.models import ModelChoice, choose_model, keys_from_env_file
from toolbus.cli.commands.runs import chosen_store
from toolbus.cli.errors import Usage
from toolbus.cli.options import Settings
from toolbus.cli.output.screen import Screen
from toolbus.cli.session import async_command, command_line, load_trusted_config, open_bus, selected_servers
from toolbus.cli.stop_signals import stop_signals
from toolbus.cli.terminal import variables, working_folder

if TYPE_CHECKING:
    from toolbus.agent import Agent


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerOptions:
    """The options of `worker`."""

    model: str | None
    approve: ApprovalMode
    agent: str
    store: str | None


@async_command
async def run(settings: Settings, target: str | None, options: WorkerOptions) -> int:
    """Execute runs until a signal comes."""
    screen = Screen(settings)
    async with AsyncExitStack() as stack:
        with stop_signals() as stop:
            if target is None:
                agent = await _agent_of_config(screen, settings, options, stack)
            else:
                agent = _agent_of_program(target)
            await stack.enter_async_context(agent)
            name = "" if agent.durable is None else agent.durable.agent
            ready = f"takes runs of {name!r} from {agent.runs.store.place}; Ctrl-C ends it"
            working = asyncio.create_task(agent.work(lambda: screen.note(ready)))
            stopped = asyncio.create_task(stop.event.wait())
            await asyncio.wait({working, stopped}, return_when=asyncio.FIRST_COMPLETED)
            if working.done():
                working.result()  # raises why it ended
            screen.note("calls in flight end; others continue the runs")
            working.cancel()
            await agent.close()
    return 128 + stop.number if stop.is_forced else 0


def _agent_of_program(target: str) -> "Agent":
    """The agent of `MODULE:NAME`, from this folder or installed."""
    module, _, name = target.partition(":")
    if not module or not name:
        raise Usage(f"expected MODULE:NAME, such as orders:agent, not {target!r}")
    folder = str(working_folder())
    if folder not in sys.path:
        sys.path.insert(0, folder)
    try:
        found: Any = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise Usage(f"{target}: {error}") from error
    from toolbus.agent import Agent

    if inspect.isfunction(found):
        found = found()
    if not isinstance(found, Agent):
        raise Usage(
            f"{target}: expected an Agent, or a function that returns one, not {type(found).__name__}"
        )
    if found.durable is None:
        raise Usage(f'{target}: the agent has no durable runs; create it with Agent(..., durable="runs.db")')
    return found


async def _agent_of_config(
    screen: Screen, settings: Settings, options: WorkerOptions, stack: AsyncExitStack
) -> "Agent":
    """An agent with all servers of the config."""
    config = load_trusted_config(settings)
    servers = selected_servers(config, ())
    with screen.spinner("loading the agent"):
        from toolbus.agent import Agent
        from toolbus.agent.durable import Durable
        from toolbus.cli.chat.run import create_model
    keys = keys_from_env_file(config)
    name = choose_model(options.model or variables().get("TOOLBUS_MODEL"), keys)
    model = await stack.enter_async_context(create_model(ModelChoice(model=name, keys=keys)))
    try:
        durable = Durable(store=chosen_store(options.store), agent=options.agent)
    except ValueError as error:
        raise Usage(str(error)) from None
    bus = await stack.enter_async_context(open_bus(screen, config, servers))
    return Agent(model, tools=[bus.view(caller=command_line())], approve=options.approve, durable=durable)
