"""The tools of the everything servers, as the scenarios of the MCP conformance suite describe them."""

import asyncio
import json
from typing import Any

from tests.gateway.everything_calls import Call, Handler, Json, Questions, Rejected
from tests.gateway.everything_content import (
    WATCHED,
    WATCHED_TEXT,
    WAV,
    embedded,
    filled_in,
    form,
    image_block,
    sampling,
    text_block,
)

URL_REQUIRED = -32042
MISSING_CAPABILITY = -32021
STEP = 0.05
"""Seconds between two messages of a tool that reports."""
NAME: Json = {"name": {"type": "string"}}
YES_OR_NO: Json = {"ok": {"type": "boolean"}}
VISITED: set[str] = set()
"""Orders whose URL was given out in the legacy era."""


def text(*said: str) -> Json:
    """A result of texts."""
    return {"content": [text_block(one) for one in said]}


def _reported(answer: Json) -> Json:
    content = json.dumps(filled_in(answer), sort_keys=True)
    return text(f"Elicitation completed: action={answer['action']}, content={content}")


# Content


async def _simple_text(call: Call) -> Json:
    return text("This is a simple text response for testing.")


async def _image(call: Call) -> Json:
    return {"content": [image_block()]}


async def _audio(call: Call) -> Json:
    return {"content": [{"type": "audio", "data": WAV, "mimeType": "audio/wav"}]}


async def _resource(call: Call) -> Json:
    return {"content": [embedded("test://embedded-resource", "This is an embedded resource content.")]}


async def _mixed(call: Call) -> Json:
    data = embedded("test://mixed-content-resource", '{"test":"data","value":123}', "application/json")
    return {"content": [text_block("Multiple content types test:"), image_block(), data]}


async def _failing(call: Call) -> Json:
    return text("This tool intentionally returns an error for testing") | {"isError": True}


async def _echo(call: Call) -> Json:
    return text(json.dumps(call.arguments, sort_keys=True))


# Messages in the middle of a call


async def _logging(call: Call) -> Json:
    for said in ("Tool execution started", "Tool processing data", "Tool execution completed"):
        await call.wire.log(said)
        await asyncio.sleep(STEP)
    return text("Logged three messages.")


async def _progress(call: Call) -> Json:
    for done in (0, 50, 100):
        await call.wire.progress(done, 100)
        await asyncio.sleep(STEP)
    return text("Reported three times.")


async def _reconnection(call: Call) -> Json:
    await asyncio.sleep(10 * STEP)  # or the SDK closes the stream before it has said how to come back
    await call.wire.close_stream()
    await asyncio.sleep(STEP)
    return text("The stream was closed before this.")


async def _tool_change(call: Call) -> Json:
    await call.wire.changed("tools")
    return text("The tools have changed.")


async def _prompt_change(call: Call) -> Json:
    await call.wire.changed("prompts")
    return text("The prompts have changed.")


async def _update(call: Call) -> Json:
    WATCHED_TEXT["now"] = call.arguments["text"]
    await call.wire.updated(WATCHED)
    return text("Written.")


# Questions


async def _sampling(call: Call) -> Json | Questions:
    if (answer := call.answers.get("sample")) is None:
        return Questions(requests={"sample": sampling(call.arguments["prompt"])})
    return text(f"LLM response: {answer['content']['text']}")


async def _elicitation(call: Call) -> Json | Questions:
    if (answer := call.answers.get("user")) is None:
        fields = {
            "username": {"type": "string", "description": "User's response"},
            "email": {"type": "string", "description": "User's email address"},
        }
        return Questions(requests={"user": form(call.arguments["message"], fields)})
    return text(f"User response: action={answer['action']}, content={json.dumps(filled_in(answer))}")


async def _defaults(call: Call) -> Json | Questions:
    if (answer := call.answers.get("person")) is None:
        fields: Json = {
            "name": {"type": "string", "default": "John Doe"},
            "age": {"type": "integer", "default": 30},
            "score": {"type": "number", "default": 95.5},
            "status": {"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
            "verified": {"type": "boolean", "default": True},
        }
        return Questions(requests={"person": form("Is this right?", fields, ["name"])})
    return _reported(answer)


def _titled(*titles: str) -> list[Json]:
    return [{"const": f"value{number}", "title": title} for number, title in enumerate(titles, 1)]


async def _enums(call: Call) -> Json | Questions:
    if (answer := call.answers.get("choice")) is None:
        options = ["option1", "option2", "option3"]
        fields: Json = {
            "untitledSingle": {"type": "string", "enum": options},
            "titledSingle": {
                "type": "string",
                "oneOf": _titled("First Option", "Second Option", "Third Option"),
            },
            "legacyEnum": {
                "type": "string",
                "enum": ["opt1", "opt2", "opt3"],
                "enumNames": ["Option One", "Option Two", "Option Three"],
            },
            "untitledMulti": {"type": "array", "items": {"type": "string", "enum": options}},
            "titledMulti": {
                "type": "array",
                "items": {"anyOf": _titled("First Choice", "Second Choice", "Third Choice")},
            },
        }
        return Questions(requests={"choice": form("Choose.", fields, ["untitledSingle"])})
    return _reported(answer)


async def _url(call: Call) -> Json | Questions:
    if (answer := call.answers.get("visit")) is None:
        return Questions(requests={"visit": {"method": "elicitation/create", "params": _page("visit-1")}})
    return text(f"URL elicitation: {answer['action']}")


async def _url_required(call: Call) -> Json:
    """In the legacy era the call fails with the URL to visit, and succeeds the next time."""
    order = call.arguments["order"]
    if order not in VISITED:
        VISITED.add(order)
        raise Rejected(URL_REQUIRED, "Visit the page first.", {"elicitations": [_page(order)]})
    return text(f"order {order} is paid")


def _page(name: str) -> Json:
    url = f"https://pages.example/{name}"
    return {"mode": "url", "message": "Visit the page.", "url": url, "elicitationId": name}


async def _greet(call: Call) -> Json | Questions:
    if (answer := call.answers.get("user_name")) is None:
        return Questions(requests={"user_name": form("What is your name?", NAME)})
    return text(f"Hello, {filled_in(answer).get('name', 'nobody')}!")


async def _capital(call: Call) -> Json | Questions:
    if (answer := call.answers.get("capital_question")) is None:
        return Questions(requests={"capital_question": sampling("What is the capital of France?")})
    return text(answer["content"]["text"])


async def _roots(call: Call) -> Json | Questions:
    if (answer := call.answers.get("client_roots")) is None:
        return Questions(requests={"client_roots": {"method": "roots/list", "params": {}}})
    return text(f"Roots: {' '.join(root['uri'] for root in answer['roots'])}")


async def _state(call: Call) -> Json | Questions:
    if "confirm" not in call.answers:
        return Questions(requests={"confirm": form("Please confirm", YES_OR_NO)}, state="confirming")
    if call.state != "confirming":
        raise Rejected(-32602, "the request state is missing")
    return text("state-ok")


async def _several(call: Call) -> Json | Questions:
    if not {"user_name", "greeting", "client_roots"} <= call.answers.keys():
        requests: dict[str, Json] = {
            "user_name": form("What is your name?", NAME),
            "greeting": sampling("Generate a greeting", 50),
            "client_roots": {"method": "roots/list", "params": {}},
        }
        return Questions(requests=requests, state="asked for three")
    name = filled_in(call.answers["user_name"]).get("name")
    return text(f"{call.answers['greeting']['content']['text']}, {name}")


async def _rounds(call: Call) -> Json | Questions:
    if "step2" in call.answers and call.state:
        return text(f"{call.state} likes {filled_in(call.answers['step2']).get('color')}")
    if "step1" in call.answers:
        question = form("Step 2: What is your favorite color?", {"color": {"type": "string"}})
        name = filled_in(call.answers["step1"]).get("name", "nobody")
        return Questions(requests={"step2": question}, state=name)
    return Questions(requests={"step1": form("Step 1: What is your name?", NAME)}, state="first")


async def _declared_only(call: Call) -> Json | Questions:
    if call.answers:
        return text(f"Answered: {' '.join(sorted(call.answers))}")
    requests: dict[str, Json] = {}
    if "elicitation" in call.declared:
        requests["name"] = form("What is your name?", NAME)
    if "sampling" in call.declared:
        requests["word"] = sampling("Say a word.")
    return Questions(requests=requests) if requests else text("There is nobody to ask.")


async def _needs_sampling(call: Call) -> Json | Questions:
    if "sampling" not in call.declared:
        needed: Json = {"requiredCapabilities": {"sampling": {}}}
        raise Rejected(MISSING_CAPABILITY, "This tool needs the sampling capability.", needed)
    if "word" not in call.answers:
        return Questions(requests={"word": sampling("Say a word.")})
    return text("Sampling is there.")


# Definitions

NOTHING: Json = {"type": "object", "properties": {}}
FULL_SCHEMA: Json = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {
        "address": {
            "$anchor": "addressDef",
            "type": "object",
            "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
        }
    },
    "properties": {
        "name": {"type": "string"},
        "address": {"$ref": "#/$defs/address"},
        "contactMethod": {"type": "string", "enum": ["phone", "email"]},
        "phone": {"type": "string"},
        "email": {"type": "string"},
    },
    "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
    "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
    "then": {"required": ["phone"]},
    "else": {"required": ["email"]},
    "additionalProperties": False,
}
MIRRORED: Json = {
    "type": "object",
    "properties": {"region": {"type": "string", "x-mcp-header": "Region"}, "query": {"type": "string"}},
    "required": ["region"],
}


def _strings(*names: str) -> Json:
    return {
        "type": "object",
        "properties": {name: {"type": "string"} for name in names},
        "required": [*names],
    }


def _tool(name: str, description: str, handler: Handler, schema: Json = NOTHING, **more: Any) -> Any:
    return {"name": name, "description": description, "inputSchema": schema, **more}, handler


_IRR = "test_input_required_result_"
TOOLS: list[tuple[Json, Handler]] = [
    _tool("test_simple_text", "Returns a text.", _simple_text, annotations={"readOnlyHint": True}),
    _tool("test_image_content", "Returns an image.", _image),
    _tool("test_audio_content", "Returns a sound.", _audio),
    _tool("test_embedded_resource", "Returns a resource.", _resource),
    _tool("test_multiple_content_types", "Returns a text, an image and a resource.", _mixed),
    _tool("test_error_handling", "Always reports an error.", _failing),
    _tool("json_schema_2020_12_tool", "Has a schema with every keyword.", _echo, FULL_SCHEMA),
    _tool("test_x_mcp_header", "Has a parameter that is also a header.", _echo, MIRRORED),
    _tool("test_tool_with_logging", "Logs three messages.", _logging),
    _tool("test_logging_tool", "Logs, for those who asked for it.", _logging),
    _tool("test_tool_with_progress", "Reports its progress three times.", _progress),
    _tool("test_reconnection", "Closes the stream of its answer in the middle.", _reconnection),
    _tool("test_trigger_tool_change", "Adds or removes a tool.", _tool_change),
    _tool("test_trigger_prompt_change", "Adds or removes a prompt.", _prompt_change),
    _tool("test_update_watched_resource", "Writes the watched resource.", _update, _strings("text")),
    _tool("test_sampling", "Asks the model of the client.", _sampling, _strings("prompt")),
    _tool("test_elicitation", "Asks the user for a name and an address.", _elicitation, _strings("message")),
    _tool("test_elicitation_sep1034_defaults", "Asks with default values.", _defaults),
    _tool("test_elicitation_sep1330_enums", "Asks with every kind of choice.", _enums),
    _tool("test_elicitation_url", "Sends the user to a page.", _url),
    _tool(
        "test_url_elicitation_required", "Fails until a page was visited.", _url_required, _strings("order")
    ),
    _tool("test_streaming_elicitation", "Asks, and only through its result.", _greet),
    _tool("test_missing_capability", "Needs the sampling capability.", _needs_sampling),
    _tool(f"{_IRR}elicitation", "Asks for a name.", _greet),
    _tool(f"{_IRR}sampling", "Asks the model for a capital.", _capital),
    _tool(f"{_IRR}list_roots", "Asks for the roots.", _roots),
    _tool(f"{_IRR}request_state", "Asks, and wants its state back.", _state),
    _tool(f"{_IRR}tampered_state", "Asks, and wants its state back unchanged.", _state),
    _tool(f"{_IRR}multiple_inputs", "Asks for three things at once.", _several),
    _tool(f"{_IRR}multi_round", "Asks twice.", _rounds),
    _tool(f"{_IRR}capabilities", "Asks only for what the client declared.", _declared_only),
]
LATER_TOOL: tuple[Json, Handler] = _tool("test_dynamic_tool", "Comes and goes.", _simple_text)
