"""A link to tools that the bus runs itself: it lists them, and there is no server at its other end."""

from collections.abc import Mapping, Sequence
from typing import Any

import anyio
import anyio.abc
from mcp.shared.dispatcher import CallOptions, OnNotify, OnNotifyIntercept, OnRequest
from mcp.shared.exceptions import MCPError
from mcp_types import METHOD_NOT_FOUND
from mcp_types.version import LATEST_MODERN_VERSION

from toolbus.core import version
from toolbus.core.operation.tracing import ConnectionFacts
from toolbus.core.values.records import JSON


class ListedPeer:
    """Answers a handshake, and lists tools."""

    def __init__(self, name: str, definitions: Sequence[JSON]) -> None:
        self._name = name
        self._definitions = definitions
        self.connection = ConnectionFacts()

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
        """Answer a request; calls take another way."""
        match method:
            case "server/discover":
                return {
                    "supportedVersions": [LATEST_MODERN_VERSION],
                    "capabilities": {"tools": {}},
                    "serverInfo": {"name": self._name, "version": version()},
                    "resultType": "complete",
                }
            case "tools/list":
                tools = [*self._definitions]
                return {"tools": tools, "ttlMs": 0, "cacheScope": "private", "resultType": "complete"}
            case _:
                raise MCPError(METHOD_NOT_FOUND, f"{self._name} has no {method}")
