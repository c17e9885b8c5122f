"""Tools that are no tools of a server: its resources and prompts, for agents that know nothing else."""

import asyncio
import json
from collections.abc import Mapping
from typing import Protocol

from toolbus.core.errors import CallTimeout
from toolbus.core.records import (
    JSON,
    Block,
    Embedded,
    Inventory,
    JSONObject,
    PromptResult,
    Text,
    ToolResult,
    ToolSpec,
)
from toolbus.shape import READ_RESOURCE, listing, prompt_of


class Source(Protocol):
    """Whoever has the resources and prompts: a bus."""

    @property
    def inventories(self) -> dict[str, Inventory]: ...

    async def read_resource(self, server: str, uri: str) -> tuple[Embedded, ...]: ...

    async def get_prompt(
        self, server: str, name: str, arguments: Mapping[str, str] | None = None
    ) -> PromptResult: ...


class ResourceTools:
    """Does what such a tool is for."""

    def __init__(self, source: Source) -> None:
        self._source = source

    async def run(self, spec: ToolSpec, arguments: JSONObject, timeout: float | None = None) -> ToolResult:
        """The result; `ToolbusError` if the server could not be asked."""
        try:
            async with asyncio.timeout(timeout):
                return await self._run(spec, arguments)
        except CallTimeout:
            raise
        except TimeoutError as error:
            raise CallTimeout(spec.origin.server, f"tool {spec.name!r}", timeout or 0) from error

    async def _run(self, spec: ToolSpec, arguments: JSONObject) -> ToolResult:
        match spec.via:
            case "resources/list":
                return self._listed(arguments.get("server"))
            case "resources/read":
                server = arguments["server"] if spec.origin == READ_RESOURCE.origin else spec.origin.server
                return ToolResult(content=await self._source.read_resource(server, arguments["uri"]))
            case "prompts/get":
                texts = {name: value for name, value in arguments.items() if value is not None}
                filled = await self._source.get_prompt(spec.origin.server, prompt_of(spec), texts)
                return ToolResult(content=_spoken(filled))
            case "tools/call":
                raise AssertionError("tools of servers are called, not this way")

    def _listed(self, server: JSON) -> ToolResult:
        inventories = self._source.inventories
        if server is not None and server not in inventories:
            return ToolResult.failure(f"there is no server {server!r}; there are {', '.join(inventories)}")
        found = listing(inventories, inventories if server is None else [server])
        return ToolResult(content=(Text(text=json.dumps(found, indent=1)),), structured=found)


def _spoken(prompt: PromptResult) -> tuple[Block, ...]:
    """The messages as one result; who speaks is said where it is not only the user."""
    mixed = any(message.role == "assistant" for message in prompt.messages)
    blocks: list[Block] = []
    for message in prompt.messages:
        if mixed:
            blocks.append(Text(text=f"[{message.role}]"))
        blocks.append(message.content)
    return tuple(blocks)
