"""A team's handbook as an MCP server: skills, which are instructions for a task, with their files.

Run it with any Python that has the `mcp` package: `python handbook.py`.
"""

from hashlib import sha256
from typing import Any

from mcp.server.extension import Extension, MethodBinding
from mcp.server.mcpserver import MCPServer
from mcp.shared.exceptions import MCPError
from mcp.types import INVALID_PARAMS, PaginatedRequestParams, RequestParams

FILES = {
    "skill://refunds/SKILL.md": """\
---
name: refunds
description: Refund a customer by the rules of the shop
allowed-tools: shell
---

Refund up to 50 euros at once. Above that, ask a manager; `references/LIMITS.md` has the limits.
""",
    "skill://refunds/references/LIMITS.md": "Manager: 500 euros. Owner: any amount.\n",
}
FRONTMATTER = {
    "name": "refunds",
    "description": "Refund a customer by the rules of the shop",
    "allowed-tools": "shell",
}


def entry() -> dict[str, Any]:
    """The skill with all its files and their digests."""
    files = [
        {"uri": uri, "digest": f"sha256:{sha256(text.encode()).hexdigest()}", "size": len(text.encode())}
        for uri, text in FILES.items()
    ]
    return {"uri": "skill://refunds/SKILL.md", "frontmatter": FRONTMATTER, "resources": files}


class OneSkill(RequestParams):
    """The requested skill."""

    uri: str


class Skills(Extension):
    """Serves `skills/list` and `skills/get`; the files are ordinary resources."""

    identifier = "io.modelcontextprotocol/skills"

    def methods(self) -> list[MethodBinding]:
        """The two methods of the extension."""
        return [
            MethodBinding("skills/list", PaginatedRequestParams, self.list),
            MethodBinding("skills/get", OneSkill, self.get),
        ]

    async def list(self, ctx: Any, params: Any) -> dict[str, Any]:
        """All skills."""
        return {"skills": [entry()], "ttlMs": 0, "cacheScope": "public"}

    async def get(self, ctx: Any, params: OneSkill) -> dict[str, Any]:
        """One skill."""
        if params.uri != entry()["uri"]:
            raise MCPError(INVALID_PARAMS, f"no skill is served at {params.uri}")
        return {"skill": entry(), "ttlMs": 0, "cacheScope": "public"}


server = MCPServer("handbook", extensions=[Skills()])


@server.resource("skill://refunds/SKILL.md", mime_type="text/markdown")
def refunds() -> str:
    """The skill itself."""
    return FILES["skill://refunds/SKILL.md"]


@server.resource("skill://refunds/references/LIMITS.md", mime_type="text/markdown")
def limits() -> str:
    """A file of the skill."""
    return FILES["skill://refunds/references/LIMITS.md"]


@server.tool(structured_output=False)
def refund(customer: str, euros: int) -> str:
    """Refund a customer."""
    return f"{customer} gets {euros} euros back"


if __name__ == "__main__":
    server.run()
