"""The shared parts of the versions: tools whose effects a server keeps, and a model that follows a plan."""

import asyncio
import json
import os
import signal
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
from pydantic_ai.messages import (
    ModelMessage,
    ModelResponse,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models.function import AgentInfo, FunctionModel

from tests.durable.crash import note
from tests.durable.crash.plans import CROWD, PLANS, kind_of
from tests.inside.agent import lease
from toolbus.agent import Agent
from toolbus.agent.durable import Durable

FOLDER = Path(os.environ["CRASH_FOLDER"])
URL = f"http://127.0.0.1:{(FOLDER / 'port').read_text()}"
EFFECTS = {
    "url": f"{URL}/mcp",
    "trust_annotations": True,
    "include": ["write", "put", "look"],
    "repeatable": ["put"],
}
STOCK = {"url": f"{URL}/mcp", "include": ["reserve"]}
_client = httpx.AsyncClient(base_url=URL, trust_env=False, verify=False, timeout=60)

# Its own process table would show at once that a worker has ended; from another machine, only its lease does.
lease.host = lambda: ""


async def order(run: str, step: int) -> str:
    """Place an order."""
    return await _effect("order", run, step)


async def pay(run: str, step: int) -> str:
    """Pay for an order."""
    return await _effect("pay", run, step)


async def charge(run: str, step: int) -> str:
    """Pay for an order; this was `pay` once."""
    return await _effect("charge", run, step)


async def ship(run: str, step: int) -> str:
    """Ship an order."""
    return await _effect("ship", run, step)


async def _effect(tool: str, run: str, step: int) -> str:
    response = await _client.post("/effects", json={"tool": tool, "run": run, "step": step})
    response.raise_for_status()
    return response.text


def new_agent(version: str, tools: Sequence[Callable[..., Any]], servers: Mapping[str, Any]) -> Agent:
    """The agent of a version."""
    more: dict[str, Any] = json.loads(os.environ["CRASH_SETTINGS"])
    if os.environ.get("CRASH_PIN"):
        more["version"] = version
    settings = Durable(agent="orders", **more)
    return Agent(FunctionModel(_model(version)), tools=tools, mcp_servers=servers, durable=settings)


def _model(version: str) -> Callable[[list[ModelMessage], AgentInfo], Any]:
    """A model that makes the calls of a run one after another, and then repeats what they returned."""

    async def answer(messages: list[ModelMessage], _: AgentInfo) -> ModelResponse:
        parts = [part for message in messages for part in message.parts]
        (prompt,) = (part.content for part in parts if isinstance(part, UserPromptPart))
        results = [str(part.content) for part in parts if isinstance(part, ToolReturnPart)]
        (planned, run), step = str(prompt).split(), len(results)
        last = kind_of(results[-1]) if results else "-"
        note(FOLDER, f"model {run} {step} {version} {os.getpid()} {last}")
        await asyncio.sleep(0.05)
        if step == len(PLANS[planned]):
            return ModelResponse([TextPart(json.dumps(results))])
        arguments = {"run": run, "step": step}
        return ModelResponse(
            [ToolCallPart(PLANS[planned][step], arguments, tool_call_id=f"call_{run}_{step}")]
        )

    return answer


def main(agent: Agent, version: str) -> None:
    """Execute runs, and start some, until SIGTERM."""
    asyncio.run(_work_and_start(agent, version))


async def _work_and_start(agent: Agent, version: str) -> None:
    stopped = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopped.set)
    async with agent:
        ready = asyncio.Event()
        working = asyncio.create_task(agent.work(ready.set))
        await ready.wait()
        print("takes runs", flush=True)
        number = 0
        while not stopped.is_set():
            if len(await agent.runs.recent()) < CROWD:
                key = f"{version}-agent-{os.getpid()}-{number}"
                await agent.start(f"{version} {key}", key=key).recorded
                note(FOLDER, f"started {key} {version} agent")
                number += 1
            with suppress(TimeoutError):
                await asyncio.wait_for(stopped.wait(), float(os.environ["CRASH_PAUSE"]))
        working.cancel()
