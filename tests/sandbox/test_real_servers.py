"""Servers that others wrote, in a sandbox: they work as outside, in the folders that they get."""

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.interop.servers import SERVERS, require_git, require_installed
from tests.interop.test_reference_servers import git
from tests.sandbox.place import require_sandbox
from toolbus import Toolbus

require_sandbox()
require_installed("time", "git", "sqlite", "node")

pytestmark = pytest.mark.anyio

CERTIFICATES = "/etc/ssl/certs/ca-certificates.crt"
needs_npx = pytest.mark.skipif(shutil.which("npx") is None, reason="npx is not on the PATH; install node")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A git repository with one commit, and a file."""
    require_git()
    folder = tmp_path / "folder"
    folder.mkdir()
    git(folder, "init", "--initial-branch", "main")
    (folder / "notes.txt").write_text("one\n")
    git(folder, "add", ".")
    git(folder, "commit", "--message", "Begin")
    return folder


def bus_of(alias: str, entry: dict[str, Any], **sandbox: Any) -> Toolbus:
    return Toolbus({"servers": {alias: {**entry, "required": True, "sandbox": sandbox or True}}})


async def test_time_needs_nothing(tmp_path: Path) -> None:
    asked = {"source_timezone": "UTC", "time": "12:00", "target_timezone": "Asia/Tokyo"}
    async with bus_of("time", SERVERS["time"].config(tmp_path)) as bus:
        result = await bus.call("time_convert_time", asked)
    assert json.loads(result.text)["time_difference"] == "+9.0h"


async def test_git_reads_a_repository_and_writes_to_it_if_it_may(folder: Path) -> None:
    path = {"repo_path": str(folder)}
    (folder / "new.txt").write_text("new\n")
    async with bus_of("git", SERVERS["git"].config(folder), read=[str(folder)]) as bus:
        assert "Begin" in (await bus.call("git_log", path)).text
        refused = await bus.call("git_add", {**path, "files": ["new.txt"]})
    assert refused.is_error
    assert "Read-only file system" in refused.text
    async with bus_of("git", SERVERS["git"].config(folder), write=[str(folder)]) as bus:
        await bus.call("git_add", {**path, "files": ["new.txt"]})
    assert git(folder, "status", "--short") == "A  new.txt"


@pytest.mark.full  # as git does
async def test_sqlite_keeps_its_database_in_a_folder_that_it_may_write(folder: Path) -> None:
    async with bus_of("sqlite", SERVERS["sqlite"].config(folder), write=[str(folder)]) as bus:
        await bus.call("sqlite_create_table", {"query": "CREATE TABLE tea (name TEXT)"})
        await bus.call("sqlite_write_query", {"query": "INSERT INTO tea VALUES ('Assam')"})
        read = await bus.call("sqlite_read_query", {"query": "SELECT * FROM tea"})
    assert read.text == "[{'name': 'Assam'}]"
    assert (folder / "test.db").stat().st_size > 0


async def test_filesystem_reads_the_folder_that_it_gets_and_does_not_change_it(folder: Path) -> None:
    async with bus_of("filesystem", SERVERS["filesystem"].config(folder), read=[str(folder)]) as bus:
        read = await bus.call("filesystem_read_text_file", {"path": str(folder / "notes.txt")})
        refused = await bus.call("filesystem_write_file", {"path": str(folder / "new"), "content": "x"})
    assert read.text == "one\n"
    assert "EROFS" in refused.text
    async with bus_of("filesystem", SERVERS["filesystem"].config(folder), write=[str(folder)]) as bus:
        await bus.call("filesystem_write_file", {"path": str(folder / "new"), "content": "x"})
    assert (folder / "new").read_text() == "x"


async def test_filesystem_without_its_folder_says_what_to_add(folder: Path) -> None:
    config = {"servers": {"filesystem": {**SERVERS["filesystem"].config(folder), "sandbox": True}}}
    async with Toolbus(config) as bus:
        error = bus.servers["filesystem"].error or ""
    assert f"its sandbox does not show '{folder}'; add sandbox: {{read: [{folder}]}}" in error


@pytest.mark.full  # as filesystem does
async def test_memory_remembers_in_a_folder_that_it_may_write(folder: Path) -> None:
    ada: dict[str, Any] = {"name": "Ada", "entityType": "person", "observations": []}
    async with bus_of("memory", SERVERS["memory"].config(folder), write=[str(folder)]) as bus:
        await bus.call("memory_create_entities", {"entities": [ada]})
    assert "Ada" in (folder / "memory.jsonl").read_text()


@pytest.fixture
def registries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The real ones, with the certificates of the system, and an empty state folder."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    if os.path.exists(CERTIFICATES):
        monkeypatch.setenv("SSL_CERT_FILE", CERTIFICATES)
    else:
        monkeypatch.delenv("SSL_CERT_FILE")


@pytest.mark.full
@pytest.mark.usefixtures("registries")
async def test_uvx_starts_a_server_from_the_package_index(folder: Path) -> None:
    entry = {"command": "uvx", "args": ["mcp-server-git", "--repository", str(folder)]}
    async with bus_of("git", {**entry, "timeouts": {"connect": 300}}, read=[str(folder)]) as bus:
        assert "Begin" in (await bus.call("git_log", {"repo_path": str(folder)})).text


@pytest.mark.full
@pytest.mark.usefixtures("registries")
@needs_npx
async def test_npx_starts_a_server_from_the_package_registry(folder: Path) -> None:
    args = ["-y", "@modelcontextprotocol/server-filesystem", str(folder)]
    entry = {"command": "npx", "args": args, "timeouts": {"connect": 300}}
    async with bus_of("filesystem", entry, read=[str(folder)]) as bus:
        read = await bus.call("filesystem_read_text_file", {"path": str(folder / "notes.txt")})
    assert read.text == "one\n"
