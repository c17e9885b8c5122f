"""`toolbus search`: what it prints, for people and programs."""

import json
from pathlib import Path

import pytest

from tests.cli.running import scripted, toolbus, write_config
from toolbus.sync import SyncToolbus

SEND = {"name": "send_letter", "description": "Send a letter by post."}
READ = {"name": "read", "description": "Read what others \x1b[31mwrote\x1b[0m."}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "work"
    made.mkdir()
    write_config(
        made, {"post": scripted(made, "post", tools=[READ, SEND]), "attic": {"command": "no-such-program"}}
    )
    return made


def test_what_people_and_programs_read(folder: Path) -> None:
    run = toolbus("search", "mail", "a", "letter", folder=folder)
    assert (run.returncode, run.stdout) == (
        0,
        "post_send_letter  Send a letter by post.\n    post; words: letter\n",
    )
    assert "not searched, because not connected: attic" in run.stderr
    shown = json.loads(toolbus("search", "read", "--json", folder=folder).stdout)
    assert [(hit["name"], hit["score"], hit["reason"]) for hit in shown["hits"]] == [
        ("post_read", 1.0, "its name")
    ]
    assert (shown["query"], shown["missing"]) == ("read", ["attic"])
    assert "\x1b" not in toolbus("search", "what others wrote", folder=folder).stdout


def test_what_does_not_exist_or_cannot_be_asked(folder: Path) -> None:
    run = toolbus("search", "quantum", folder=folder)
    assert (run.returncode, run.stdout) == (1, "")
    assert "no tool fits 'quantum'; see all with 'toolbus tools'" in run.stderr
    empty = toolbus("search", " ", folder=folder)
    assert empty.returncode == 2
    assert empty.stderr == "toolbus: nothing to search for; say what the tool should do\n"
    assert toolbus("search", "x", "--limit", "0", folder=folder).returncode == 2


def test_with_a_lockfile_no_server_is_started(folder: Path) -> None:
    write_config(folder, {"post": scripted(folder, "post", tools=[READ, SEND])})
    assert toolbus("lock", "--yes", folder=folder).returncode == 0
    (folder / "post.script").unlink()
    run = toolbus("search", "send", "letter", "--limit", "1", folder=folder)
    assert run.stdout.startswith("post_send_letter  Send a letter by post.\n"), run.stderr


def test_a_server_that_is_not_running_is_found_and_started_by_the_call(folder: Path) -> None:
    write_config(folder, {"post": {**scripted(folder, "post", tools=[READ, SEND]), "lazy": True}})
    assert toolbus("lock", "--yes", folder=folder).returncode == 0
    with SyncToolbus(str(folder / "toolbus.yaml")) as bus:
        (hit,) = bus.search("mail a letter", limit=1)
        assert (hit.name, bus.servers["post"].state) == ("post_send_letter", "idle")
        bus.call(hit.name)
        assert bus.servers["post"].state == "ready"
