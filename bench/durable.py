"""Durable runs next to Pydantic AI's own DBOS integration: `python -m bench.durable [--postgres]`.

Both sides do the same: runs of four calls of one MCP server, one after another, each recorded. They take
turns in one run, each in a process of its own that counts its CPU; server and database are other processes.
"""

import argparse
import asyncio
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from pathlib import Path
from statistics import median

from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from bench.sides import ROOT, STDIO

CALLS = 4
MAX_STEPS = 12
MAX_RATIO = 1.4
RUNS = 20
"""Runs in a round."""


def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    """Call the tool four times, one after another, then answer."""
    parts = [part for message in messages for part in message.parts]
    made = sum(isinstance(part, ToolReturnPart) for part in parts)
    if made == CALLS:
        return ModelResponse([TextPart("Done.")])
    tool = next(tool.name for tool in info.function_tools if tool.name.endswith("echo"))
    return ModelResponse([ToolCallPart(tool, {"text": f"hello {made}"})])


async def toolbus_side(store: str) -> None:
    """Rounds of runs of toolbus, one for each line of the input."""
    from toolbus.agent import Agent
    from toolbus.agent.durable import Durable

    servers = {"bench": STDIO}
    async with Agent(FunctionModel(answer), mcp_servers=servers, durable=Durable(store=store)) as agent:

        async def run() -> int:
            begun = agent.start("Go.")
            assert await begun.final == "Done."
            return len(await asyncio.to_thread(agent.runs.store.client.list_workflow_steps, begun.id))

        await _rounds(run)


async def dbos_side(store: str) -> None:
    """The same of Pydantic AI with DBOS."""
    from dbos import DBOS
    from fastmcp.client.transports import StdioTransport
    from pydantic_ai import Agent
    from pydantic_ai.durable_exec.dbos import DBOSDurability
    from pydantic_ai.mcp import MCPToolset

    url = store if "://" in store else f"sqlite:///{store}"
    DBOS(config={"name": "bench", "system_database_url": url, "log_level": "ERROR", "enable_otlp": False})
    tools = MCPToolset(StdioTransport(**STDIO), id="bench")
    agent = Agent(FunctionModel(answer), name="bench", toolsets=[tools], capabilities=[DBOSDurability()])

    @DBOS.workflow()
    async def work(prompt: str) -> str:
        return (await agent.run(prompt)).output

    DBOS.launch()

    async def run() -> int:
        handle = await DBOS.start_workflow_async(work, "Go.")
        assert await handle.get_result() == "Done."
        return len(await DBOS.list_workflow_steps_async(handle.workflow_id))

    async with tools:
        await _rounds(run)
    DBOS.destroy()


async def _rounds(run: Callable[[], Awaitable[int]]) -> None:
    steps = await run()
    print(json.dumps({"steps": steps}), flush=True)
    while await asyncio.to_thread(sys.stdin.readline):
        cpu, began = time.process_time(), time.perf_counter()
        for _ in range(RUNS):
            await run()
        spent = (time.process_time() - cpu) / RUNS, (time.perf_counter() - began) / RUNS
        print(json.dumps({"cpu": spent[0], "seconds": spent[1]}), flush=True)


SIDES = {"toolbus": toolbus_side, "dbos": dbos_side}


class _Side:
    def __init__(self, name: str, store: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "bench.durable", "--side", name, "--store", store],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.steps: int = self._line()["steps"]
        self.rounds: list[dict[str, float]] = []

    def round(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        self.rounds.append(self._line())

    def _line(self):
        assert self._process.stdout is not None
        return json.loads(self._process.stdout.readline())

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(30)


def main() -> int:
    """Measure both sides in turn and print the ratio."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--side", choices=SIDES)
    parser.add_argument("--store")
    parser.add_argument("--postgres", action="store_true")
    parser.add_argument("--rounds", type=int, default=7)
    given = parser.parse_args()
    if given.side:
        asyncio.run(SIDES[given.side](given.store))
        return 0
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="toolbus-bench-")))
        if given.postgres:
            from tests.postgres import postgres_server

            server = stack.enter_context(postgres_server())
            stores = {name: server.database() for name in SIDES}
        else:
            stores = {name: str(folder / f"{name}.db") for name in SIDES}
        sides = {name: _Side(name, stores[name]) for name in SIDES}
        for side in sides.values():
            stack.callback(side.close)
        for _ in range(given.rounds):
            for side in sides.values():
                side.round()
        cpu = {name: median(one["cpu"] for one in side.rounds) for name, side in sides.items()}
        ratio = median(
            ours["cpu"] / theirs["cpu"]
            for ours, theirs in zip(sides["toolbus"].rounds, sides["dbos"].rounds, strict=True)
        )
        for name, side in sides.items():
            slow = median(one["seconds"] for one in side.rounds)
            print(
                f"{name:8} {side.steps:3} steps  {cpu[name] * 1e3:6.1f} ms of CPU  {slow * 1e3:6.1f} ms a run"
            )
        print(f"ratio of CPU: {ratio:.2f} (at most {MAX_RATIO}), steps at most {MAX_STEPS}")
        return int(ratio > MAX_RATIO or sides["toolbus"].steps > MAX_STEPS)


if __name__ == "__main__":
    sys.exit(main())
