"""A small MCP server to try toolbus on: notes, kept in memory. Runs over stdio."""

from mcp.server.mcpserver import MCPServer

server: MCPServer = MCPServer("notes", log_level="WARNING")
notes: list[str] = []


@server.tool(structured_output=False)
def add(text: str) -> str:
    """Keep a note."""
    notes.append(text)
    return f"kept as note {len(notes)}"


@server.tool(structured_output=False)
def search(word: str) -> str:
    """Find the notes that hold a word."""
    return "\n".join(note for note in notes if word in note) or "nothing found"


if __name__ == "__main__":
    server.run("stdio")
