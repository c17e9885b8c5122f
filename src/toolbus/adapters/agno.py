"""Tools and prompts for Agno: `Agent(model=model, tools=[toolset(bus)])`."""

from collections.abc import Awaitable, Callable
from typing import Any

from toolbus.adapters.approval import ApprovalRule, NeedsApproval, approval_of, may_ask, needs_approval
from toolbus.adapters.media import (
    Document,
    PromptTurn,
    audio_format,
    described,
    model_blocks,
    prompt_turns,
)
from toolbus.adapters.options import AdapterOptions, require_extra
from toolbus.adapters.tool_calls import definition_of, hidden_blocks, parse_arguments, tool_metadata
from toolbus.adapters.tool_list import Servers, ToolList, ToolSource, shown
from toolbus.bus.catalog.tool import Tool
from toolbus.bus.rules.scope import Names
from toolbus.config.settings.expose import ExposeMode
from toolbus.core.values.records import JSON, Audio, Image, PromptResult, ToolResult
from toolbus.shape import Dialect, rendered_text

with require_extra("agno"):
    from agno import media
    from agno.exceptions import AgentRunException
    from agno.models.message import Message
    from agno.run import RunContext
    from agno.tools import Function, Toolkit
    from agno.tools.annotations import TOOL_ANNOTATION_HINTS
    from agno.tools.function import FunctionCall
    from agno.tools.function import ToolResult as AgnoResult

__all__ = ["messages", "toolset"]

FACE = "agno"
# Agno converts these strings before a tool sees them, even if the schema asks for a string.
_CONVERTED: dict[str, bool | None] = {"none": None, "null": None, "true": True, "false": False}


def toolset(
    source: ToolSource,
    servers: Servers = None,
    *,
    dialect: Dialect = "openai",
    approve: ApprovalRule[NeedsApproval] = "never",
    audio: bool = False,
    files: bool = False,
    expose: ExposeMode | None = None,
    always: Names = None,
) -> "BusToolkit":
    """A toolkit that updates its tools at the start of every run, for `arun` and `run`.

    Set `dialect` to the model's provider. If the policy of the bus or `approve` asks about a call, the run
    pauses until a person confirms it. The model gets images. If it also accepts audio or PDFs, set `audio` or
    `files`.
    """
    options = AdapterOptions(dialect=dialect, approve=approve, audio=audio, files=files)
    return BusToolkit(
        ToolList(shown(source, expose, always), lambda tool: _functions(tool, options), servers, face=FACE)
    )


def messages(prompt: PromptResult, *, audio: bool = False) -> list[Message]:
    """The messages of a prompt, as input for a run; set `audio` if the model accepts audio."""
    return [*map(_message, prompt_turns(prompt.messages, audio=audio))]


class BusToolkit(Toolkit):
    """A live catalog: an agent gets its functions at the start of every run."""

    def __init__(self, tools: "ToolList[tuple[Function, Function]]") -> None:
        super().__init__(name="toolbus")
        self._tools = tools
        self.refresh()

    def refresh(self) -> None:
        """Update the functions from the catalog; every run does this itself."""
        self._tools.refresh()
        self.functions = {sync.name: sync for sync, _ in self._tools}
        self.async_functions = {asynchronous.name: asynchronous for _, asynchronous in self._tools}

    def get_functions(self) -> dict[str, Function]:
        """The functions for `run`."""
        self.refresh()
        return self.functions

    def get_async_functions(self) -> dict[str, Function]:
        """The functions for `arun`."""
        self.refresh()
        return self.async_functions

    def __deepcopy__(self, memo: dict[int, Any]) -> "BusToolkit":
        # A copied agent uses the same bus.
        return self


class BusFunction(Function):
    """A function with a fixed schema: Agno would rewrite it if the agent has an output schema."""

    def process_entrypoint(self, strict: bool = False) -> None:
        """Keep the schema."""


class Failed(AgentRunException):
    """A tool failed: the model gets the message, and the run continues. `metadata` is for hooks."""

    def __init__(self, message: str, metadata: dict[str, JSON]) -> None:
        super().__init__(message)  # pyright: ignore[reportUnknownMemberType]  untyped in Agno
        self.metadata = metadata


def _functions(tool: Tool, options: AdapterOptions) -> tuple[Function, Function]:
    """The same tool for `run` and for `arun`."""

    # `fc` may also be an argument of the tool; Agno passes that one then.
    def call_sync(
        _agno_run_context: RunContext | None = None, fc: Any = None, **arguments: Any
    ) -> AgnoResult:
        sent = _as_sent(tool, _agno_run_context, fc, arguments)
        approval = approval_of(tool, sent, _confirmed_by(fc))
        return _agno_result(tool, tool.run_sync(sent, approval=approval), options)

    async def call_async(
        _agno_run_context: RunContext | None = None, fc: Any = None, **arguments: Any
    ) -> AgnoResult:
        sent = _as_sent(tool, _agno_run_context, fc, arguments)
        approval = approval_of(tool, sent, _confirmed_by(fc))
        return _agno_result(tool, await tool.run(sent, approval=approval), options)

    return _function(tool, call_sync, options), _function(tool, call_async, options)


def _function(
    tool: Tool,
    entrypoint: Callable[..., AgnoResult] | Callable[..., Awaitable[AgnoResult]],
    options: AdapterOptions,
) -> Function:
    definition = definition_of(tool, options.dialect)
    hints = tool.spec.annotations
    return BusFunction(
        name=definition.name,
        title=tool.spec.title,
        description=definition.description,
        parameters=definition.parameters,
        strict=definition.options.get("strict", False),
        annotations={
            hint: hints[hint] for hint in TOOL_ANNOTATION_HINTS if isinstance(hints.get(hint), bool)
        },
        entrypoint=entrypoint,
        skip_entrypoint_processing=True,
        requires_confirmation=_asks(tool, options) or None,
    )


def _asks(tool: Tool, options: AdapterOptions) -> bool:
    """Whether Agno asks; it has to know before a call."""
    return needs_approval(tool, options.approve) or may_ask(tool)


def _confirmed_by(fc: Any) -> str | None:
    """The confirmer of the call: Agno runs a function that requires confirmation only once it has it."""
    return FACE if isinstance(fc, FunctionCall) and fc.function.requires_confirmation else None


def _as_sent(tool: Tool, context: RunContext | None, fc: Any, arguments: dict[str, JSON]) -> dict[str, JSON]:
    """The arguments, with the strings that Agno converted as the model wrote them."""
    if not isinstance(fc, FunctionCall):
        return arguments if fc is None else {**arguments, "fc": fc}
    messages = (context.messages if context is not None else None) or []
    calls = [call for message in messages for call in message.tool_calls or []]
    written = next((call["function"]["arguments"] for call in calls if call.get("id") == fc.call_id), None)
    sent = parse_arguments(written)
    written_by_model: dict[str, JSON] = {} if isinstance(sent, ToolResult) else sent
    return {
        name: _restored(tool, name, value, written_by_model.get(name)) for name, value in arguments.items()
    }


def _restored(tool: Tool, name: str, value: JSON, sent: JSON) -> JSON:
    match tool.parameters.get("properties", {}).get(name):
        case {"type": "string"}:
            is_text = True
        case _:
            is_text = False
    word = sent.strip().lower() if isinstance(sent, str) else None
    if word in _CONVERTED and _CONVERTED[word] is value:
        # A "null" where a string is only one of the allowed types means null.
        return sent if value is not None or is_text else None
    # After an approval, Agno no longer has what the model wrote.
    return str(value).lower() if is_text and isinstance(value, bool) else value


def _agno_result(tool: Tool, result: ToolResult, options: AdapterOptions) -> AgnoResult:
    text = rendered_text(result)
    metadata = {**tool_metadata(tool, result), "content": hidden_blocks(result)}
    if result.is_error:
        raise Failed(text, metadata)
    if _asks(tool, options):
        # Agno puts media in the message of a confirmed call, which OpenAI rejects; the text describes them.
        return AgnoResult(content=text, metadata=metadata)
    blocks = model_blocks(result, options.media_types)
    return AgnoResult(
        content=text,
        metadata=metadata,
        images=[_image(block) for block in blocks if isinstance(block, Image)] or None,
        audios=[_audio(block) for block in blocks if isinstance(block, Audio)] or None,
        files=[*map(_file, options.documents(result))] or None,
    )


def _message(turn: PromptTurn) -> Message:
    images = [part for part in turn.parts if isinstance(part, Image)]
    audio = [part for part in turn.parts if isinstance(part, Audio)]
    return Message(
        role=turn.role,
        # Agno drops images of a message without text.
        content=turn.text or "\n".join(described(part).text for part in (*images, *audio)),
        images=[*map(_image, images)] or None,
        audio=[*map(_audio, audio)] or None,
        files=[_file(part) for part in turn.parts if isinstance(part, Document)] or None,
    )


def _image(block: Image) -> media.Image:
    return media.Image(content=block.data, mime_type=block.mime_type)


def _audio(block: Audio) -> media.Audio:
    return media.Audio(content=block.data, mime_type=block.mime_type, format=audio_format(block))


def _file(document: Document) -> media.File:
    return media.File(content=document.data, mime_type=document.mime_type, filename=document.name)
