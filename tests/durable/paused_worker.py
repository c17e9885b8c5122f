"""A worker whose calls wait for a file: `python -m tests.durable.paused_worker STORE FOLDER`."""

import asyncio
import logging
import signal
import sys
from pathlib import Path

from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from toolbus.agent import Agent
from toolbus.agent.durable import Durable, lease


def answer(messages: list[ModelMessage], _: AgentInfo) -> ModelResponse:
    """Two calls, and their outcome."""
    parts = [part for message in messages for part in message.parts if isinstance(part, ToolReturnPart)]
    if len(parts) < 2:
        return ModelResponse([ToolCallPart("hold", {}, tool_call_id=f"call_{len(parts)}")])
    texts = [str(part.content).partition(":")[0] for part in parts]
    return ModelResponse([TextPart(", then ".join(texts))])


async def work(store: str, folder: Path) -> None:
    """Work until SIGTERM."""

    async def hold() -> str:
        """Wait until the test lets it go on."""
        (folder / "reached").touch()
        while not (folder / "go").exists():  # noqa: ASYNC110  another process writes it
            await asyncio.sleep(0.02)
        return f"held by {folder.name}"

    stopped = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopped.set)
    settings = Durable(store=store, beat=0.25, missed=4, poll=0.1, drain=1)
    async with Agent(FunctionModel(answer), tools=[hold], durable=settings) as agent:
        working = asyncio.create_task(agent.work())
        await stopped.wait()
        working.cancel()


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO)
    lease.host = lambda: ""  # as on another machine: only its lease says whether it lives
    asyncio.run(work(sys.argv[1], Path(sys.argv[2])))
