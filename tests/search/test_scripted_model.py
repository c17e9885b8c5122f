"""A scripted model with many real tools: it searches in the words of its task, and calls what it found."""

import json
import re
from collections.abc import Mapping
from typing import Any

import pytest

from tests.conftest import sampled
from tests.inside.code import argument_names, identifier
from tests.inside.shape import estimated_tokens
from tests.search.bench_servers import Called, arguments_for, config, tasks
from tests.shape.corpus import by_server_name
from toolbus import Toolbus
from toolbus.adapters import anthropic, openai
from toolbus.records import JSON, ToolSpec

pytestmark = pytest.mark.anyio

SECOND_QUERIES = 0.3
"""The share of tasks that may need a second query. Labels are noisy: the right tool for "write a report" is
said to be `get-smzdm-rank`."""


class TwoTools:
    """A model that is shown `search_tools` and `call_tool`."""

    def __init__(self, bus: Toolbus, **options: Any) -> None:
        options.setdefault("native", False)
        self.toolbox = anthropic.tools(bus, **options)

    @property
    def shown(self) -> list[JSON]:
        """The definitions that the model sees before it searches."""
        return [tool for tool in self.toolbox if tool.get("defer_loading") is not True]

    async def reply(self, name: str, arguments: Mapping[str, JSON]) -> JSON:
        """The content of the result of a call."""
        call = {"type": "tool_use", "id": "1", "name": name, "input": arguments}
        [message] = await self.toolbox.replies({"role": "assistant", "content": [call]})
        [result] = json.loads(json.dumps(message))["content"]
        assert not result["is_error"], result
        return result["content"]

    async def find(self, query: str) -> list[str]:
        """The names that a search shows."""
        lines = str(await self.reply("search_tools", {"queries": [query]})).splitlines()
        found = [json.loads(line) for line in lines[1:]]
        return [name for one in found for name in (one["name"], *one.get("similar", ()))]

    async def call(self, spec: ToolSpec) -> str:
        """The result of a tool that was found."""
        given = {"name": spec.name, "arguments": arguments_for(spec.input_schema)}
        return str(await self.reply("call_tool", given))


class Anthropic(TwoTools):
    """A model of Anthropic, which loads tools."""

    def __init__(self, bus: Toolbus) -> None:
        super().__init__(bus, native=True)

    async def find(self, query: str) -> list[str]:
        content = await self.reply("search_tools", {"queries": [query]})
        return [] if isinstance(content, str) else [part["tool_name"] for part in content]

    async def call(self, spec: ToolSpec) -> str:
        return str(await self.reply(spec.name, arguments_for(spec.input_schema)))


class Responses:
    """A model of OpenAI, which loads tools."""

    def __init__(self, bus: Toolbus) -> None:
        self.toolbox = openai.tools(bus, dialect="openai-responses")
        self.shown: list[JSON] = list(self.toolbox)

    async def find(self, query: str) -> list[str]:
        """The names that a search loads."""
        item = {"type": "tool_search_call", "execution": "client", "call_id": "1", "status": "completed"}
        [output] = await self.toolbox.replies({"output": [{**item, "arguments": {"queries": [query]}}]})
        namespaces = json.loads(json.dumps(output))["tools"]
        return [tool["name"] for namespace in namespaces for tool in namespace["tools"]]

    async def call(self, spec: ToolSpec) -> str:
        """The result of a tool that was loaded."""
        given = json.dumps(arguments_for(spec.input_schema))
        item = {"type": "function_call", "call_id": "2", "name": spec.name, "arguments": given}
        [output] = await self.toolbox.replies({"output": [item]})
        return json.loads(json.dumps(output))["output"]


class Scripts(TwoTools):
    """A model that is shown `search_tools` and `run_code`, and calls what it found in a script."""

    def __init__(self, bus: Toolbus) -> None:
        super().__init__(bus, expose="code")
        self.names = {identifier(name): name for name in bus.catalog.names}

    async def find(self, query: str) -> list[str]:
        text = str(await self.reply("search_tools", {"queries": [query]}))
        more = re.findall(r"^# Search for these names to see them: (.*)$", text, re.MULTILINE)
        found = re.findall(r"^async def (\w+)", text, re.MULTILINE) + ", ".join(more).split(", ")
        return [self.names[name] for name in found if name]

    async def call(self, spec: ToolSpec) -> str:
        given: Mapping[str, JSON] = arguments_for(spec.input_schema)
        names = argument_names(spec.input_schema.get("properties") or {})
        passed = ", ".join(f"{name}={given[own]!r}" for name, own in names.items() if own in given)
        script = f"await {identifier(spec.name)}({passed})"
        return str(await self.reply("run_code", {"script": script}))


@pytest.mark.parametrize("kind", sampled([TwoTools, Anthropic, Responses, Scripts], TwoTools, Scripts))
async def test_a_scripted_model_calls_the_right_tool_in_every_task(kind: Any) -> None:
    called: Called = []
    second = 0
    async with Toolbus(config(called, expose="search")) as bus:
        await bus.wait_ready()
        assert len(bus.catalog) == len(by_server_name())
        model = kind(bus)
        for query, right in tasks():
            specs = [bus.catalog[origin] for origin in right]
            seen = await model.find(query)
            if not any(spec.name in seen for spec in specs):
                # A model that does not see what it needs describes the tool that it has in mind.
                seen = await model.find(" ".join(specs[0].description.split()[:12]))
                second += 1
            spec = next(spec for spec in specs if spec.name in seen)
            assert await model.call(spec) == f"{spec.origin.tool} of {spec.origin.server} is done"
            assert called.pop() == (spec.origin.server, spec.origin.tool)
    assert not called
    assert second <= SECOND_QUERIES * len(tasks())


@pytest.mark.parametrize("kind", [TwoTools, Anthropic, Responses, Scripts])
async def test_the_first_request_costs_a_twentieth_of_all_tools(kind: Any) -> None:
    copies = -(-500 // len(by_server_name()))
    async with Toolbus(config([], copies=copies, expose="search")) as bus:
        await bus.wait_ready()
        everything = TwoTools(bus, expose="all").shown
        assert len(everything) == copies * len(by_server_name())
        first = estimated_tokens(json.dumps(kind(bus).shown))
        assert first <= 0.05 * estimated_tokens(json.dumps(everything))
