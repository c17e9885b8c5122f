"""The offers of the everything servers besides tools: prompts, resources, completions, as plain JSON."""

import base64
import json
import re
from typing import Any

from tests.gateway.everything_calls import Call, Handler, Json, Questions

PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
WAV = base64.b64encode(b"RIFF\x24\x00\x00\x00WAVEfmt \x10\x00\x00\x00").decode()


def text_block(text: str) -> Json:
    """Content of one text."""
    return {"type": "text", "text": text}


def image_block() -> Json:
    """Content of one pixel."""
    return {"type": "image", "data": PNG, "mimeType": "image/png"}


def embedded(uri: str, text: str, mime_type: str = "text/plain") -> Json:
    """Content of one resource."""
    return {"type": "resource", "resource": {"uri": uri, "mimeType": mime_type, "text": text}}


def form(message: str, properties: Json, required: list[str] | None = None) -> Json:
    """A question with a form; every field is required unless told otherwise."""
    schema = {"type": "object", "properties": properties, "required": required or list(properties)}
    return {"method": "elicitation/create", "params": {"message": message, "requestedSchema": schema}}


def sampling(prompt: str, max_tokens: int = 100) -> Json:
    """A question to the model of the client."""
    messages = [{"role": "user", "content": text_block(prompt)}]
    return {"method": "sampling/createMessage", "params": {"messages": messages, "maxTokens": max_tokens}}


def filled_in(answer: Json) -> Json:
    """The fields of an answered form; none, if the user declined."""
    return answer.get("content") or {}


# Resources

WATCHED = "test://watched-resource"
WATCHED_TEXT = {"now": "Nothing has happened yet."}
RESOURCES: list[Json] = [
    {
        "uri": "test://static-text",
        "name": "static-text",
        "title": "Static text",
        "description": "Always the same text.",
        "mimeType": "text/plain",
        "annotations": {"audience": ["user"], "priority": 0.5},
    },
    {
        "uri": "test://static-binary",
        "name": "static-binary",
        "description": "Always the same pixel.",
        "mimeType": "image/png",
    },
    {
        "uri": WATCHED,
        "name": "watched-resource",
        "description": "Changes when test_update_watched_resource is called.",
        "mimeType": "text/plain",
    },
]
TEMPLATES: list[Json] = [
    {
        "uriTemplate": "test://template/{id}/data",
        "name": "template",
        "description": "Data of one id.",
        "mimeType": "application/json",
    }
]


def read(uri: str) -> Json | None:
    """The content behind a URI, or None."""
    if uri == "test://static-text":
        text = "This is the content of the static text resource."
        return {"uri": uri, "mimeType": "text/plain", "text": text}
    if uri == "test://static-binary":
        return {"uri": uri, "mimeType": "image/png", "blob": PNG}
    if uri == WATCHED:
        return {"uri": uri, "mimeType": "text/plain", "text": WATCHED_TEXT["now"]}
    if found := re.fullmatch(r"test://template/([^/]+)/data", uri):
        made = {"id": found[1], "templateTest": True, "data": f"Data for ID: {found[1]}"}
        return {"uri": uri, "mimeType": "application/json", "text": json.dumps(made)}
    return None


# Prompts


def _user(*blocks: Json) -> Json:
    return {"messages": [{"role": "user", "content": block} for block in blocks]}


async def _simple(call: Call) -> Json:
    return _user(text_block("This is a simple prompt for testing."))


async def _with_arguments(call: Call) -> Json:
    given = call.arguments
    return _user(text_block(f"Prompt with arguments: arg1='{given['arg1']}', arg2='{given['arg2']}'"))


async def _with_resource(call: Call) -> Json:
    content = embedded(call.arguments["resourceUri"], "Embedded resource content for testing.")
    return _user(content, text_block("Please process the embedded resource above."))


async def _with_image(call: Call) -> Json:
    return _user(image_block(), text_block("Please analyze the image above."))


async def _asking(call: Call) -> Json | Questions:
    answer = call.answers.get("user_context")
    if answer is None:
        question = form("What context should the prompt use?", {"context": {"type": "string"}})
        return Questions(requests={"user_context": question})
    return _user(text_block(f"Use this context: {filled_in(answer).get('context', 'none')}"))


async def _appeared(call: Call) -> Json:
    return _user(text_block("This prompt was not always here."))


def _prompt(name: str, description: str, *arguments: str) -> Json:
    required = [{"name": one, "description": f"The {one}.", "required": True} for one in arguments]
    return {"name": name, "description": description, **({"arguments": required} if required else {})}


PROMPTS: list[tuple[Json, Handler]] = [
    (_prompt("test_simple_prompt", "One text."), _simple),
    (_prompt("test_prompt_with_arguments", "A text with two values.", "arg1", "arg2"), _with_arguments),
    (
        _prompt("test_prompt_with_embedded_resource", "A resource, and what to do with it.", "resourceUri"),
        _with_resource,
    ),
    (_prompt("test_prompt_with_image", "An image, and what to do with it."), _with_image),
    (_prompt("test_input_required_result_prompt", "Asks which context to use."), _asking),
]
LATER_PROMPT = (_prompt("test_dynamic_prompt", "Comes and goes."), _appeared)

# Completions

CITIES = ["paris", "park", "party", "porto"]


def completion(argument: Json) -> Json:
    """Suggestions for the value of an argument."""
    values: list[Any] = [city for city in CITIES if city.startswith(argument["value"])]
    return {"completion": {"values": values, "total": len(values), "hasMore": False}}
