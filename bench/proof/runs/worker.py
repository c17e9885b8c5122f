"""A worker of durable runs that make gold calls; each run kills its worker once, between two calls."""

import asyncio
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

from pydantic_ai.messages import (
    ModelMessage,
    ModelResponse,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models.function import AgentInfo, FunctionModel

from toolbus import Toolbus
from toolbus.agent import Agent
from toolbus.agent.durable import Durable

PLAN = "plan.json"
"""The calls of each task, and after how many of them the worker is killed."""


def settings(folder: Path) -> Durable:
    """One run at a time, because the backends have one task open."""
    return Durable(store=str(folder / "runs.db"), beat=0.25, missed=4, poll=0.1, at_once=1)


def model(folder: Path) -> FunctionModel:
    """Makes the calls of a task one after another, and answers with their results."""
    plan: dict[str, Any] = json.loads((folder / PLAN).read_text())

    def answer(messages: list[ModelMessage], _: AgentInfo) -> ModelResponse:
        parts = [part for message in messages for part in message.parts]
        (task,) = (str(part.content) for part in parts if isinstance(part, UserPromptPart))
        results = [
            (str(part.content), part.outcome != "success")
            for part in parts
            if isinstance(part, ToolReturnPart)
        ]
        calls, deadly = plan[task]["calls"], plan[task]["deadly"]
        if len(results) == deadly:
            _die_once(folder / f"killed-{task}")
        if len(results) == len(calls):
            return ModelResponse([TextPart(json.dumps(results))])
        name, arguments = calls[len(results)]
        return ModelResponse([ToolCallPart(name, arguments, tool_call_id=f"call_{len(results)}")])

    return FunctionModel(answer)


def _die_once(killed: Path) -> None:
    try:
        os.close(os.open(killed, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return
    os.kill(os.getpid(), signal.SIGKILL)


async def work(folder: Path, url: str) -> None:
    """Execute runs until SIGTERM."""
    stopped = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopped.set)
    gateway: dict[str, Any] = {"servers": {"gold": {"url": url, "prefix": ""}}, "budget": False}
    async with Toolbus(gateway) as bus, Agent(model(folder), tools=[bus], durable=settings(folder)) as agent:
        working = asyncio.create_task(agent.work())
        await stopped.wait()
        working.cancel()


if __name__ == "__main__":
    asyncio.run(work(Path(sys.argv[1]), sys.argv[2]))
