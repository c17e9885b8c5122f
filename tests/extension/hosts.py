"""The parts of a host: a context, a manifest, and its agent's way to run a tool."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from agents import FunctionTool
from agents.tool_context import ToolContext

from tests import warm
from tests.conftest import SERVERS
from toolbus.extension import McpBridgeExtension


@dataclass
class Context:
    """A kernel that hands out secrets, and keeps what it is told."""

    secrets: Mapping[str, str] = field(default_factory=dict[str, str])
    config: Mapping[str, Any] | None = None
    manifest: Any = None
    told: list[tuple[str, Mapping[str, Any]]] = field(default_factory=list[tuple[str, Mapping[str, Any]]])

    def get_secret(self, name: str) -> str | None:
        return self.secrets.get(name)

    def emit(self, name: str, payload: Mapping[str, Any]) -> None:
        self.told.append((name, payload))


def desk(alias: str = "desk", **more: Any) -> dict[str, Any]:
    """An entry of the manifest for the everyday server as a process."""
    program = str(SERVERS / "everyday.py")
    return {
        "alias": alias,
        "transport": "stdio",
        "command": warm.python(),
        "args": [program, "stdio"],
        **more,
    }


def broken(alias: str = "broken") -> dict[str, Any]:
    """An entry for a server that cannot be started."""
    return {"alias": alias, "transport": "stdio", "command": "no-such-program"}


def manifest(folder: Path, *servers: Mapping[str, Any], **config: Any) -> Path:
    """A manifest with these servers, as a file."""
    path = folder / "manifest.yaml"
    path.write_text(yaml.safe_dump({"id": "mcp", "config": {"servers": list(servers), **config}}))
    return path


async def initialized(
    host: Context | None = None, /, *servers: Mapping[str, Any], **config: Any
) -> McpBridgeExtension:
    """An extension with these servers, not started yet."""
    extension = McpBridgeExtension({"config": {"servers": list(servers), **config}})
    await extension.initialize(host or Context())
    return extension


async def run(extension: McpBridgeExtension, name: str, /, **arguments: Any) -> Any:
    """The text that the agent gets when it calls the tool of that name."""
    [tool] = [tool for tool in extension.get_tools() if tool.name == name]
    return await invoked(tool, **arguments)


async def invoked(tool: FunctionTool, /, **arguments: Any) -> Any:
    """The text that the agent gets when it calls the tool."""
    text = json.dumps(arguments)
    context = ToolContext[None](None, tool_name=tool.name, tool_call_id="call_1", tool_arguments=text)
    return await tool.on_invoke_tool(context, text)
