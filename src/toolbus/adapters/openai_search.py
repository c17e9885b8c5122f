"""The search for tools in OpenAI's Responses API, executed here: the model asks, our index answers.

A request has the tool `tool_search` instead of the hidden tools. The reply to its call has the definitions of
those found, in one namespace for each server, and the model calls them from then on. The API keeps them at
the end of the conversation, so what requests begin with stays the same.
"""

import re
from typing import TYPE_CHECKING, cast

from toolbus.adapters.provider_tools import CompletedCall, RequestedCall, field_of
from toolbus.bus.catalog.tool import Tool
from toolbus.core.values.records import JSON

if TYPE_CHECKING:
    from openai.types.responses import ResponseInputItemParam as InputItem
    from openai.types.responses import ToolSearchToolParam

_ILLEGAL = re.compile(r"[^A-Za-z0-9_-]")
_LONGEST = 64


def search_definition(tool: Tool) -> "ToolSearchToolParam":
    """The tool that finds others."""
    return {
        "type": "tool_search",
        "execution": "client",
        "description": tool.description,
        "parameters": tool.parameters,
    }


def search_call(item: object) -> RequestedCall | None:
    """The search that an item of a response asks for; None if it is another one, or not ours to execute."""
    if field_of(item, "type") != "tool_search_call" or field_of(item, "execution") == "server":
        return None
    return RequestedCall(
        id=field_of(item, "call_id") or field_of(item, "id"),
        name="search_tools",
        arguments=field_of(item, "arguments"),
        complete=field_of(item, "status") != "incomplete",
        is_search=True,
    )


def search_output(answer: CompletedCall) -> "InputItem":
    """The definitions that a search found, for the model to call."""
    namespaces: dict[str, dict[str, JSON]] = {}
    for tool, definition in answer.found:
        name = _ILLEGAL.sub("_", tool.server)[:_LONGEST]
        namespace: dict[str, JSON] = {
            "type": "namespace",
            "name": name,
            "description": f"Tools of the server {tool.server!r}.",
            "tools": [],
        }
        namespaces.setdefault(name, namespace)["tools"].append(definition)
    output = {
        "type": "tool_search_output",
        "execution": "client",
        "call_id": answer.call.id,
        "status": "completed",
        "tools": list(namespaces.values()),
    }
    return cast("InputItem", output)
