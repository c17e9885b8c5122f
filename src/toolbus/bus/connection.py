"""One server without a config file: `connect_mcp`, and the connection it returns."""

from collections.abc import Generator, Mapping
from types import TracebackType
from typing import Any

from toolbus.bus.catalog.tool import Tool
from toolbus.bus.toolbus import Toolbus
from toolbus.config import BusConfig, ServerConfig, load_server
from toolbus.config.hosts.entry import is_server_object
from toolbus.core.ask.interactions import NO_HANDLERS, Interactions
from toolbus.core.operation.events import OnLog
from toolbus.core.operation.operation import OnInput
from toolbus.core.values.errors import BusClosed
from toolbus.core.values.records import (
    JSON,
    Embedded,
    Progress,
    Prompt,
    PromptResult,
    Resource,
    ResourceTemplate,
    ToolResult,
)
from toolbus.core.values.uri_templates import Values
from toolbus.shape.naming import prefixed


class McpConnection:
    """A bus of one server, whose tools keep the server's own names."""

    def __init__(self, bus: Toolbus, server: str) -> None:
        self.bus = bus
        self.server = server

    async def list_tools(self, prefix: str | None = None) -> list[Tool]:
        """The tools, from the live catalog; `prefix="fs"` names them `fs_read_file` and so on."""
        self._check()
        tools = self.bus.tools(self.server)
        if prefix is None:
            return tools
        return [Tool(spec, self.bus) for spec in prefixed(prefix)([tool.spec for tool in tools])]

    async def call_tool(
        self,
        name: str,
        arguments: Mapping[str, JSON] | None = None,
        *,
        timeout: float | None = None,
        on_progress: Progress | None = None,
        on_log: OnLog | None = None,
        on_input: OnInput = "ask",
    ) -> ToolResult:
        """Call a tool by the server's own name; as `Toolbus.call`."""
        return await self.bus.call(
            f"{self.server}/{name}",
            arguments,
            timeout=timeout,
            on_progress=on_progress,
            on_log=on_log,
            on_input=on_input,
        )

    async def list_resources(self) -> list[Resource]:
        """The resources."""
        self._check()
        return self.bus.resources()

    async def list_templates(self) -> list[ResourceTemplate]:
        """The resource templates."""
        self._check()
        return self.bus.templates()

    async def read_resource(self, uri: str, variables: Values | None = None) -> tuple[Embedded, ...]:
        """Read a resource; it may come in several parts. With `variables`, the URI is a template."""
        return await self.bus.read_resource(self.server, uri, variables)

    async def list_prompts(self) -> list[Prompt]:
        """The prompts."""
        self._check()
        return self.bus.prompts()

    async def get_prompt(self, name: str, arguments: Mapping[str, str] | None = None) -> PromptResult:
        """Fill in a prompt."""
        return await self.bus.get_prompt(self.server, name, arguments)

    def _check(self) -> None:
        if not self.bus.running:
            raise BusClosed("the connection")

    async def close(self) -> None:
        """Disconnect; from any task, any number of times."""
        await self.bus.close()

    async def __aenter__(self) -> "McpConnection":
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


class Connecting:
    """A connection that is not open yet: `await` it, or use `async with`."""

    def __init__(self, server: ServerConfig, interactions: Interactions) -> None:
        self.server = server.alias
        self.config = BusConfig(servers={server.alias: server}, naming="{tool}")
        self.interactions = interactions
        self._connection: McpConnection | None = None

    def __await__(self) -> Generator[Any, None, McpConnection]:
        return self._connect().__await__()

    async def __aenter__(self) -> McpConnection:
        self._connection = await self._connect()
        return self._connection

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._connection is not None:
            await self._connection.close()

    async def _connect(self) -> McpConnection:
        bus = Toolbus(self.config, interactions=self.interactions)
        await bus.start()
        return McpConnection(bus, self.server)


def connect_mcp(
    source: Any = None,
    *,
    alias: str | None = None,
    interactions: Interactions = NO_HANDLERS,
    **config: Any,
) -> Connecting:
    """Connect to one server: a URL, a dict, an in-process server, or keywords such as `command` and `args`.

    `interactions` answers the requests of the server.
    Raises `ConnectFailed` with the phase that failed.

    ```python
    async with connect_mcp(command="python", args=["notes.py"]) as notes:
        print([tool.name for tool in await notes.list_tools()])  # ['add', 'search']
        print((await notes.call_tool("add", {"text": "buy tea"})).text)  # kept as note 1
    ```
    """
    if source is not None and config:
        if not isinstance(source, str) and not is_server_object(source):
            raise TypeError("pass a server as one argument or as keywords, not both")
        config = {"url" if isinstance(source, str) else "server": source, **config}
    server = load_server(config if source is None or config else source, alias=alias)
    return Connecting(server.model_copy(update={"required": True}), interactions)
