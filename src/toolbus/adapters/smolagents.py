"""Tools and prompts for smolagents: `ToolCallingAgent(tools(bus), model)`, or `live(agent, bus)`."""

import asyncio
import io
import json
import keyword
import re
import struct
import zlib
from collections import Counter
from collections.abc import Callable, Iterable
from hashlib import sha256
from typing import Any, TypeAlias, TypeVar

from toolbus.adapters.media import IMAGE_TYPES, Part, described, prompt_turns
from toolbus.adapters.options import require_extra
from toolbus.adapters.tool_calls import ToolDefinition, definition_of, parse_arguments, tool_metadata
from toolbus.adapters.tool_list import Bus, Servers, ToolList, ToolSource, shown
from toolbus.bus.catalog.tool import Tool
from toolbus.bus.inner import calls_of, view_of
from toolbus.bus.rules.scope import Names
from toolbus.config.settings.expose import ExposeMode
from toolbus.core.values.errors import ToolbusError
from toolbus.core.values.records import JSON, Image, PromptResult, Text, ToolResult
from toolbus.shape import Dialect, rendered, rendered_text

with require_extra("smolagents"):
    from PIL import Image as Pillow
    from smolagents import ActionStep, MultiStepAgent  # pyright: ignore[reportMissingTypeStubs]
    from smolagents import Tool as AgentTool  # pyright: ignore[reportMissingTypeStubs]
    from smolagents.memory import SystemPromptStep  # pyright: ignore[reportMissingTypeStubs]
    from smolagents.models import ChatMessage, MessageRole  # pyright: ignore[reportMissingTypeStubs]

__all__ = ["live", "messages", "tools"]

Agent = TypeVar("Agent", bound=MultiStepAgent)
RunTool: TypeAlias = Callable[[Tool, dict[str, JSON]], ToolResult]
FACE = "smolagents"
POLL_SECONDS = 0.1
"""The time between checks for an interrupted run: smolagents has a flag for it, not a signal."""


def tools(
    source: ToolSource,
    servers: Servers = None,
    *,
    dialect: Dialect = "openai",
    expose: ExposeMode | None = None,
    always: Names = None,
) -> "ToolList[BusTool]":
    """The tools, for any agent; images are described in one line of text.

    smolagents blocks while it runs: use a thread, `asyncio.to_thread(agent.run, task)`, or a SyncToolbus.
    """
    return BusTools(
        shown(source, expose, always), lambda tool: BusTool(tool, dialect, _run_sync), servers, face=FACE
    )


def live(
    agent: Agent,
    bus: Bus,
    servers: Servers = None,
    *,
    dialect: Dialect = "openai",
    expose: ExposeMode | None = None,
    always: Names = None,
) -> Agent:
    """Add the tools to an agent, update them every step, and return the agent; its model sees images.

    `agent.interrupt()` also cancels the calls in flight. A tool that the agent already has keeps its name.
    """
    LiveTools(agent, shown(bus, expose, always), servers, dialect)
    return agent


def messages(prompt: PromptResult) -> list[ChatMessage]:
    """The messages of a prompt, for `model.generate`; audio and files are described in text."""
    return [
        ChatMessage(role=MessageRole(turn.role), content=[*map(_content, turn.parts)])
        for turn in prompt_turns(prompt.messages, IMAGE_TYPES)
    ]


class ToolFailed(Exception):
    """A tool called by code failed, or could not be called; the message is what a model would read."""


class BusTool(AgentTool):
    """A smolagents tool that runs a tool of a bus; `metadata` names its server."""

    skip_forward_signature_validation = True

    def __init__(self, tool: Tool, dialect: Dialect, run: RunTool) -> None:
        super().__init__()  # pyright: ignore[reportUnknownMemberType]  untyped in smolagents
        definition = definition_of(tool, dialect)
        self.tool = tool
        self.name = _identifier(definition.name)
        self.description = _full_description(definition)
        self.inputs: Any = _Inputs(definition.parameters)
        self.output_schema = None if tool.spec.output_schema is None else dict(tool.spec.output_schema)
        self.output_type = "string" if self.output_schema is None else "object"
        self.metadata = tool_metadata(tool)
        self._run = run

    # Positional-only, so that a tool may have an argument called "self".
    def __call__(self, /, *args: Any, sanitize_inputs_outputs: bool = False, **arguments: JSON) -> Any:
        """Run the tool: for a model, which reads failures as text, or for code, which gets an exception."""
        if not sanitize_inputs_outputs:
            return self.forward(*args, **arguments)
        # If one call of a turn raised, the results of all the others would be lost.
        parsed: dict[str, JSON] | ToolResult = arguments
        if args:
            parsed = parse_arguments(args[0] if isinstance(args[0], str) else json.dumps(args[0]), self.tool)
        return tool_output(
            self.tool, parsed if isinstance(parsed, ToolResult) else self._run(self.tool, parsed)
        )

    def forward(self, /, *args: Any, **arguments: JSON) -> Any:
        """Run the tool for code; raises `ToolFailed`."""
        if len(args) > len(self.inputs):
            raise ToolFailed(f"{self.name} takes at most {len(self.inputs)} arguments, not {len(args)}")
        result = self._run(self.tool, {**dict(zip(self.inputs, args, strict=False)), **arguments})
        if result.is_error:
            raise ToolFailed(rendered_text(result))
        return tool_output(self.tool, result)

    def to_code_prompt(self) -> str:
        """The tool in the system prompt of an agent that writes code."""
        return _as_function(self.name, self.description, self.inputs, self.output_schema)

    def to_tool_calling_prompt(self) -> str:
        """The tool in any other system prompt, for models that read it there."""
        inputs = _as_json(self.inputs.properties)
        return f"{self.name}: {self.description}\n    Takes inputs: {inputs}\n    Returns: {self.output_type}"

    def to_dict(self) -> dict[str, Any]:
        """Raises: the tool needs the bus of this process, so it cannot be saved or sent elsewhere."""
        raise ValueError(f"{self.name!r} runs in this process; use executor_type='local'")


class TextOutput(str):
    """The text for the model. For code, `result` is the full result; `pictures(result)` opens its images."""

    result: ToolResult
    metadata: dict[str, JSON]


class StructuredOutput(dict[str, JSON]):
    """The structured content for code; its `str` is the text for the model. `result` is the full result."""

    result: ToolResult
    metadata: dict[str, JSON]

    def __str__(self) -> str:
        return rendered_text(self.result)


def tool_output(tool: Tool, result: ToolResult) -> TextOutput | StructuredOutput:
    """The result in the form that smolagents forwards: a dict if the tool has an output schema."""
    content: JSON = None if tool.spec.output_schema is None else result.structured
    output = StructuredOutput(content) if isinstance(content, dict) else TextOutput(rendered_text(result))  # pyright: ignore[reportUnknownArgumentType]  JSON
    output.result, output.metadata = result, tool_metadata(tool, result)
    return output


def pictures(result: ToolResult) -> list[Pillow.Image]:
    """The images that can be opened; the text has a line for every image."""
    return [opened for image in _images(result) if (opened := _open_image(image)) is not None]


class BusTools(ToolList[BusTool]):
    """The tools, named by Python identifiers; if two would clash, the changed name gets a digest."""

    def refresh(self) -> None:
        """Update the list in place."""
        super().refresh()
        count = Counter(_identifier(tool.tool.name) for tool in self)
        for tool in self:
            original, tool.name = tool.tool.name, _identifier(tool.tool.name)
            if count[tool.name] > 1 and tool.name != original:
                tool.name = f"{tool.name[:55]}_{sha256(original.encode()).hexdigest()[:8]}"


class LiveTools(BusTools):
    """The tools of one agent, kept up to date with the catalog, and their results in its current step."""

    def __init__(self, agent: MultiStepAgent, bus: Bus, servers: Servers, dialect: Dialect) -> None:
        self._agent: Any = agent
        self._results: list[ToolResult] = []
        super().__init__(bus, lambda tool: BusTool(tool, dialect, self._run), servers, face=FACE, follow=True)
        # The callback also keeps the list alive, and so up to date, as long as the agent exists.
        self._agent.step_callbacks.register(ActionStep, self._show_images)

    def refresh(self) -> None:
        """Update the agent's tools; between steps or during one, from any thread."""
        agent, previous = self._agent, list(self)
        super().refresh()
        others = {name: tool for name, tool in agent.tools.items() if tool not in previous}
        agent.tools = {**{tool.name: tool for tool in self}, **others}
        agent.memory.system_prompt = SystemPromptStep(agent.system_prompt)
        if getattr(agent, "python_executor", None) is not None:
            agent.python_executor.send_tools({**agent.tools, **agent.managed_agents})

    def _run(self, tool: Tool, arguments: dict[str, JSON]) -> ToolResult:
        try:
            result = calls_of(view_of(tool)).wait(self._unless_interrupted(tool, arguments))
        except ToolbusError as error:
            return ToolResult.failure(str(error), sent=error.sent)
        self._results.append(result)
        return result

    async def _unless_interrupted(self, tool: Tool, arguments: dict[str, JSON]) -> ToolResult:
        call = asyncio.ensure_future(tool.run(arguments))
        try:
            while not getattr(self._agent, "interrupt_switch", False):
                done, _ = await asyncio.wait([call], timeout=POLL_SECONDS)
                if done:
                    return call.result()
            return ToolResult.failure("the run was interrupted")
        finally:
            call.cancel()

    def _show_images(self, step: ActionStep) -> None:
        """After a step: show its images to the model, and name those that could not be opened."""
        results, self._results = self._results, []
        found = [(image, _open_image(image)) for result in results for image in _images(result)]
        images = [opened for _, opened in found if opened is not None]
        if images:
            step.observations_images = [*(step.observations_images or []), *images]
        if missing := [_not_opened(image) for image, opened in found if opened is None]:
            step.observations = "\n".join([step.observations or "", *missing]).lstrip("\n")


def _run_sync(tool: Tool, arguments: dict[str, JSON]) -> ToolResult:
    return tool.execute_sync(**arguments)


def _images(result: ToolResult) -> list[Image]:
    return [block for block in rendered(result, images=True) if isinstance(block, Image)]


def _not_opened(image: Image) -> str:
    return f"{described(image).text} is not shown: it could not be opened"


def _content(part: Part) -> dict[str, Any]:
    if isinstance(part, Image):
        image = _open_image(part)
        if image is not None:
            return {"type": "image", "image": image}
        part = Text(text=_not_opened(part))
    assert isinstance(part, Text), f"unexpected {type(part).__name__}"
    return {"type": "text", "text": part.text}


_PNG = b"\x89PNG\r\n\x1a\n"


def _open_image(image: Image) -> Pillow.Image | None:
    """The image; None if Pillow does not know its format, or it is broken.

    Pillow rejects a PNG with a wrong checksum, which browsers and providers accept. Its option for that
    applies to the whole process, so the checksums are corrected here instead.
    """
    return _read(image.data) or (
        _read(_with_right_checksums(image.data)) if image.data.startswith(_PNG) else None
    )


def _read(data: bytes) -> Pillow.Image | None:
    try:
        return Pillow.open(io.BytesIO(data)).copy()
    except (OSError, ValueError, SyntaxError, Pillow.DecompressionBombError):
        return None


def _with_right_checksums(data: bytes) -> bytes:
    """Correct the checksum of every chunk of a PNG; a chunk is length, type, content and checksum."""
    parts, at = [_PNG], len(_PNG)
    while at + 12 <= len(data):
        length = int.from_bytes(data[at : at + 4])
        chunk = data[at + 4 : at + 8 + length]
        parts += [data[at : at + 4], chunk, struct.pack(">I", zlib.crc32(chunk))]
        at += 12 + length
    return b"".join(parts)


class _Inputs(dict[str, dict[str, JSON]]):
    """The arguments as smolagents validates them: it accepts anything, and the bus validates.

    A deep copy, which smolagents makes to send it to a model, is the real schema.
    """

    def __init__(self, parameters: dict[str, JSON]) -> None:
        self.properties: dict[str, JSON] = parameters.get("properties") or {}
        self._required: Iterable[str] = parameters.get("required") or ()
        super().__init__({name: self.__missing__(name) for name in self.properties})

    def __contains__(self, name: object) -> bool:
        return True

    def __missing__(self, name: str) -> dict[str, JSON]:
        description = self.properties.get(name, {}).get("description", "")
        return {"type": "any", "description": description, "nullable": True}

    def __deepcopy__(self, memo: dict[int, Any]) -> "dict[str, _FullSchema]":
        return {name: _FullSchema(schema, name in self._required) for name, schema in self.properties.items()}


class _FullSchema(dict[str, JSON]):
    """A schema that is sent unchanged: smolagents would rewrite `anyOf` if it saw one.

    smolagents treats arguments that are not `nullable` as required, so `nullable` can be read but is not
    sent.
    """

    def __init__(self, schema: dict[str, JSON], required: bool) -> None:
        super().__init__(schema)
        self._required = required

    def __contains__(self, key: object) -> bool:
        return key == "nullable" or (key != "anyOf" and super().__contains__(key))

    def __getitem__(self, key: str) -> JSON:
        return not self._required if key == "nullable" else self.get(key)


def _identifier(name: str) -> str:
    """The name as a Python identifier, which smolagents requires."""
    legal = re.sub(r"\W", "_", name, flags=re.ASCII)
    return legal if legal.isidentifier() and not keyword.iskeyword(legal) else f"_{legal}"


def _full_description(definition: ToolDefinition) -> str:
    """The description, with schema keywords of the arguments as a whole that smolagents does not send."""
    sent = {"type", "properties", "required", "title", "description", "$schema"}
    rest = {key: value for key, value in definition.parameters.items() if key not in sent}
    unsent = {key: value for key, value in rest.items() if not isinstance(value, bool)}
    if not unsent:
        return definition.description
    return f"{definition.description}\n(all arguments: {_as_json(unsent)})"


def _as_function(name: str, description: str, inputs: _Inputs, output_schema: dict[str, JSON] | None) -> str:
    """A function signature with the whole schema of every argument, for agents that write code."""
    properties = inputs.properties
    named = [argument for argument in properties if _identifier(argument) == argument]
    signature = [f"{argument}: {properties[argument].get('type', 'any')}" for argument in named]
    signature += ["**others"] if len(named) < len(properties) else []
    lines = [description, "", *(f"{argument}: {_as_json(schema)}" for argument, schema in properties.items())]
    if output_schema is not None:
        lines += [
            "",
            f"JSON output schema of the dict that it returns (it prints as text): {_as_json(output_schema)}",
        ]
    body = "\n    ".join("\n".join(lines).splitlines())
    returns = "string" if output_schema is None else "dict"
    return f'def {name}({", ".join(signature)}) -> {returns}:\n    """{body}\n    """'


def _as_json(value: JSON) -> str:
    return json.dumps(value, ensure_ascii=False)
