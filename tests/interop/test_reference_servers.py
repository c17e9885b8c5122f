"""The reference servers of others, one at a time: stored input comes back."""

import json
import subprocess
import wave
from pathlib import Path

import pytest

from tests.interop.servers import SERVERS, require_git, require_installed
from toolbus import ConnectFailed, Toolbus, ToolResult, connect_mcp
from toolbus.records import JSON, Audio, Embedded, Text

require_installed("time", "git", "sqlite", "node")

pytestmark = pytest.mark.anyio


def bus_of(alias: str, folder: Path) -> Toolbus:
    """A bus of one server, which has to come up."""
    return Toolbus({"servers": {alias: SERVERS[alias].config(folder) | {"required": True}}})


def said(text: str, structured: JSON = None) -> ToolResult:
    """The result of a tool that said one text and had nothing to add."""
    return ToolResult(content=(Text(text=text),), structured=structured)


def git(folder: Path, *command: str) -> str:
    """Run git as someone, without the settings of the machine; give what it printed."""
    someone = ("-c", "user.name=Ada", "-c", "user.email=ada@example.com")
    done = subprocess.run(
        ["git", "-C", str(folder), *someone, *command], check=True, capture_output=True, text=True
    )
    return done.stdout.strip()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A git repository with one commit."""
    require_git()
    git(tmp_path, "init", "--initial-branch", "main")
    (tmp_path / "notes.txt").write_text("one\n")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "--message", "Begin")
    return tmp_path


async def test_time_converts_between_zones_and_fails_for_one_that_it_does_not_know(tmp_path: Path) -> None:
    asked = {"source_timezone": "UTC", "time": "12:00", "target_timezone": "Asia/Tokyo"}
    async with bus_of("time", tmp_path) as bus:
        failed = await bus.call("time_get_current_time", {"timezone": "Mars/Olympus"})
        result = await bus.call("time_convert_time", asked)
    assert failed.is_error
    assert "Mars/Olympus" in failed.text
    answer = json.loads(result.text)
    assert result.structured == answer
    assert answer["source"]["timezone"] == "UTC"
    assert answer["source"]["datetime"].endswith("T12:00:00+00:00")
    assert answer["target"]["timezone"] == "Asia/Tokyo"
    assert answer["target"]["datetime"].endswith("T21:00:00+09:00")
    assert answer["time_difference"] == "+9.0h"
    assert not result.is_error


async def test_git_shows_the_history_that_git_itself_wrote(repository: Path) -> None:
    async with bus_of("git", repository) as bus:
        assert "git_log" in bus.catalog.names
        assert "git_git_log" not in bus.catalog.names
        result = await bus.call("git_log", {"repo_path": str(repository)})
    digest, date = git(repository, "log", "-1", "--format=%H|%ci").split("|")
    assert result.text.splitlines() == [
        "Commit history:",
        f"Commit: {digest}",
        "Author: Ada",
        f"Date: {date[:-6]}{date[-5:-2]}:{date[-2:]}",
        "Message: Begin",
        "",
    ]


@pytest.mark.full  # in a sandbox, git writes always
async def test_git_stages_what_its_status_then_shows(repository: Path) -> None:
    (repository / "new.txt").write_text("new\n")
    path = {"repo_path": str(repository)}
    async with bus_of("git", repository) as bus:
        before = await bus.call("git_status", path)
        await bus.call("git_add", {**path, "files": ["new.txt"]})
        after = await bus.call("git_status", path)
    assert "Untracked files:" in before.text
    assert "Changes to be committed:" in after.text
    assert "new file:   new.txt" in after.text
    assert git(repository, "status", "--short") == "A  new.txt"


@pytest.mark.full  # as those of filesystem and time
async def test_git_outside_its_repository_is_a_failed_result(repository: Path) -> None:
    async with bus_of("git", repository) as bus:
        result = await bus.call("git_log", {"repo_path": "/nowhere"})
    assert result.is_error
    assert "outside the allowed repository" in result.text


async def test_sqlite_gives_back_its_rows_and_keeps_insights_in_a_resource(
    tmp_path: Path,
) -> None:
    async with bus_of("sqlite", tmp_path) as bus:
        made = await bus.call("sqlite_create_table", {"query": "CREATE TABLE tea (id INTEGER, name TEXT)"})
        rows = "INSERT INTO tea VALUES (1, 'Assam'), (2, 'Rooibos')"
        written = await bus.call("sqlite_write_query", {"query": rows})
        read = await bus.call("sqlite_read_query", {"query": "SELECT * FROM tea ORDER BY id"})
        tables = await bus.call("sqlite_list_tables")
        assert [resource.uri for resource in bus.resources()] == ["memo://insights"]
        await bus.call("sqlite_append_insight", {"insight": "Rooibos sells in winter."})
        parts = await bus.read_resource("sqlite", "memo://insights")
        prompt = await bus.get_prompt("sqlite", "mcp-demo", {"topic": "tea shops"})
    assert made == said("Table created successfully")
    assert written == said("[{'affected_rows': 2}]")
    assert read == said("[{'id': 1, 'name': 'Assam'}, {'id': 2, 'name': 'Rooibos'}]")
    assert tables == said("[{'name': 'tea'}]")
    assert [part.uri for part in parts] == ["memo://insights"]
    assert "- Rooibos sells in winter." in (parts[0].text or "")
    assert isinstance(prompt.messages[0].content, Text)
    assert "tea shops" in prompt.messages[0].content.text


async def test_filesystem_reads_and_lists_what_it_wrote(tmp_path: Path) -> None:
    file, text = tmp_path / "grüße.txt", "Grüße, 世界\n" * 3
    async with bus_of("filesystem", tmp_path) as bus:
        await bus.call("filesystem_write_file", {"path": str(file), "content": text})
        await bus.call("filesystem_create_directory", {"path": str(tmp_path / "folder")})
        read = await bus.call("filesystem_read_text_file", {"path": str(file)})
        listed = await bus.call("filesystem_list_directory", {"path": str(tmp_path)})
    assert read == said(text, {"content": text})
    assert sorted(listed.text.splitlines()) == ["[DIR] folder", "[FILE] grüße.txt"]
    assert file.read_text(encoding="utf-8") == text


async def test_filesystem_gives_a_sound_as_audio(tmp_path: Path) -> None:
    sound = tmp_path / "click.wav"
    with wave.open(str(sound), "wb") as writer:
        writer.setparams((1, 1, 8000, 0, "NONE", "not compressed"))
        writer.writeframes(bytes(range(256)))
    async with bus_of("filesystem", tmp_path) as bus:
        result = await bus.call("filesystem_read_media_file", {"path": str(sound)})
    assert result.content == (Audio(data=sound.read_bytes(), mime_type="audio/wav"),)
    assert not result.is_error


async def test_filesystem_outside_its_folder_is_a_failed_result(tmp_path: Path) -> None:
    async with bus_of("filesystem", tmp_path) as bus:
        result = await bus.call("filesystem_read_text_file", {"path": "/etc/hostname"})
    assert result.is_error
    assert result.text.startswith("Access denied")


async def test_memory_remembers_entities_and_relations(tmp_path: Path) -> None:
    ada: JSON = {"name": "Ada", "entityType": "person", "observations": ["writes programs"]}
    engine: JSON = {"name": "Engine", "entityType": "machine", "observations": []}
    writes_for = {"from": "Ada", "to": "Engine", "relationType": "writes for"}
    graph = {"entities": [ada, engine], "relations": [writes_for]}
    async with bus_of("memory", tmp_path) as bus:
        created = await bus.call("memory_create_entities", {"entities": [ada, engine]})
        await bus.call("memory_create_relations", {"relations": [writes_for]})
        read = await bus.call("memory_read_graph")
        found = await bus.call("memory_search_nodes", {"query": "programs"})
        [resource] = await bus.read_resource("memory", "memory://knowledge-graph")
    assert created.structured == {"entities": [ada, engine]}
    assert read == said(json.dumps(graph, indent=2), graph)
    assert [entity["name"] for entity in found.structured["entities"]] == ["Ada"]
    assert resource == Embedded(
        uri="memory://knowledge-graph", text=json.dumps(graph, indent=2), mime_type="application/json"
    )


async def test_memory_is_still_there_on_the_next_bus(tmp_path: Path) -> None:
    ada: JSON = {"name": "Ada", "entityType": "person", "observations": []}
    async with bus_of("memory", tmp_path) as bus:
        await bus.call("memory_create_entities", {"entities": [ada]})
    async with bus_of("memory", tmp_path) as bus:
        opened = await bus.call("memory_open_nodes", {"names": ["Ada"]})
    assert opened.structured == {"entities": [ada], "relations": []}


async def test_the_real_server_for_files_tells_which_folder_it_cannot_read(tmp_path: Path) -> None:
    missing = tmp_path / "missing"
    with pytest.raises(ConnectFailed) as caught:
        await connect_mcp(SERVERS["filesystem"].config(missing), alias="a")
    assert caught.value.problem == (
        "handshake failed: the process ended with exit code 1; on stderr: Warning: Cannot access directory "
        f"{missing}, skipping | Error: None of the specified directories are accessible"
    )
