"""An assistant with extensions: a folder with a manifest is enough to add MCP servers.

The agent uses the OpenAI Agents SDK. Run it in examples/: python extension/host.py
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
    """A fake language model: makes the calls of a script, then quotes the last result."""

    def __init__(self, *calls: tuple[str, dict[str, Any]]) -> None:
        self._calls = list(calls)

    async def get_response(self, *args: Any, **request: Any) -> ModelResponse:
        if self._calls:
            name, arguments = self._calls.pop(0)
            item: TResponseOutputItem = ResponseFunctionToolCall(
                name=name,
                arguments=json.dumps(arguments),
                call_id=f"call_{len(self._calls)}",
                type="function_call",
            )
        else:
            text = ResponseOutputText(
                text=f"I looked: {request['input'][-1]['output']}.", type="output_text", annotations=[]
            )
            item = ResponseOutputMessage(
                id="message", content=[text], role="assistant", status="completed", type="message"
            )
        return ModelResponse(output=[item], usage=Usage(), response_id=None)

    def stream_response(self, *args: Any, **request: Any) -> AsyncIterator[TResponseStreamEvent]:
        raise NotImplementedError("the script is not streamed")


class EventBus:
    """Receives the events of extensions."""

    async def publish(self, name: str, payload: Mapping[str, Any]) -> None:
        print(f"event {name}: {payload['server']}/{payload['tool']}, error: {payload['error']}")


class Context:
    """The context that every extension gets."""

    def __init__(self, secrets: Mapping[str, str]) -> None:
        self.event_bus = EventBus()
        self._secrets = secrets

    async def get_secret(self, name: str) -> str | None:
        return self._secrets.get(name)


class Loader:
    """Finds the extensions in a folder, and starts and stops them."""

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
