"""The everything server, except that its oldest tools ask only in the middle of a call, as most code does.

The modern era has no such questions, so these tools work in the legacy era only. Run it as `everything.py`.
"""

import sys
from pathlib import Path
from typing import Any

import mcp_types as types
from mcp.shared.exceptions import MCPError

sys.path.insert(0, str(Path(__file__).parents[2]))  # run as a script, too
from tests.gateway import everything as plain

LEGACY_ONLY = ("test_sampling", "test_elicitation")


class InCalls(plain.Everything):
    """Refuses questions in a modern call."""

    async def call_tool(self, ctx: plain.Context, params: types.CallToolRequestParams) -> Any:
        """Run a tool, or say that nobody can be asked."""
        if params.name.startswith(LEGACY_ONLY) and ctx.protocol_version >= "2026":
            raise MCPError(types.INVALID_REQUEST, "there is no way to ask the client")
        return await super().call_tool(ctx, params)


if __name__ == "__main__":
    plain.Everything = InCalls  # type: ignore[misc]
    plain.main(sys.argv[1:])
