"""The demo's notes: kept, found, forgotten; a tool that appears; a file that outlives its server."""

import asyncio
import subprocess
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, closing
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from tests import warm
from tests.demo.running import Servers, arguments, in_every_place, in_two_places
from tests.patience import PATIENCE
from toolbus import Toolbus
from toolbus.demo.notes import notes_server, open_notes
from toolbus.events import CatalogChanged

pytestmark = pytest.mark.anyio


@asynccontextmanager
async def bus_in_memory() -> AsyncGenerator[Toolbus]:
    with closing(open_notes(":memory:")) as db:
        async with Toolbus({"servers": {"notes": {"server": notes_server(db)}}}) as bus:
            yield bus


async def found(bus: Toolbus, words: str, **more: Any) -> list[tuple[int, str, list[str]]]:
    result = await bus.call("notes_search", {"words": words, **more})
    assert not result.is_error, result.text
    return [(note["id"], note["text"], note["tags"]) for note in result.structured["notes"]]


@in_two_places
async def test_notes_are_kept_found_and_forgotten(servers: Servers) -> None:
    async with Toolbus({"servers": {"notes": servers.entry("notes")}}) as bus:
        kept = [
            await bus.call("notes_add", {"text": "Buy green tea", "tags": ["shop"]}),
            await bus.call("notes_add", {"text": "call Ann"}),
        ]
        tea = await found(bus, "SHOP tea")
        everything = await found(bus, "")
        forgotten = await bus.call("notes_forget", {"id": 1})
        left = await found(bus, "")
        again = await bus.call("notes_forget", {"id": 1})
    assert [result.text for result in kept] == ["kept as note 1", "kept as note 2"]
    assert tea == [(1, "Buy green tea", ["shop"])]
    assert everything == [(2, "call Ann", []), (1, "Buy green tea", ["shop"])]
    assert (forgotten.text, left) == ("forgot note 1", [(2, "call Ann", [])])
    assert again.is_error
    assert again.text.endswith("there is no note 1; call search to find existing ids")


@in_every_place
async def test_opening_the_archive_makes_a_tool_appear(servers: Servers) -> None:
    async with Toolbus({"servers": {"notes": servers.entry("notes")}}) as bus, asyncio.timeout(PATIENCE):
        before = bus.catalog.names
        events = bus.events()
        await bus.call("notes_add", {"text": "old", "tags": ["x"]})
        opening = await bus.call("notes_open_archive")
        change = await anext(e async for e in events if isinstance(e, CatalogChanged))
        archived = await bus.call("notes_archive", {"before": "2999-01-01"})
        remaining = await found(bus, "old"), await found(bus, "old archived")
        reopening = await bus.call("notes_open_archive")
    assert before == ("notes_add", "notes_forget", "notes_open_archive", "notes_search")
    assert (opening.text, opening.is_error) == ("the archive is open: there is a new tool, archive", False)
    assert (change.added, change.removed, change.changed) == (("notes_archive",), (), ())
    assert archived.text == "archived 1 notes"
    assert remaining == ([], [(1, "old", ["x", "archived"])])
    assert reopening.text == "the archive is already open"


async def test_notes_in_a_file_survive_a_restart(tmp_path: Path) -> None:
    path = str(tmp_path / "notes.db")
    by_option = {"command": warm.python(), "args": arguments("notes", "--db", path)}
    by_variable = {"command": warm.python(), "args": arguments("notes"), "env": {"NOTES_DB": path}}
    async with Toolbus({"servers": {"notes": by_option}}) as bus:
        await bus.call("notes_add", {"text": "still here"})
        await bus.call("notes_add", {"text": "not for long"})
        await bus.call("notes_forget", {"id": 2})
    async with Toolbus({"servers": {"notes": by_variable}}) as bus:
        kept = await found(bus, "")
        added = await bus.call("notes_add", {"text": "one more"})
    assert kept == [(1, "still here", [])]
    assert added.text == "kept as note 3"  # an id is never used twice


async def test_only_notes_made_before_the_date_are_archived() -> None:
    async with bus_in_memory() as bus, asyncio.timeout(PATIENCE):
        await bus.call("notes_add", {"text": "new"})
        events = bus.events()
        await bus.call("notes_open_archive")
        await anext(e async for e in events if isinstance(e, CatalogChanged))
        result = await bus.call("notes_search", {"words": "", "limit": 1})
        made = result.structured["notes"][0]["created"]
        just_then = await bus.call("notes_archive", {"before": made})
        nonsense = await bus.call("notes_archive", {"before": "yesterday"})
        assert await found(bus, "") == [(1, "new", [])]
    assert datetime.fromisoformat(made).utcoffset() is not None
    assert just_then.text == "archived 0 notes"
    assert nonsense.is_error
    assert nonsense.text.endswith("'yesterday' is not an ISO date or time; use a format like 2026-01-31")


async def test_a_search_gives_the_newest_and_no_more_than_asked_for() -> None:
    async with bus_in_memory() as bus:
        for number in range(1, 5):
            await bus.call("notes_add", {"text": f"Größe {number}"})
        assert await found(bus, "GRÖSSE", limit=2) == [(4, "Größe 4", []), (3, "Größe 3", [])]


async def test_the_tools_say_truthfully_what_they_do() -> None:
    async with bus_in_memory() as bus:
        hints = {spec.origin.tool: spec.annotations for spec in bus.catalog}
        described = [
            "description" in value
            for spec in bus.catalog
            for value in spec.input_schema["properties"].values()
        ]
    writes = {"readOnlyHint": False, "openWorldHint": False}
    assert hints == {
        "add": writes | {"destructiveHint": False, "idempotentHint": False},
        "search": {"readOnlyHint": True, "openWorldHint": False},
        "forget": writes | {"destructiveHint": True, "idempotentHint": True},
        "open_archive": writes | {"destructiveHint": False, "idempotentHint": True},
    }
    assert described == [True] * 5


def test_a_file_that_cannot_keep_notes_ends_the_server_with_the_reason(tmp_path: Path) -> None:
    (tmp_path / "letter.txt").write_text("Dear Ann, this is no database. " * 40)
    command = [warm.python(), *arguments("notes", "--db", "letter.txt")]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.endswith("error: cannot store notes in 'letter.txt': file is not a database\n")
