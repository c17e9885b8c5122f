"""Tools and prompts for the `google-genai` package.

Pass `toolbox = tools(bus)` in a request: `config={"tools": [{"function_declarations": toolbox}]}`.
`await toolbox.replies(response)` runs the calls of the response and returns the next contents.
`messages(prompt)` converts a prompt of a server.
"""

import re
from collections.abc import Mapping, Sequence
from functools import partial
from typing import cast

from toolbus.adapters.media import AUDIO_TYPES, PDF, Document, Media, attachments, merged_turns, prompt_turns
from toolbus.adapters.media import Part as PromptPart
from toolbus.adapters.options import require_extra
from toolbus.adapters.provider_tools import (
    CompletedCall,
    ProviderFormat,
    ProviderTools,
    RequestedCall,
    field_of,
)
from toolbus.adapters.tool_list import Servers, ToolSource, shown
from toolbus.bus.rules.scope import Names
from toolbus.config.settings.expose import ExposeMode
from toolbus.core.values.records import JSON, PromptResult, Text
from toolbus.shape import rendered_text

with require_extra("google-genai"):
    from google.genai.types import (
        Content,
        FunctionDeclarationDict,
        FunctionResponse,
        FunctionResponsePart,
        Part,
    )

__all__ = ["messages", "tools"]

GOOGLE_IMAGE_TYPES = frozenset({"image/png", "image/jpeg", "image/webp"})
GOOGLE_MEDIA_TYPES = GOOGLE_IMAGE_TYPES | AUDIO_TYPES
# Files that a function response may hold, and the models that accept them there.
RESPONSE_TYPES = GOOGLE_IMAGE_TYPES | {PDF}
ACCEPTS_FILES_IN_RESPONSES = re.compile(r"gemini-([3-9]|\d\d)")


def tools(
    source: ToolSource,
    servers: Servers = None,
    *,
    media: bool = True,
    follow: bool = True,
    expose: ExposeMode | None = None,
    always: Names = None,
) -> ProviderTools[FunctionDeclarationDict, Content]:
    """The tools as function declarations.

    Without `media`, images, audio and PDFs are described in text. Without `follow`, the list changes only
    with `refresh()`.
    """

    provider: ProviderFormat[FunctionDeclarationDict, Content] = ProviderFormat(
        tool=lambda tool: cast(FunctionDeclarationDict, tool.definition("google")),
        name=lambda declaration: declaration.get("name") or "",
        calls=_calls,
        replies=partial(_contents, media=media),
    )
    return ProviderTools(shown(source, expose, always), servers, provider, face="google-genai", follow=follow)


def messages(prompt: PromptResult, *, media: bool = True) -> list[Content]:
    """The messages of a prompt; consecutive ones of the same role are merged into one content.

    Without `media`, images, audio and PDFs are described in text.
    """
    # The package's chats and Google's guides expect alternating roles.
    return [
        Content(role="user" if turn.role == "user" else "model", parts=[*map(_part, turn.parts)])
        for turn in merged_turns(prompt_turns(prompt.messages, GOOGLE_MEDIA_TYPES | {PDF} if media else ()))
    ]


def _calls(response: object) -> list[RequestedCall]:
    """The calls of the first candidate of a response, or of a model content (a joined stream)."""
    candidates = field_of(response, "candidates")
    content = field_of(candidates[0], "content") if candidates else response
    if content is response and not _is_response(response):
        raise TypeError(
            f"{type(response).__name__} is neither a response nor model content; "
            "pass the response of generate_content"
        )
    calls = [_either(part, "function_call", "functionCall") for part in field_of(content, "parts") or ()]
    return [
        RequestedCall(
            id=field_of(call, "id") or "", name=field_of(call, "name") or "", arguments=field_of(call, "args")
        )
        for call in calls
        if call is not None
    ]


def _is_response(response: object) -> bool:
    fields = ("candidates", "parts")
    if isinstance(response, Mapping):
        return any(field in response for field in fields)
    return any(hasattr(response, field) for field in fields)


def _contents(answers: Sequence[CompletedCall], response: object, *, media: bool) -> list[Content]:
    """The responses in one content; files that a response may not hold follow in a user content."""
    model = _either(response, "model_version", "modelVersion") or ""
    allowed = RESPONSE_TYPES if ACCEPTS_FILES_IN_RESPONSES.search(model) else frozenset[str]()
    responses: list[Part] = []
    following: list[Part] = []
    for answer in answers:
        files = attachments(answer.result, GOOGLE_MEDIA_TYPES) if media else []
        inner = [block for block in files if block.mime_type in allowed]
        outer = [block for block in files if block.mime_type not in allowed]
        responses.append(Part(function_response=_response(answer, inner)))
        if outer:
            following.append(Part(text=f"From the result of {answer.call.name}:"))
            following += map(_part, outer)
    contents = [Content(role="user", parts=responses)]
    return [*contents, Content(role="user", parts=following)] if following else contents


def _part(block: PromptPart) -> Part:
    if isinstance(block, Text):
        return Part(text=block.text)
    return Part.from_bytes(data=block.data, mime_type=block.mime_type)


def _response(answer: CompletedCall, media: list[Media | Document]) -> FunctionResponse:
    key = "error" if answer.result.is_error else "output"
    parts = [FunctionResponsePart.from_bytes(data=block.data, mime_type=block.mime_type) for block in media]
    return FunctionResponse(
        id=answer.call.id or None,
        name=answer.call.name,
        response={key: rendered_text(answer.result)},
        parts=parts or None,
    )


def _either(value: object, snake: str, camel: str) -> JSON:
    """A field of one of the package's objects, or of the API's JSON."""
    found = field_of(value, snake)
    return field_of(value, camel) if found is None else found
