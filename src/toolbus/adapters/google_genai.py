"""The tools and prompts of a bus for Google's own package, google-genai.

`offer = tools(bus)` is the list of function declarations for a request,
`config={"tools": [{"function_declarations": offer}]}`; `await offer.replies(response)` runs what the model
called and gives the contents that come next. `messages(prompt)` is what a prompt of a server says.
"""

import re
from collections.abc import Mapping, Sequence
from functools import partial
from typing import cast

from toolbus.adapters.exchange import Answer, Called, Exchange, Form, got
from toolbus.adapters.extra import needs
from toolbus.adapters.media import PDF, SOUNDS, Document, Media, attached
from toolbus.adapters.prompts import Part as Said
from toolbus.adapters.prompts import merged, turns
from toolbus.adapters.tool_list import Servers, Source
from toolbus.core.records import JSON, PromptResult, Text
from toolbus.shape import rendered_text

with needs("google-genai"):
    from google.genai.types import (
        Content,
        FunctionDeclarationDict,
        FunctionResponse,
        FunctionResponsePart,
        Part,
    )

_PICTURES = frozenset({"image/png", "image/jpeg", "image/webp"})
_TAKEN = _PICTURES | SOUNDS
# What a function response may hold, and from which models on.
_WITHIN = _PICTURES | {PDF}
_NEWER = re.compile(r"gemini-([3-9]|\d\d)")


def tools(
    source: Source, servers: Servers = None, *, media: bool = True, follow: bool = True
) -> Exchange[FunctionDeclarationDict, Content]:
    """The tools as function declarations.

    Without `media`, pictures, sound and PDFs are described in words. Without `follow`, the list stays as it
    is until `refresh()`.
    """

    form: Form[FunctionDeclarationDict, Content] = Form(
        tool=lambda tool: cast(FunctionDeclarationDict, tool.definition("google")),
        name=lambda declaration: declaration.get("name") or "",
        calls=_calls,
        replies=partial(_contents, media=media),
    )
    return Exchange(source, servers, form, follow=follow)


def messages(prompt: PromptResult, *, media: bool = True) -> list[Content]:
    """The messages of a prompt, those that follow each other from one side as one content.

    Without `media`, pictures, sound and PDFs are described in words.
    """
    # Chats of the package, and Google's guides, have the sides take turns.
    return [
        Content(role="user" if turn.role == "user" else "model", parts=[*map(_part, turn.parts)])
        for turn in merged(turns(prompt.messages, _TAKEN | {PDF} if media else ()))
    ]


def _calls(response: object) -> list[Called]:
    """Of the first candidate of a response, or of a content of the model: a stream is put together as one."""
    candidates = got(response, "candidates")
    content = got(candidates[0], "content") if candidates else response
    if content is response and not _is_one(response):
        raise TypeError(
            f"{type(response).__name__} is neither a response nor model content; "
            "pass the response of generate_content"
        )
    calls = [_either(part, "function_call", "functionCall") for part in got(content, "parts") or ()]
    return [
        Called(id=got(call, "id") or "", name=got(call, "name") or "", arguments=got(call, "args"))
        for call in calls
        if call is not None
    ]


def _is_one(response: object) -> bool:
    fields = ("candidates", "parts")
    if isinstance(response, Mapping):
        return any(field in response for field in fields)
    return any(hasattr(response, field) for field in fields)


def _contents(answers: Sequence[Answer], response: object, *, media: bool) -> list[Content]:
    """The responses in one content. What may not stand within one follows in a content of the user."""
    newer = _NEWER.search(_either(response, "model_version", "modelVersion") or "")
    within = _WITHIN if newer else frozenset[str]()
    responses: list[Part] = []
    beside: list[Part] = []
    for answer in answers:
        given = attached(answer.result, _TAKEN) if media else []
        inner = [block for block in given if block.mime_type in within]
        outer = [block for block in given if block.mime_type not in within]
        responses.append(Part(function_response=_response(answer, inner)))
        if outer:
            beside.append(Part(text=f"From the result of {answer.call.name}:"))
            beside += map(_part, outer)
    contents = [Content(role="user", parts=responses)]
    return [*contents, Content(role="user", parts=beside)] if beside else contents


def _part(block: Said) -> Part:
    if isinstance(block, Text):
        return Part(text=block.text)
    return Part.from_bytes(data=block.data, mime_type=block.mime_type)


def _response(answer: Answer, media: list[Media | Document]) -> FunctionResponse:
    key = "error" if answer.result.is_error else "output"
    parts = [FunctionResponsePart.from_bytes(data=block.data, mime_type=block.mime_type) for block in media]
    return FunctionResponse(
        id=answer.call.id or None,
        name=answer.call.name,
        response={key: rendered_text(answer.result)},
        parts=parts or None,
    )


def _either(value: object, snake: str, camel: str) -> JSON:
    """A field of a record of the package, or of the JSON that the interface speaks."""
    found = got(value, snake)
    return got(value, camel) if found is None else found
