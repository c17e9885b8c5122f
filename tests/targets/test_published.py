"""Other people's code is shown before it is run: a server.json, an .mcpb file, the servers of editors."""

import json
import zipfile
from pathlib import Path
from typing import Any

import pytest

from tests import warm
from tests.cli.running import toolbus
from tests.cli.terminal import terminal
from tests.conftest import SERVERS, web_server

PLAIN = str(SERVERS / "plain.py")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """An empty folder in an empty home."""
    made = tmp_path / "folder"
    made.mkdir()
    return made


def server_json(folder: Path, **parts: Any) -> None:
    document = {"name": "io.github.user/notes", "description": "x", "version": "1.0.0", **parts}
    (folder / "server.json").write_text(json.dumps(document))


def bundle(folder: Path, command: str = "python3") -> None:
    """An .mcpb file whose server leaves a file where it runs."""
    launch = {"command": command, "args": ["${__dirname}/server.py"]}
    manifest = {
        "manifest_version": "0.3",
        "name": "notes",
        "version": "1.0.0",
        "description": "x",
        "author": {"name": "x"},
        "server": {"type": "python", "entry_point": "server.py", "mcp_config": launch},
    }
    with zipfile.ZipFile(folder / "notes.mcpb", "w") as archive:
        archive.writestr("manifest.json", json.dumps(manifest))
        archive.writestr("server.py", f"open('ran', 'w')\n{Path(PLAIN).read_text()}")


def test_a_bundle_is_shown_and_not_run_without_a_terminal(folder: Path) -> None:
    bundle(folder)
    for more in ([], ["--json"]):
        done = toolbus("call", "--server", "notes.mcpb", "echo", "text=hi", *more, folder=folder)
        assert done.returncode == 2
        assert "/server.py" in done.stderr
        assert "nothing was run; if you trust notes.mcpb, run it again with --yes" in done.stderr
        assert not (folder / "ran").exists()
    done = toolbus("call", "--server", "notes.mcpb", "echo", "text=hi", "--yes", folder=folder)
    assert (done.returncode, done.stdout) == (0, "hi\n")
    assert (folder / "ran").exists()


def test_a_bundle_is_run_after_a_yes(folder: Path) -> None:
    bundle(folder)
    for key, code in (("n", 2), ("y", 0)):
        with terminal("call", "--server", "notes.mcpb", "echo", "text=hi", folder=folder) as screen:
            screen.until("names a server that would use:", "/server.py", "Use it? [y/N]: ")
            screen.press(f"{key}\n")
            assert screen.ended() == code, screen.plain
        assert (folder / "ran").exists() is (key == "y")


def test_a_url_in_a_server_json_is_reviewed_as_well(folder: Path) -> None:
    with web_server("http", folder) as port:
        remote = {"type": "streamable-http", "url": f"http://127.0.0.1:{port}/mcp"}
        server_json(folder, remotes=[remote])
        refused = toolbus("call", "--server", "server.json", "add", "a=1", "b=1", folder=folder)
        assert (refused.returncode, remote["url"] in refused.stderr) == (2, True)
        done = toolbus("call", "--server", "server.json", "add", "a=1", "b=1", "--yes", folder=folder)
        assert done.stdout == "2\n"


def test_a_missing_value_is_named_and_a_secret_is_kept_out_of_the_config(folder: Path) -> None:
    wanted = {"name": "API_KEY", "isSecret": True, "isRequired": True}
    package = {
        "registryType": "npm",
        "identifier": "@user/notes-mcp",
        "version": "1.0.0",
        "transport": {"type": "stdio"},
        "environmentVariables": [wanted],
    }
    server_json(folder, packages=[package])
    lost = toolbus("tools", "server.json", folder=folder)
    assert (lost.returncode, "needs 1 value; pass --env API_KEY=..." in lost.stderr) == (2, True)
    given = toolbus("tools", "server.json", "--env", "API_KEY=k3y-0123456789", folder=folder)
    assert "npx -y @user/notes-mcp@1.0.0" in given.stderr
    assert "k3y-0123456789" not in given.stdout + given.stderr


def test_a_config_is_not_a_server_json(folder: Path) -> None:
    (folder / "mcp.json").write_text(json.dumps({"mcpServers": {}}))
    done = toolbus("tools", "--server", "mcp.json", folder=folder)
    assert (done.returncode, "mcp.json is a config, not a server.json" in done.stderr) == (2, True)


# The servers of editors


def cursor(folder: Path, servers: dict[str, Any]) -> None:
    (folder / ".cursor").mkdir(exist_ok=True)
    (folder / ".cursor" / "mcp.json").write_text(json.dumps({"mcpServers": servers}))


def notes() -> dict[str, Any]:
    return {"command": warm.python(), "args": [PLAIN], "env": {"NOTES_TOKEN": "t0k3n-0123456789abc"}}


def test_without_a_terminal_the_servers_of_editors_are_only_reported(folder: Path) -> None:
    cursor(folder.parent, {"notes": notes(), "more": {"url": "http://127.0.0.1:9/mcp"}})
    for more in ([], ["--json"]):
        done = toolbus("tools", *more, folder=folder)
        assert done.returncode == 2
        assert "but 2 servers in Cursor: use them with 'toolbus import --write'" in done.stderr
        assert list(folder.iterdir()) == []


def test_on_a_terminal_the_servers_of_editors_are_shown_and_used_after_a_yes(folder: Path) -> None:
    cursor(folder.parent, {"notes": notes()})
    with terminal("tools", folder=folder) as screen:
        screen.until("# Cursor: ", "plain.py", "Use the 1 server in Cursor?", "[y/N]: ")
        assert list(folder.iterdir()) == []
        screen.press("n\n")
        assert screen.ended() == 2
    assert list(folder.iterdir()) == []
    with terminal("tools", folder=folder) as screen:
        screen.until("[y/N]: ")
        screen.press("y\n")
        screen.until("notes_echo")
        assert screen.ended() == 0
    assert "t0k3n" not in (folder / "toolbus.yaml").read_text()
    assert "t0k3n" in (folder / ".env").read_text()


def test_servers_of_a_project_are_asked_about_once_more(folder: Path) -> None:
    """Anyone may have put the file into the folder, such as the author of a cloned repository."""
    cursor(folder, {"notes": notes()})
    with terminal("tools", folder=folder) as screen:
        screen.until("[y/N]: ")
        screen.press("y\n")
        screen.until("Do you trust it? [y/N]: ")
        screen.press("n\n")
        assert screen.ended() == 1
