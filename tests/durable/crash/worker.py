"""A worker of the kill test."""

import asyncio
import json
import logging
import os
import signal
import sys
from dataclasses import replace
from pathlib import Path

from pydantic_ai.messages import (
    ModelMessage,
    ModelResponse,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models.function import AgentInfo, FunctionModel

from tests.durable.crash import STEPS, kill_here, note, tool_of
from toolbus import Toolbus
from toolbus.agent import Agent
from toolbus.agent.durable import Durable, lease
from toolbus.call import Next
from toolbus.core.operation.operation import Operation
from toolbus.core.values.records import ToolResult

BEAT, MISSED = 0.25, 4


def settings(store: str) -> Durable:
    """Leases of one second."""
    return Durable(store=store, beat=BEAT, missed=MISSED, poll=0.1, at_once=4, drain=5)


def model(folder: Path) -> FunctionModel:
    """Makes the calls of a run one after another, and then repeats what they returned."""

    def answer(messages: list[ModelMessage], _: AgentInfo) -> ModelResponse:
        parts = [part for message in messages for part in message.parts]
        (prompt,) = (part.content for part in parts if isinstance(part, UserPromptPart))
        results = [str(part.content) for part in parts if isinstance(part, ToolReturnPart)]
        run, step = int(str(prompt)), len(results)
        note(folder, f"model {run} {step}")
        kill_here(folder, run, step, "model", os.getpid())
        if step == STEPS:
            return ModelResponse([TextPart(json.dumps(results))])
        name, arguments = f"effects_{tool_of(step)}", {"run": str(run), "step": step}
        return ModelResponse([ToolCallPart(name, arguments, tool_call_id=f"call_{run}_{step}")])

    return FunctionModel(answer)


def hook(folder: Path):
    """Kills the worker right before a call is sent, and right after its result."""

    async def around(call: Operation, go_on: Next) -> ToolResult:
        run, step = int(call.arguments["run"]), call.arguments["step"]
        kill_here(folder, run, step, "intent", os.getpid())
        result = await go_on(replace(call, arguments={**call.arguments, "pid": os.getpid()}))
        kill_here(folder, run, step, "unrecorded", os.getpid())
        return result

    return around


async def work(store: str, folder: Path) -> None:
    """Work until SIGTERM."""
    url = f"http://127.0.0.1:{(folder / 'port').read_text()}/mcp"
    servers = {"effects": {"url": url, "trust_annotations": True, "repeatable": ["put"]}}
    stopped = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopped.set)
    async with (
        Toolbus(servers, hooks=[hook(folder)]) as bus,
        Agent(model(folder), tools=[bus], durable=settings(store)) as agent,
    ):
        working = asyncio.create_task(agent.work())
        await stopped.wait()
        working.cancel()


def main() -> None:
    """Be a worker of the kill test, in a process of its own."""
    store, folder, where = sys.argv[1:]
    logging.basicConfig(filename=Path(folder) / f"worker-{os.getpid()}.log", level=logging.INFO)
    if where == "remote":
        # As on another machine: nobody sees that its process has ended, and its lease decides.
        lease.host = lambda: ""
    asyncio.run(work(store, Path(folder)))


if __name__ == "__main__":
    main()
