"""An assistant whose abilities are extensions: a folder with a manifest is all that MCP needs.

The agent is one of the OpenAI Agents SDK. Run it in examples/: python assistant4/host.py
"""

import asyncio
import json
import logging
import sys
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

from agents import Agent, FunctionTool, Model, ModelResponse, RunConfig, Runner, Usage
from agents.items import TResponseOutputItem, TResponseStreamEvent
from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText

from toolbus.extension import Extension, load_extension


class ScriptedModel(Model):
    """Stands in for a language model: makes the calls of a script, then says what the last one gave."""

    def __init__(self, *calls: tuple[str, dict[str, Any]]) -> None:
        self._calls = list(calls)

    async def get_response(self, *args: Any, **asked: Any) -> ModelResponse:
        if self._calls:
            name, arguments = self._calls.pop(0)
            said: TResponseOutputItem = ResponseFunctionToolCall(
                name=name,
                arguments=json.dumps(arguments),
                call_id=f"call_{len(self._calls)}",
                type="function_call",
            )
        else:
            text = ResponseOutputText(
                text=f"I looked: {asked['input'][-1]['output']}.", type="output_text", annotations=[]
            )
            said = ResponseOutputMessage(
                id="message", content=[text], role="assistant", status="completed", type="message"
            )
        return ModelResponse(output=[said], usage=Usage(), response_id=None)

    def stream_response(self, *args: Any, **asked: Any) -> AsyncIterator[TResponseStreamEvent]:
        raise NotImplementedError("the script is not streamed")


class EventBus:
    """Where extensions tell what happens."""

    async def publish(self, name: str, payload: Mapping[str, Any]) -> None:
        print(f"event {name}: {payload['server']}/{payload['tool']}, error: {payload['error']}")


class Context:
    """What the kernel gives to every extension."""

    def __init__(self, secrets: Mapping[str, str]) -> None:
        self.event_bus = EventBus()
        self._secrets = secrets

    async def get_secret(self, name: str) -> str | None:
        return self._secrets.get(name)


class Loader:
    """Finds the extensions below a folder, and takes them through their lives."""

    def __init__(self, folder: Path) -> None:
        self._extensions: list[Extension] = [load_extension(path) for path in folder.glob("*/manifest.yaml")]

    async def start(self, context: Context) -> None:
        for extension in self._extensions:
            await extension.initialize(context)
            await extension.start()

    def get_all_tools(self) -> list[FunctionTool]:
        return [tool for extension in self._extensions for tool in extension.get_tools()]

    async def healthy(self) -> bool:
        return all([await extension.health_check() for extension in self._extensions])

    async def stop(self) -> None:
        for extension in reversed(self._extensions):
            await extension.stop()


async def main() -> None:
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(message)s", stream=sys.stdout)
    loader = Loader(Path(__file__).parent.parent)
    await loader.start(Context(secrets={}))
    try:
        tools = loader.get_all_tools()
        for tool in tools:
            print(f"tool {tool.name}: {tool.description}")
        model = ScriptedModel(
            ("mcp_notes_add", {"text": "buy tea"}),
            ("mcp_notes_search", {"word": "tea"}),
        )
        orchestrator = Agent(name="orchestrator", tools=[*tools], model=model)
        run = await Runner.run(
            orchestrator, "What did I want to buy?", run_config=RunConfig(tracing_disabled=True)
        )
        print("assistant:", run.final_output)
        print("healthy:", await loader.healthy())
    finally:
        await loader.stop()
    print("tools after the stop:", len(loader.get_all_tools()))


if __name__ == "__main__":
    asyncio.run(main())
