"""A small server on the SDK that shows media of many types, in memory."""

import base64

import mcp_types as types
from mcp.server.mcpserver import MCPServer

from tests.servers.everyday import PNG

SVG = b"<svg xmlns='http://www.w3.org/2000/svg'/>"
PDF = b"%PDF-1.7"


def gallery() -> MCPServer:
    """A fresh server with one tool."""
    server: MCPServer = MCPServer("gallery")

    @server.tool(structured_output=False)
    def show() -> list[types.ContentBlock]:
        """A picture under a wrong name, one that hardly a provider takes, and a document."""
        report = types.BlobResourceContents(
            uri="memo://report.pdf", blob=_encoded(PDF), mime_type="application/pdf"
        )
        return [
            types.ImageContent(data=_encoded(PNG), mime_type="image/jpg"),
            types.ImageContent(data=_encoded(SVG), mime_type="image/svg+xml"),
            types.EmbeddedResource(resource=report),
        ]

    return server


def _encoded(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")
