"""Notes in an SQLite file or in memory. Shows structured results, and a tool that appears later."""

import json
import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from datetime import UTC, datetime
from itertools import islice
from typing import Annotated

from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import ToolAnnotations
from pydantic import BaseModel, Field

from toolbus.demo.serve import command_line, serve

TABLE = """CREATE TABLE IF NOT EXISTS notes (
    id INTEGER PRIMARY KEY AUTOINCREMENT, text TEXT NOT NULL, tags TEXT NOT NULL, created TEXT NOT NULL,
    archived INTEGER NOT NULL DEFAULT 0)"""
ARCHIVED = "archived"
LARGEST_ID = 2**53 - 1
"""The largest integer that every JSON parser reads exactly."""
READS = ToolAnnotations(read_only_hint=True, open_world_hint=False)
ADDS = ToolAnnotations(
    read_only_hint=False, destructive_hint=False, idempotent_hint=False, open_world_hint=False
)
REPEATABLE = ToolAnnotations(
    read_only_hint=False, destructive_hint=False, idempotent_hint=True, open_world_hint=False
)
FORGETS = ToolAnnotations(
    read_only_hint=False, destructive_hint=True, idempotent_hint=True, open_world_hint=False
)


class Note(BaseModel):
    """One note."""

    id: int
    text: str
    tags: list[str]
    created: str = Field(description="UTC, such as 2026-01-31T12:00:00+00:00")


class FoundNotes(BaseModel):
    """The notes that a search found, newest first."""

    notes: list[Note]


def open_notes(path: str) -> sqlite3.Connection:
    """Open the notes in this file (":memory:" for none); raises sqlite3.Error if it cannot store notes."""
    # The server's event loop may run in another thread than this one.
    db = sqlite3.connect(path, check_same_thread=False)
    try:
        db.execute(TABLE)
    except sqlite3.Error:
        db.close()
        raise
    return db


def notes_server(db: sqlite3.Connection) -> MCPServer:
    """A server for these notes; the caller closes the connection."""
    server: MCPServer = MCPServer(
        "notes",
        instructions="Stores short notes. Search before you add, to avoid duplicates.",
        log_level="WARNING",
    )
    _note_tools(server, db)
    _archive_tools(server, db)
    return server


def _note_tools(server: MCPServer, db: sqlite3.Connection) -> None:
    # Async, although nothing is awaited: all use of the connection stays in one thread, one at a time.
    @server.tool(annotations=ADDS, structured_output=False)
    async def add(
        text: Annotated[str, Field(min_length=1, description="What to remember.")],
        tags: Annotated[
            Sequence[str], Field(description="Words to find it by, in addition to its text.")
        ] = (),
    ) -> str:
        """Store a note and return its id."""
        created = datetime.now(UTC).isoformat(timespec="seconds")
        with db:
            row = (text, json.dumps(list(tags)), created)
            inserted = db.execute("INSERT INTO notes (text, tags, created) VALUES (?, ?, ?)", row)
        return f"kept as note {inserted.lastrowid}"

    @server.tool(annotations=READS)
    async def search(
        words: Annotated[
            str, Field(description="Words that must all occur in the text or tags; empty for all notes.")
        ],
        limit: Annotated[int, Field(ge=1, le=100, description="Maximum number of notes to return.")] = 10,
    ) -> FoundNotes:
        """Find notes, newest first. Skips archived notes unless "archived" is among the words."""
        return FoundNotes(notes=list(islice(_matching(db, words), limit)))

    @server.tool(annotations=FORGETS, structured_output=False)
    async def forget(
        id: Annotated[int, Field(ge=1, le=LARGEST_ID, description="Its id, as returned by search.")],  # noqa: A002
    ) -> str:
        """Delete a note permanently."""
        with db:
            deleted = db.execute("DELETE FROM notes WHERE id = ?", (id,)).rowcount
        if not deleted:
            raise ToolError(f"there is no note {id}; call search to find existing ids")
        return f"forgot note {id}"


def _archive_tools(server: MCPServer, db: sqlite3.Connection) -> None:
    is_open = False

    async def archive(
        before: Annotated[str, Field(description="An ISO date or time; UTC unless it has an offset.")],
    ) -> str:
        """Archive all notes created before a date: search skips them unless asked for "archived"."""
        with db:
            updated = db.execute(
                "UPDATE notes SET archived = 1 WHERE archived = 0 AND created < ?", (_utc(before),)
            )
        return f"archived {updated.rowcount} notes"

    @server.tool(annotations=REPEATABLE, structured_output=False)
    async def open_archive(ctx: Context) -> str:
        """Open the archive: a new tool, archive, appears."""
        nonlocal is_open
        if is_open:
            return "the archive is already open"
        is_open = True
        server.add_tool(archive, annotations=REPEATABLE, structured_output=False)
        await ctx.notify_tools_changed()  # the modern protocol: to all subscribers
        await ctx.session.send_tool_list_changed()  # the legacy protocol: to the caller
        return "the archive is open: there is a new tool, archive"


def _matching(db: sqlite3.Connection, words: str) -> Iterator[Note]:
    wanted = words.casefold().split()
    rows = db.execute("SELECT id, text, tags, created, archived FROM notes ORDER BY id DESC")
    for key, text, tags, created, archived in rows:
        note = Note(id=key, text=text, tags=json.loads(tags) + [ARCHIVED] * archived, created=created)
        haystack = " ".join([text, *note.tags]).casefold()
        if all(word in haystack for word in wanted) and (not archived or ARCHIVED in wanted):
            yield note


def _utc(text: str) -> str:
    """The time in the format of stored notes, so that they compare as strings."""
    try:
        moment = datetime.fromisoformat(text)
        moment = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except (ValueError, OverflowError):
        raise ToolError(f"{text!r} is not an ISO date or time; use a format like 2026-01-31") from None
    return moment.isoformat(timespec="seconds")


def main() -> None:
    """Serve the notes given on the command line."""
    parser = command_line("notes", __doc__)
    parser.add_argument(
        "--db",
        metavar="PATH",
        default=os.environ.get("NOTES_DB") or ":memory:",
        help="the file to store notes in (default: $NOTES_DB, otherwise memory)",
    )
    options = parser.parse_args()
    try:
        db = open_notes(options.db)
    except sqlite3.Error as error:
        parser.error(f"cannot store notes in {options.db!r}: {error}")
    with closing(db):
        serve(notes_server(db), options.http)


if __name__ == "__main__":
    main()
