"""A small server with a picture to read, and a prompt in which both sides speak."""

import base64

import mcp_types as types
from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.prompts.base import AssistantMessage, Message, UserMessage

from tests.servers.everyday import PNG

ZIP = b"PK\x03\x04\xff"


def library() -> MCPServer:
    """A fresh server."""
    server: MCPServer = MCPServer("library")

    @server.resource("memo://picture", mime_type="image/png")
    def picture() -> bytes:
        """A picture."""
        return PNG

    @server.resource("memo://archive", mime_type="application/zip")
    def archive() -> bytes:
        """Nothing that a model could read."""
        return ZIP

    @server.tool(structured_output=False)
    def fetch() -> types.EmbeddedResource:
        """The archive itself."""
        blob = base64.b64encode(ZIP).decode()
        return types.EmbeddedResource(
            resource=types.BlobResourceContents(uri="memo://archive", blob=blob, mime_type="application/zip")
        )

    @server.prompt()
    def interview(topic: str) -> list[Message]:
        """Begin a talk."""
        return [
            UserMessage(f"Let us talk about {topic}."),
            AssistantMessage("What do you want to know?"),
            UserMessage("Everything."),
        ]

    return server
