"""Servers in process for real definitions: each call is recorded, and answered.

The definitions are the 527 of LiveMCPBench, or come from the servers that the tests install.
"""

import json
from collections.abc import Iterable
from typing import Any

from mcp import types
from mcp.server.lowlevel import Server

from bench.search import queries
from tests.shape.corpus import FOLDER, by_server_name

Called = list[tuple[str, str]]
"""The server and the tool of each call."""


def config(called: Called, *, copies: int = 1, **settings: Any) -> dict[str, Any]:
    """A config with all of them, each server that many times; searched by words, which needs no encoder."""
    by_server: dict[str, list[Any]] = {}
    for copy in range(copies):
        for tool in by_server_name():
            by_server.setdefault(tool["server"] + (str(copy) if copy else ""), []).append(tool)
    servers = {name: {"server": _server(name, tools, called)} for name, tools in by_server.items()}
    return {"servers": servers, "search": {"encoder": "none"}, **settings}


def tasks() -> list[tuple[str, list[str]]]:
    """Tasks: their words, and the right tools (`server/tool`).

    Thirty steps of LiveMCPBench, every third; or our own queries for which there is a right tool.
    """
    if not FOLDER.is_dir():
        known = [(tool["name"], f"{tool['server']}/{tool['name']}") for tool in by_server_name()]
        own = [(query, [one for name, one in known if {name, one} & right]) for query, right in queries()]
        return [(query, right) for query, right in own if right]
    steps = json.loads((FOLDER / "livemcpbench" / "steps.json").read_text(encoding="utf-8"))
    return [(step["query"], step["tools"]) for step in steps[::3][:30]]


def arguments_for(schema: Any, root: Any = None) -> Any:
    """A value that fits a schema, with what it requires and nothing else."""
    root = schema if root is None else root
    match schema:
        case {"$ref": str(reference)}:
            inner = root
            for step in reference.removeprefix("#/").split("/"):
                inner = inner[step]
            return arguments_for(inner, root)
        case {"const": value} | {"enum": [value, *_]}:
            return value
        case {"anyOf": [first, *_]} | {"oneOf": [first, *_]}:
            return arguments_for(first, root)
        case {"type": "object"} | {"properties": _}:
            required = schema.get("required", ())
            return {name: arguments_for(schema["properties"].get(name, {}), root) for name in required}
        case {"type": "array"}:
            return [arguments_for(schema.get("items", {}), root)] * schema.get("minItems", 0)
        case {"type": "integer" | "number"}:
            return schema.get("minimum", 1)
        case {"type": "boolean"}:
            return True
        case _:
            return "x" * schema.get("minLength", 1)


def _server(name: str, tools: Iterable[Any], called: Called) -> Server[Any]:
    listed = types.ListToolsResult(
        tools=[
            types.Tool(
                name=tool["name"],
                description=tool.get("description") or "",
                input_schema=tool["inputSchema"],
            )
            for tool in tools
        ]
    )

    async def list_tools(_: object, __: object) -> types.ListToolsResult:
        return listed

    async def call_tool(_: object, params: types.CallToolRequestParams) -> types.CallToolResult:
        called.append((name, params.name))
        return types.CallToolResult(content=[types.TextContent(text=f"{params.name} of {name} is done")])

    return Server(name, on_list_tools=list_tools, on_call_tool=call_tool)
