"""A program with durable agents, for tests of deploys: `python -m tests.durable.deploys.program SPEC`.

Its model calls the tools that the prompt names, one after another, and then returns what they returned. Its
functions note who called them; one whose name begins with `hold` waits until the test lets it go on.
"""

import asyncio
import json
import logging
import signal
import sys
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from pydantic_ai import Tool
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from toolbus.agent import Agent
from toolbus.agent.durable import Durable


def answer(messages: list[ModelMessage], _: AgentInfo) -> ModelResponse:
    """The next call of the prompt, or all results."""
    parts = [part for message in messages for part in message.parts]
    (prompt,) = (str(part.content) for part in parts if part.part_kind == "user-prompt")
    done = [part for part in parts if isinstance(part, ToolReturnPart)]
    names = prompt.split()
    if len(done) == len(names):
        return ModelResponse([TextPart(" | ".join(str(part.content).partition(":")[0] for part in done))])
    return ModelResponse([ToolCallPart(names[len(done)], {}, tool_call_id=f"call_{len(done)}")])


def function(name: str, program: str, folder: Path) -> Tool[Any]:
    """A tool of that name."""

    async def called() -> str:
        with (folder / "calls").open("a") as calls:
            calls.write(f"{name} {program}\n")
        if name.startswith("hold"):
            (folder / f"{name}.reached").touch()
            while not (folder / f"{name}.go").exists():  # noqa: ASYNC110  another process writes it
                await asyncio.sleep(0.02)
        return f"{name} by {program}"

    return Tool(called, name=name, description=f"Call {name}.")


def agent(spec: dict[str, Any], own: dict[str, Any], folder: Path) -> Agent:
    """One agent of the program."""
    more = {name: own[name] for name in ("version", "at_once") if name in own}
    more |= {"beat": 0.25, "missed": 1000, "poll": 0.05, "drain": 0.1}  # the process table tells who is dead
    durable = Durable(store=spec["store"], agent=own.get("agent", "agent"), **more)
    tools = [function(name, spec["program"], folder) for name in own["tools"]]
    servers = own.get("servers")
    return Agent(FunctionModel(answer), tools=tools, mcp_servers=servers, durable=durable)


async def run(spec: dict[str, Any]) -> None:
    """Start the runs of the program, and go on until SIGTERM."""
    folder, stopped = Path(spec["folder"]), asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopped.set)
    ready: Callable[[], None] = (folder / f"{spec['program']}.ready").touch
    async with AsyncExitStack() as stack:
        for own in spec["agents"]:
            entered = await stack.enter_async_context(agent(spec, own, folder))
            for key, prompt in own.get("start", {}).items():
                await entered.start(prompt, key=key).recorded
            if not own.get("start") and spec.get("works", True):
                working = asyncio.create_task(entered.work(ready))
                stack.callback(working.cancel)
            else:
                ready()
        await stopped.wait()


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO)
    asyncio.run(run(json.loads(sys.argv[1])))
