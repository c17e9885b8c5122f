"""A link to tools behind which there is no MCP server: scripts of the config, or an HTTP API."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, cast

import anyio
import anyio.abc
from mcp.shared.dispatcher import CallOptions, OnNotify, OnNotifyIntercept, OnRequest
from mcp.shared.exceptions import MCPError
from mcp_types import METHOD_NOT_FOUND
from mcp_types.version import LATEST_MODERN_VERSION
from opentelemetry.context import get_value

from toolbus.core.operation.tracing import SPAN, ConnectionFacts, RequestSpan
from toolbus.core.values.records import JSON

ToolCalls = Callable[[Mapping[str, Any]], Awaitable[dict[str, Any]]]
"""Answers the parameters of a `tools/call`."""


class ListedPeer:
    """Answers a handshake, lists tools, and calls them, if calls come this way."""

    def __init__(
        self,
        server_info: Mapping[str, JSON],
        definitions: Sequence[JSON],
        *,
        instructions: str | None = None,
        calls: ToolCalls | None = None,
        connection: ConnectionFacts | None = None,
    ) -> None:
        self._discovered: dict[str, Any] = {
            "supportedVersions": [LATEST_MODERN_VERSION],
            "capabilities": {"tools": {}},
            "serverInfo": dict(server_info),
            "resultType": "complete",
            **({"instructions": instructions} if instructions else {}),
        }
        self._definitions = definitions
        self._calls = calls
        self.connection = connection or ConnectionFacts()

    async def run(
        self,
        on_request: OnRequest,
        on_notify: OnNotify,
        on_notify_intercept: OnNotifyIntercept | None = None,
        *,
        task_status: anyio.abc.TaskStatus[None] = anyio.TASK_STATUS_IGNORED,
    ) -> None:
        """Wait until the client leaves."""
        task_status.started()
        await anyio.sleep_forever()

    async def notify(
        self, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None = None
    ) -> None:
        """Ignore a notification."""

    async def send_raw_request(
        self, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None = None
    ) -> dict[str, Any]:
        """Answer a request."""
        if (span := get_value(SPAN)) is not None:
            cast(RequestSpan, span).sent(None, self.connection)
        match method:
            case "server/discover":
                return self._discovered
            case "tools/list":
                tools = [*self._definitions]
                return {"tools": tools, "ttlMs": 0, "cacheScope": "private", "resultType": "complete"}
            case "tools/call" if self._calls is not None:
                return await self._calls(params or {})
            case _:
                raise MCPError(METHOD_NOT_FOUND, f"{self._discovered['serverInfo']['name']} has no {method}")
