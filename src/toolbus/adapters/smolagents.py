"""Tools and prompts of a bus for smolagents: `ToolCallingAgent(tools(bus), model)`, or `live(agent, bus)`."""

import asyncio
import json
from collections import Counter
from collections.abc import Callable
from hashlib import sha256
from typing import Any, TypeAlias, TypeVar

from toolbus.adapters.calls import facts, parsed
from toolbus.adapters.declared import declared
from toolbus.adapters.extra import needs
from toolbus.adapters.media import PICTURES, told
from toolbus.adapters.prompts import Part, turns
from toolbus.adapters.smolagents_inputs import Inputs, as_function, as_json, description, identifier
from toolbus.adapters.smolagents_pictures import opened
from toolbus.adapters.tool_list import Bus, Offer, Servers, Source
from toolbus.bus.tool import Tool
from toolbus.core.errors import ToolbusError
from toolbus.core.records import JSON, Image, PromptResult, Text, ToolResult
from toolbus.shape import Dialect, rendered, rendered_text

with needs("smolagents"):  # which comes without types
    from PIL import Image as Pillow
    from smolagents import ActionStep, MultiStepAgent  # pyright: ignore[reportMissingTypeStubs]
    from smolagents import Tool as AgentTool  # pyright: ignore[reportMissingTypeStubs]
    from smolagents.memory import SystemPromptStep  # pyright: ignore[reportMissingTypeStubs]
    from smolagents.models import ChatMessage, MessageRole  # pyright: ignore[reportMissingTypeStubs]

Agent = TypeVar("Agent", bound=MultiStepAgent)
Run: TypeAlias = Callable[[Tool, dict[str, JSON]], ToolResult]
GLANCE = 0.1
"""Seconds between two looks at whether a run was interrupted: smolagents has a flag for that, no signal."""


def tools(source: Source, servers: Servers = None, *, dialect: Dialect = "openai") -> "Offer[BusTool]":
    """The tools, for any agent; of a picture its model reads one line that describes it.

    smolagents blocks while it runs: give it a thread, `asyncio.to_thread(agent.run, task)`, or a SyncToolbus.
    """
    return BusTools(source, lambda tool: BusTool(tool, dialect, _waited), servers)


def live(agent: Agent, bus: Bus, servers: Servers = None, *, dialect: Dialect = "openai") -> Agent:
    """The same agent with the tools as they are at every step; its model sees pictures.

    `agent.interrupt()` also cancels the calls under way. A tool that the agent has already keeps its name.
    """
    LiveTools(agent, bus, servers, dialect)
    return agent


def messages(prompt: PromptResult) -> list[ChatMessage]:
    """The messages of a prompt, for `model.generate`; sound and files are described in words."""
    return [
        ChatMessage(role=MessageRole(turn.role), content=[*map(_content, turn.parts)])
        for turn in turns(prompt.messages, PICTURES)
    ]


class ToolFailed(Exception):
    """A tool that code called failed, or the call could not be made; says what the model would read."""


class BusTool(AgentTool):
    """A tool of smolagents that runs one of a bus; `metadata` says whose it is."""

    skip_forward_signature_validation = True

    def __init__(self, tool: Tool, dialect: Dialect, run: Run) -> None:
        super().__init__()  # pyright: ignore[reportUnknownMemberType]  of smolagents
        said = declared(tool, dialect)
        self.tool = tool
        self.name = identifier(said.name)
        self.description = description(said)
        self.inputs: Any = Inputs(said.parameters)
        self.output_schema = None if tool.spec.output_schema is None else dict(tool.spec.output_schema)
        self.output_type = "string" if self.output_schema is None else "object"
        self.metadata = facts(tool)
        self._run = run

    # Positional-only, so that a tool may have an argument called "self".
    def __call__(self, /, *args: Any, sanitize_inputs_outputs: bool = False, **arguments: JSON) -> Any:
        """Run the tool: for a model, which is told of a failure, or for code, where it raises."""
        if not sanitize_inputs_outputs:
            return self.forward(*args, **arguments)
        # Of the calls of one turn, one that raises would take the results of all others with it.
        given: dict[str, JSON] | ToolResult = arguments
        if args:
            given = parsed(args[0] if isinstance(args[0], str) else json.dumps(args[0]), self.tool)
        return answer(self.tool, given if isinstance(given, ToolResult) else self._run(self.tool, given))

    def forward(self, /, *args: Any, **arguments: JSON) -> Any:
        """Run the tool for code; raises `ToolFailed`."""
        if len(args) > len(self.inputs):
            raise ToolFailed(f"{self.name} takes at most {len(self.inputs)} arguments, not {len(args)}")
        result = self._run(self.tool, {**dict(zip(self.inputs, args, strict=False)), **arguments})
        if result.is_error:
            raise ToolFailed(rendered_text(result))
        return answer(self.tool, result)

    def to_code_prompt(self) -> str:
        """The tool in the system prompt of an agent that writes code."""
        return as_function(self.name, self.description, self.inputs, self.output_schema)

    def to_tool_calling_prompt(self) -> str:
        """The tool in any other system prompt, for models that read it there."""
        takes = as_json(self.inputs.properties)
        return f"{self.name}: {self.description}\n    Takes inputs: {takes}\n    Returns: {self.output_type}"

    def to_dict(self) -> dict[str, Any]:
        """Raises: the tool lives on a bus of this process, and cannot be saved or sent to another."""
        raise ValueError(f"{self.name!r} runs in this process; use executor_type='local'")


class Answer(str):
    """What the model reads. For code, `result` holds all that came; `pictures(result)` opens its images."""

    result: ToolResult
    metadata: dict[str, JSON]


class Record(dict[str, JSON]):
    """The structured content, for code; as text, what the model reads. `result` holds all that came."""

    result: ToolResult
    metadata: dict[str, JSON]

    def __str__(self) -> str:
        return rendered_text(self.result)


def answer(tool: Tool, result: ToolResult) -> Answer | Record:
    """The result as smolagents hands it on: a dict where the tool promised one."""
    content: JSON = None if tool.spec.output_schema is None else result.structured
    made = Record(content) if isinstance(content, dict) else Answer(rendered_text(result))  # pyright: ignore[reportUnknownArgumentType]  JSON
    made.result, made.metadata = result, facts(tool, result)
    return made


def pictures(result: ToolResult) -> list[Pillow.Image]:
    """The images that can be opened; the text has a line for each image, opened or not."""
    return [picture for image in _images(result) if (picture := opened(image)) is not None]


class BusTools(Offer[BusTool]):
    """The tools, under names that are identifiers; where two become one, the changed one takes a digest."""

    def refresh(self) -> None:
        """Take over what the catalog has now."""
        super().refresh()
        count = Counter(identifier(tool.tool.name) for tool in self)
        for tool in self:
            own, tool.name = tool.tool.name, identifier(tool.tool.name)
            if count[tool.name] > 1 and tool.name != own:
                tool.name = f"{tool.name[:55]}_{sha256(own.encode()).hexdigest()[:8]}"


class LiveTools(BusTools):
    """The tools of one agent, in step with the catalog, and what they gave in its current step."""

    def __init__(self, agent: MultiStepAgent, bus: Bus, servers: Servers, dialect: Dialect) -> None:
        self._agent: Any = agent
        self._results: list[ToolResult] = []
        super().__init__(bus, lambda tool: BusTool(tool, dialect, self._run), servers, follow=True)
        # Also what holds the list: it is followed for as long as the agent is there.
        self._agent.step_callbacks.register(ActionStep, self._show)

    def refresh(self) -> None:
        """Give the agent what the catalog has now; between steps or in one, from any thread."""
        agent, before = self._agent, list(self)
        super().refresh()
        others = {name: tool for name, tool in agent.tools.items() if tool not in before}
        agent.tools = {**{tool.name: tool for tool in self}, **others}
        agent.memory.system_prompt = SystemPromptStep(agent.system_prompt)
        if getattr(agent, "python_executor", None) is not None:
            agent.python_executor.send_tools({**agent.tools, **agent.managed_agents})

    def _run(self, tool: Tool, arguments: dict[str, JSON]) -> ToolResult:
        try:
            result = tool.runner.wait(self._unless_interrupted(tool, arguments))
        except ToolbusError as error:
            return ToolResult.failure(str(error))
        self._results.append(result)
        return result

    async def _unless_interrupted(self, tool: Tool, arguments: dict[str, JSON]) -> ToolResult:
        call = asyncio.ensure_future(tool.run(arguments))
        try:
            while not getattr(self._agent, "interrupt_switch", False):
                done, _ = await asyncio.wait([call], timeout=GLANCE)
                if done:
                    return call.result()
            return ToolResult.failure("the run was interrupted")
        finally:
            call.cancel()

    def _show(self, step: ActionStep) -> None:
        """After a step: put its pictures where the model sees them, and say which could not be opened."""
        results, self._results = self._results, []
        found = [(image, opened(image)) for result in results for image in _images(result)]
        shown = [picture for _, picture in found if picture is not None]
        if shown:
            step.observations_images = [*(step.observations_images or []), *shown]
        if missing := [_not_opened(image) for image, picture in found if picture is None]:
            step.observations = "\n".join([step.observations or "", *missing]).lstrip("\n")


def _waited(tool: Tool, arguments: dict[str, JSON]) -> ToolResult:
    return tool.execute_sync(**arguments)


def _images(result: ToolResult) -> list[Image]:
    return [block for block in rendered(result, images=True) if isinstance(block, Image)]


def _not_opened(image: Image) -> str:
    return f"{told(image).text} is not shown: it could not be opened"


def _content(part: Part) -> dict[str, Any]:
    if isinstance(part, Image):
        picture = opened(part)
        if picture is not None:
            return {"type": "image", "image": picture}
        part = Text(text=_not_opened(part))
    assert isinstance(part, Text), f"{type(part).__name__} where none was asked for"
    return {"type": "text", "text": part.text}
