"""Tools that can become tasks, for any SDK and era: the work, with a way to ask meanwhile."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from tests.gateway.everything_calls import Json, Rejected
from tests.gateway.everything_content import filled_in, form, text_block

Ask = Callable[[dict[str, Json]], Awaitable[Mapping[str, Json]]]
Work = Callable[[Json, Ask], Awaitable[Json]]


def _text(said: str, **more: Any) -> Json:
    return {"content": [text_block(said)], **more}


async def _greet(arguments: Json, ask: Ask) -> Json:
    return _text(f"Hello, {arguments['name']}!")


async def _compute(arguments: Json, ask: Ask) -> Json:
    await asyncio.sleep(arguments["seconds"])
    return _text(f"computed {arguments.get('label', 'it')}")


async def _fail(arguments: Json, ask: Ask) -> Json:
    await asyncio.sleep(1)
    return _text("the job failed", isError=True)


async def _break(arguments: Json, ask: Ask) -> Json:
    raise Rejected(-32603, "the job broke the server")


async def _delete(arguments: Json, ask: Ask) -> Json:
    name = arguments["filename"]
    answers = await ask({"confirmation": form(f"Delete {name}?", {"confirm": {"type": "boolean"}})})
    confirmed = filled_in(answers["confirmation"]).get("confirm")
    return _text(f"{name} was {'deleted' if confirmed else 'kept'}")


async def _two_names(arguments: Json, ask: Ask) -> Json:
    field: Json = {"name": {"type": "string"}}
    answers = await ask({"first": form("The first name?", field), "second": form("The second name?", field)})
    names = [filled_in(answers[key]).get("name", "?") for key in ("first", "second")]
    return _text(" and ".join(names))


async def _named(arguments: Json, ask: Ask) -> Json:
    answers = await ask({"user_name": form("What is your name?", {"name": {"type": "string"}})})
    return _text(f"Done for {filled_in(answers['user_name']).get('name', 'nobody')}")


def _tool(name: str, description: str, support: str | None, /, **properties: str) -> Json:
    schema: Json = {"type": "object", "properties": {key: {"type": kind} for key, kind in properties.items()}}
    if required := [key for key in properties if key != "label"]:
        schema["required"] = required
    execution = {"execution": {"taskSupport": support}} if support else {}
    return {"name": name, "description": description, "inputSchema": schema, **execution}


TOOLS: dict[str, tuple[Json, Work]] = {
    tool["name"]: (tool, work)
    for tool, work in [
        (_tool("greet", "Greets at once.", None, name="string"), _greet),
        (_tool("slow_compute", "Takes a while.", "optional", seconds="number", label="string"), _compute),
        (_tool("failing_job", "Reports an error after a second.", "required"), _fail),
        (_tool("protocol_error_job", "Ends with a JSON-RPC error.", "optional"), _break),
        (_tool("confirm_delete", "Asks before it deletes.", "optional", filename="string"), _delete),
        (_tool("multi_input", "Asks for two things at once.", "optional"), _two_names),
        (_tool("test_tool_with_task", "Asks first, then becomes a task.", "required"), _named),
    ]
}
ASKS_FIRST = "test_tool_with_task"


def task_support(tool: Json) -> str | None:
    """Whether the tool may or must become a task."""
    return tool.get("execution", {}).get("taskSupport")
