"""Six clients behind one face, each used the way its own documentation shows.

| peer | one server | several servers |
|---|---|---|
| toolbus | `Toolbus(config)` | the same |
| SDK | `mcp.Client(server)` | `ClientSessionGroup`, with the name hook of its docstring |
| FastMCP | `fastmcp.Client(transport)` | `fastmcp.Client({"mcpServers": ...})` |
| langchain.mcp | `MCPAdapter(transport)`, calls by the tools it lists | `MCPAdapter({"mcpServers": ...})` |
| Pydantic AI | `MCPToolset(transport)`, `call_tool` as an agent's run calls it | not compared |
| OpenAI Agents | `MCPServerStdio` or `MCPServerStreamableHttp`, `call_tool` | not compared |

The first four are the columns of the table in docs/performance.md; `python -m bench` compares toolbus and the
SDK's client with the other four. Each is imported when it is opened, so that the interpreter of a trial holds
one of them.
"""

import warnings
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any, TypeAlias

Entry: TypeAlias = dict[str, Any]
"""`command` and `args`, or `url`."""
Servers: TypeAlias = Mapping[str, Entry]


@dataclass(frozen=True, slots=True, kw_only=True)
class Connected:
    """The operations that the trials use on a connected client."""

    call: Callable[[str, str, str], Awaitable[str]]
    """Calls a tool: server, the server's name for the tool, and a text. Returns the text of the result."""
    list_tools: Callable[[], Awaitable[list[str]]]
    """Requests a new list of tools."""
    known_tools: Callable[[], list[str]] | None = None
    """The tools the client knows now, without a request; None if the client keeps no list."""


Opening: TypeAlias = Callable[[Servers], AbstractAsyncContextManager[Connected]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """A client to compare."""

    name: str
    package: str
    open: Opening

    @property
    def title(self) -> str:
        return f"{self.name} {version(self.package)}"


@asynccontextmanager
async def open_toolbus(servers: Servers) -> AsyncGenerator[Connected]:
    """Connect with toolbus."""
    from toolbus import Toolbus

    async with Toolbus({"servers": dict(servers)}) as bus:

        async def call(server: str, tool: str, text: str) -> str:
            result = await bus.call(f"{server}_{tool}", {"text": text})
            return result.raise_for_error().text

        async def list_tools() -> list[str]:
            return list(bus.catalog.names)

        yield Connected(call=call, list_tools=list_tools, known_tools=lambda: list(bus.catalog.names))


@asynccontextmanager
async def open_sdk(servers: Servers) -> AsyncGenerator[Connected]:
    """Connect with the SDK."""
    from mcp import Client, StdioServerParameters

    if len(servers) > 1:
        async with open_sdk_group(servers) as connected:
            yield connected
        return
    [entry] = servers.values()
    async with Client(entry.get("url") or StdioServerParameters(**entry)) as client:

        async def call(server: str, tool: str, text: str) -> str:
            result = await client.call_tool(tool, {"text": text})
            return joined_text(result.content)

        async def list_tools() -> list[str]:
            return [tool.name for tool in (await client.list_tools()).tools]

        yield Connected(call=call, list_tools=list_tools)


@asynccontextmanager
async def open_sdk_group(servers: Servers) -> AsyncGenerator[Connected]:
    """Connect the SDK's group to several servers."""
    from mcp import ClientSessionGroup, StdioServerParameters

    async with ClientSessionGroup(component_name_hook=lambda name, info: f"{info.name}_{name}") as group:
        for entry in servers.values():
            await group.connect_to_server(StdioServerParameters(**entry))

        async def call(server: str, tool: str, text: str) -> str:
            result = await group.call_tool(f"{server}_{tool}", {"text": text})
            return joined_text(result.content)

        async def list_tools() -> list[str]:
            return list(group.tools)

        yield Connected(call=call, list_tools=list_tools)


@asynccontextmanager
async def open_fastmcp(servers: Servers) -> AsyncGenerator[Connected]:
    """Connect with FastMCP."""
    import fastmcp

    async with fastmcp.Client[Any](_fastmcp_target(servers)) as client:

        async def call(server: str, tool: str, text: str) -> str:
            result = await client.call_tool(_fastmcp_name(servers, server, tool), {"text": text})
            return joined_text(result.content)

        async def list_tools() -> list[str]:
            return [tool.name for tool in await client.list_tools()]

        yield Connected(call=call, list_tools=list_tools)


@asynccontextmanager
async def open_langchain(servers: Servers) -> AsyncGenerator[Connected]:
    """Connect with `langchain.mcp`."""
    from langchain_core._api import LangChainBetaWarning

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LangChainBetaWarning)
        from langchain.mcp import MCPAdapter

    async with MCPAdapter(_fastmcp_target(servers)) as adapter:
        tools = {tool.name: tool for tool in await adapter.list_tools()}

        async def call(server: str, tool: str, text: str) -> str:
            content: Any = await tools[_fastmcp_name(servers, server, tool)].ainvoke({"text": text})
            return content if isinstance(content, str) else "".join(block["text"] for block in content)

        async def list_tools() -> list[str]:
            return [tool.name for tool in await adapter.list_tools()]

        yield Connected(call=call, list_tools=list_tools)


@asynccontextmanager
async def open_pydantic_ai(servers: Servers) -> AsyncGenerator[Connected]:
    """Connect one server with Pydantic AI's toolset."""
    from pydantic_ai import RunContext
    from pydantic_ai.mcp import MCPToolset
    from pydantic_ai.models.test import TestModel
    from pydantic_ai.usage import RunUsage

    context = RunContext[Any](deps=None, model=TestModel(), usage=RunUsage())
    async with MCPToolset[Any](_fastmcp_target(servers)) as toolset:
        tools = await toolset.get_tools(context)

        async def call(server: str, tool: str, text: str) -> str:
            return await toolset.call_tool(tool, {"text": text}, context, tools[tool])

        async def list_tools() -> list[str]:
            return list(await toolset.get_tools(context))

        yield Connected(call=call, list_tools=list_tools)


@asynccontextmanager
async def open_openai_agents(servers: Servers) -> AsyncGenerator[Connected]:
    """Connect one server with the server class of the OpenAI Agents SDK."""
    from agents.mcp import MCPServerStdio, MCPServerStreamableHttp

    [entry] = servers.values()
    params: Any = entry
    kind: Any = MCPServerStreamableHttp if "url" in entry else MCPServerStdio
    async with kind(params, cache_tools_list=True) as server:
        await server.list_tools()

        async def call(server_name: str, tool: str, text: str) -> str:
            result = await server.call_tool(tool, {"text": text})
            return joined_text(result.content)

        async def list_tools() -> list[str]:
            return [tool.name for tool in await server.list_tools()]

        yield Connected(call=call, list_tools=list_tools)


def _fastmcp_target(servers: Servers) -> Any:
    from fastmcp.client.transports import StdioTransport

    if len(servers) > 1:
        return {"mcpServers": dict(servers)}
    [entry] = servers.values()
    return entry.get("url") or StdioTransport(**entry)


def _fastmcp_name(servers: Servers, server: str, tool: str) -> str:
    return f"{server}_{tool}" if len(servers) > 1 else tool


def joined_text(content: list[Any]) -> str:
    """The text of a result."""
    return "".join(block.text for block in content)


ALL = {
    peer.name: peer
    for peer in (
        Peer(name="toolbus", package="toolbus", open=open_toolbus),
        Peer(name="SDK client", package="mcp", open=open_sdk),
        Peer(name="FastMCP client", package="fastmcp-slim", open=open_fastmcp),
        Peer(name="langchain.mcp", package="langchain", open=open_langchain),
        Peer(name="pydantic-ai", package="pydantic-ai-slim", open=open_pydantic_ai),
        Peer(
            name="OpenAI Agents",
            package="openai-agents",
            open=open_openai_agents,
        ),
    )
}
PEERS = {name: ALL[name] for name in ("toolbus", "SDK client", "FastMCP client", "langchain.mcp")}
"""The columns of the table in docs/performance.md."""
OTHERS = {name: ALL[name] for name in ("FastMCP client", "langchain.mcp", "pydantic-ai", "OpenAI Agents")}
"""The peers that `python -m bench` measures beside toolbus and the SDK's client."""
