"""Notes, kept in an SQLite file or in memory. Shows structured results, and a tool that appears later."""

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
    created: str = Field(description="UTC, as 2026-01-31T12:00:00+00:00")


class Found(BaseModel):
    """What a search found, the newest first."""

    notes: list[Note]


def opened(path: str) -> sqlite3.Connection:
    """The notes in this file (":memory:" for none); raises sqlite3.Error if it cannot hold any."""
    # The loop that serves may run in another thread than the one that opens.
    db = sqlite3.connect(path, check_same_thread=False)
    try:
        db.execute(TABLE)
    except sqlite3.Error:
        db.close()
        raise
    return db


def notes_server(db: sqlite3.Connection) -> MCPServer:
    """A server on these notes; whoever opened them closes them."""
    server: MCPServer = MCPServer(
        "notes",
        instructions="Keeps short notes. Search before you add, so that nothing is kept twice.",
        log_level="WARNING",
    )
    _keeping_tools(server, db)
    _archive_tools(server, db)
    return server


def _keeping_tools(server: MCPServer, db: sqlite3.Connection) -> None:
    # Async, though nothing is awaited: so all use of the connection stays in one thread, one at a time.
    @server.tool(annotations=ADDS, structured_output=False)
    async def add(
        text: Annotated[str, Field(min_length=1, description="What to remember.")],
        tags: Annotated[Sequence[str], Field(description="Words to find it by, beside its text.")] = (),
    ) -> str:
        """Keep a note. Says under which id."""
        created = datetime.now(UTC).isoformat(timespec="seconds")
        with db:
            row = (text, json.dumps(list(tags)), created)
            kept = db.execute("INSERT INTO notes (text, tags, created) VALUES (?, ?, ?)", row)
        return f"kept as note {kept.lastrowid}"

    @server.tool(annotations=READS)
    async def search(
        words: Annotated[str, Field(description="Words that all occur in text or tags; empty for any note.")],
        limit: Annotated[int, Field(ge=1, le=100, description="The most notes to give.")] = 10,
    ) -> Found:
        """Find notes, the newest first. Archived ones are left out unless "archived" is among the words."""
        return Found(notes=list(islice(_matching(db, words), limit)))

    @server.tool(annotations=FORGETS, structured_output=False)
    async def forget(
        id: Annotated[int, Field(ge=1, lt=2**53, description="The id of the note, as search gives it.")],  # noqa: A002 - its public name
    ) -> str:
        """Delete a note for good."""
        with db:
            gone = db.execute("DELETE FROM notes WHERE id = ?", (id,)).rowcount
        if not gone:
            raise ToolError(f"there is no note {id}; call search to find existing ids")
        return f"forgot note {id}"


def _archive_tools(server: MCPServer, db: sqlite3.Connection) -> None:
    is_open = False

    async def archive(
        before: Annotated[str, Field(description="An ISO date or time; UTC unless it says otherwise.")],
    ) -> str:
        """Put away all notes made before a date: search no longer gives them unless asked for "archived"."""
        with db:
            put_away = db.execute(
                "UPDATE notes SET archived = 1 WHERE archived = 0 AND created < ?", (_moment(before),)
            )
        return f"archived {put_away.rowcount} notes"

    @server.tool(annotations=REPEATABLE, structured_output=False)
    async def open_archive(ctx: Context) -> str:
        """Open the archive: a new tool, archive, appears."""
        nonlocal is_open
        if is_open:
            return "the archive is open already"
        is_open = True
        server.add_tool(archive, annotations=REPEATABLE, structured_output=False)
        await ctx.notify_tools_changed()  # the modern era: to whoever listens
        await ctx.session.send_tool_list_changed()  # the legacy era: to whoever called
        return "the archive is open: there is a new tool, archive"


def _matching(db: sqlite3.Connection, words: str) -> Iterator[Note]:
    wanted = words.casefold().split()
    rows = db.execute("SELECT id, text, tags, created, archived FROM notes ORDER BY id DESC")
    for key, text, tags, created, archived in rows:
        note = Note(id=key, text=text, tags=json.loads(tags) + [ARCHIVED] * archived, created=created)
        hay = " ".join([text, *note.tags]).casefold()
        if all(word in hay for word in wanted) and (not archived or ARCHIVED in wanted):
            yield note


def _moment(text: str) -> str:
    """The time as notes carry it, so that the two compare as texts."""
    try:
        moment = datetime.fromisoformat(text)
        moment = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except (ValueError, OverflowError):
        raise ToolError(f"{text!r} is not an ISO date or time; use a format like 2026-01-31") from None
    return moment.isoformat(timespec="seconds")


def main() -> None:
    """Serve the notes that the command line names."""
    parser = command_line("notes", __doc__)
    parser.add_argument(
        "--db",
        metavar="PATH",
        default=os.environ.get("NOTES_DB") or ":memory:",
        help="the file that keeps the notes (default: $NOTES_DB, else memory)",
    )
    options = parser.parse_args()
    try:
        db = opened(options.db)
    except sqlite3.Error as error:
        parser.error(f"cannot keep notes in {options.db!r}: {error}")
    with closing(db):
        serve(notes_server(db), options.http)


if __name__ == "__main__":
    main()
