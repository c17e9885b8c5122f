"""The tools and prompts of a bus for Agno: `Agent(model=model, tools=[toolset(bus)])`."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from toolbus.adapters.approval import ApprovalRule, NeedsApproval, needs_approval
from toolbus.adapters.calls import facts, parsed, unseen
from toolbus.adapters.declared import declared
from toolbus.adapters.extra import needs
from toolbus.adapters.media import PICTURES, SOUNDS, Document, audio_format, documents, taken, told
from toolbus.adapters.prompts import SHOWN, Turn, turns
from toolbus.adapters.tool_list import Offer, Servers, Source
from toolbus.bus.tool import Tool
from toolbus.core.records import JSON, Audio, Image, PromptResult, ToolResult
from toolbus.shape import Dialect, rendered_text

with needs("agno"):
    from agno import media
    from agno.exceptions import AgentRunException
    from agno.models.message import Message
    from agno.run import RunContext
    from agno.tools import Function, Toolkit
    from agno.tools.annotations import TOOL_ANNOTATION_HINTS
    from agno.tools.function import FunctionCall
    from agno.tools.function import ToolResult as Answer

# What Agno makes of these words before a tool sees them, also where a text is asked for.
_MADE: dict[str, bool | None] = {"none": None, "null": None, "true": True, "false": False}


def toolset(
    source: Source,
    servers: Servers = None,
    *,
    dialect: Dialect = "openai",
    approve: ApprovalRule[NeedsApproval] = "never",
    audio: bool = False,
    files: bool = False,
) -> "BusToolkit":
    """A toolkit with the tools as they are at every run, for `arun` and `run`.

    `dialect` is the one of the model's provider; `approve` says which calls pause the run until a person
    confirms them. Pictures are given to the model; `audio`, and `files` for PDFs, are for one that takes
    these too.
    """
    options = ToolsetOptions(dialect=dialect, approve=approve, audio=audio, files=files)
    return BusToolkit(Offer(source, lambda tool: _functions(tool, options), servers))


def messages(prompt: PromptResult, *, audio: bool = False) -> list[Message]:
    """The messages of a prompt as the input of a run; `audio` is for a model that takes sound too."""
    return [*map(_message, turns(prompt.messages, SHOWN | SOUNDS if audio else SHOWN))]


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolsetOptions:
    """How to declare a tool, whether to ask before a call, and what of its result to show."""

    dialect: Dialect
    approve: ApprovalRule[NeedsApproval]
    audio: bool
    files: bool


class BusToolkit(Toolkit):
    """A live catalog: an agent asks it for functions at the start of every run."""

    def __init__(self, offer: "Offer[tuple[Function, Function]]") -> None:
        super().__init__(name="toolbus")
        self._offer = offer
        self.refresh()

    def refresh(self) -> None:
        """Take over what the catalog has now; every run does this by itself."""
        self._offer.refresh()
        self.functions = {waiting.name: waiting for waiting, _ in self._offer}
        self.async_functions = {awaited.name: awaited for _, awaited in self._offer}

    def get_functions(self) -> dict[str, Function]:
        """For `run`."""
        self.refresh()
        return self.functions

    def get_async_functions(self) -> dict[str, Function]:
        """For `arun`."""
        self.refresh()
        return self.async_functions

    def __deepcopy__(self, memo: dict[int, Any]) -> "BusToolkit":
        # A copy of an agent uses the same bus.
        return self


class BusFunction(Function):
    """A function whose schema stays as it is: Agno would rewrite it where the output has a schema."""

    def process_entrypoint(self, strict: bool = False) -> None:
        """Nothing to be done."""


class Failed(AgentRunException):
    """A tool failed: the model gets the message, and the run goes on. `metadata` is for hooks."""

    def __init__(self, message: str, metadata: dict[str, JSON]) -> None:
        super().__init__(message)  # pyright: ignore[reportUnknownMemberType]  Agno leaves the type out
        self.metadata = metadata


def _functions(tool: Tool, options: ToolsetOptions) -> tuple[Function, Function]:
    """The same tool for code that waits and for code that awaits."""

    # `fc` may also be an argument of the tool: Agno then gives that.
    def wait(_agno_run_context: RunContext | None = None, fc: Any = None, **arguments: Any) -> Answer:
        given = _as_sent(tool, _agno_run_context, fc, arguments)
        return _answer(tool, tool.execute_sync(**given), options)

    async def call(_agno_run_context: RunContext | None = None, fc: Any = None, **arguments: Any) -> Answer:
        given = _as_sent(tool, _agno_run_context, fc, arguments)
        return _answer(tool, await tool.execute(**given), options)

    return _function(tool, wait, options), _function(tool, call, options)


def _function(
    tool: Tool, entrypoint: Callable[..., Answer] | Callable[..., Awaitable[Answer]], options: ToolsetOptions
) -> Function:
    said = declared(tool, options.dialect)
    hints = tool.spec.annotations
    return BusFunction(
        name=said.name,
        title=tool.spec.title,
        description=said.description,
        parameters=said.parameters,
        strict=said.options.get("strict", False),
        annotations={
            hint: hints[hint] for hint in TOOL_ANNOTATION_HINTS if isinstance(hints.get(hint), bool)
        },
        entrypoint=entrypoint,
        skip_entrypoint_processing=True,
        requires_confirmation=needs_approval(tool.spec, options.approve) or None,
    )


def _as_sent(tool: Tool, context: RunContext | None, fc: Any, arguments: dict[str, JSON]) -> dict[str, JSON]:
    """The arguments, with the words that Agno took for values as the model wrote them."""
    if not isinstance(fc, FunctionCall):
        return arguments if fc is None else {**arguments, "fc": fc}
    messages = (context.messages if context is not None else None) or []
    calls = [call for message in messages for call in message.tool_calls or []]
    written = next((call["function"]["arguments"] for call in calls if call.get("id") == fc.call_id), None)
    sent = parsed(written)
    known: dict[str, JSON] = {} if isinstance(sent, ToolResult) else sent
    return {name: _word(tool, name, value, known.get(name)) for name, value in arguments.items()}


def _word(tool: Tool, name: str, value: JSON, sent: JSON) -> JSON:
    match tool.parameters.get("properties", {}).get(name):
        case {"type": "string"}:
            is_text = True
        case _:
            is_text = False
    word = sent.strip().lower() if isinstance(sent, str) else None
    if word in _MADE and _MADE[word] is value:
        # Whoever says "null" where text is only one of the choices means that there is none.
        return sent if value is not None or is_text else None
    # After a person agreed, Agno no longer knows what the model wrote.
    return str(value).lower() if is_text and isinstance(value, bool) else value


def _answer(tool: Tool, result: ToolResult, options: ToolsetOptions) -> Answer:
    text = rendered_text(result)
    about = {**facts(tool, result), "content": unseen(result)}
    if result.is_error:
        raise Failed(text, about)
    if needs_approval(tool.spec, options.approve):
        # Agno leaves media in the message of a confirmed call, which OpenAI refuses; the text tells of them.
        return Answer(content=text, metadata=about)
    shown = taken(result, PICTURES | SOUNDS if options.audio else PICTURES)
    return Answer(
        content=text,
        metadata=about,
        images=[_image(block) for block in shown if isinstance(block, Image)] or None,
        audios=[_sound(block) for block in shown if isinstance(block, Audio)] or None,
        files=[_file(document) for document in documents(result)] or None if options.files else None,
    )


def _message(turn: Turn) -> Message:
    images = [part for part in turn.parts if isinstance(part, Image)]
    sounds = [part for part in turn.parts if isinstance(part, Audio)]
    return Message(
        role=turn.role,
        # Without a text, Agno leaves out what there is to see.
        content=turn.text or "\n".join(told(part).text for part in (*images, *sounds)),
        images=[*map(_image, images)] or None,
        audio=[*map(_sound, sounds)] or None,
        files=[_file(part) for part in turn.parts if isinstance(part, Document)] or None,
    )


def _image(block: Image) -> media.Image:
    return media.Image(content=block.data, mime_type=block.mime_type)


def _sound(block: Audio) -> media.Audio:
    return media.Audio(content=block.data, mime_type=block.mime_type, format=audio_format(block))


def _file(document: Document) -> media.File:
    return media.File(content=document.data, mime_type=document.mime_type, filename=document.name)
