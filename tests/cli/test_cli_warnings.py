"""Warnings of a command: about what it does, each of them once."""

import json
from pathlib import Path

import pytest

from tests.cli.running import scripted, toolbus, write_config
from tests.inside.core import Interactions
from toolbus import Toolbus
from toolbus.events import Event, Warned

LOCKED = {"reply": {"content": [{"type": "text", "text": "hello"}]}}


def test_a_call_prints_nothing_about_servers_that_it_does_not_use(tmp_path: Path) -> None:
    """A process of its own: processes of the other tests have set up more than a command does."""
    folder = tmp_path / "project"
    folder.mkdir()
    servers = {
        "one": scripted(folder, "one", tools=[{"name": "reply"}], results=LOCKED),
        "two": scripted(folder, "two", tools=[{"name": "go"}])
        | {"tools": ["nope*", "go"], "override": {"gone": {"description": "x"}}},
        "three": scripted(folder, "three", tools=[{"name": "stay"}]),
    }
    write_config(folder, servers)
    assert toolbus("lock", "--yes", folder=folder).returncode == 0
    write_config(folder, {**servers, "three": scripted(folder, "other", tools=[])})
    done = toolbus("call", "one_reply", folder=folder, cold=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "hello\n", "")
    held = toolbus("call", "three_stay", folder=folder, cold=True)
    assert held.returncode == 1
    assert held.stderr.count("launch line changed") == len(held.stderr.splitlines()) == 1


def test_a_call_names_what_differs_from_the_lockfile_once(tmp_path: Path) -> None:
    folder = tmp_path / "project"
    folder.mkdir()
    old = [{"name": "reply", "description": "Reply."}, {"name": "other", "description": "Other."}]
    servers = {alias: scripted(folder, alias, tools=old, results=LOCKED) for alias in ("one", "two")}
    write_config(folder, servers, lock="warn")
    assert toolbus("lock", "--yes", folder=folder).returncode == 0
    new = [{"name": "reply", "description": "Reply, then send."}, {"name": "other", "description": "New."}]
    for alias in servers:
        scripted(folder, alias, tools=new, results=LOCKED)
    done = toolbus("call", "one_reply", folder=folder, cold=True)
    assert (done.returncode, done.stdout) == (0, "hello\n")
    assert done.stderr.startswith("warning: tool 'reply': not as in toolbus.lock: its description changed")
    assert len(done.stderr.splitlines()) == 1


def test_a_missing_optional_method_is_no_warning(tmp_path: Path) -> None:
    """Some servers declare a capability of which they have only some methods, or none."""
    folder = tmp_path / "project"
    folder.mkdir()
    declared = ["resources", "prompts", "logging", "completions"]
    entry = scripted(folder, "one", tools=[{"name": "reply"}], declares=declared) | {"log_level": "debug"}
    write_config(folder, {"one": entry})
    listed = toolbus("tools", folder=folder)
    assert (listed.returncode, listed.stderr) == (0, "")
    assert [line.split()[0] for line in listed.stdout.splitlines()] == ["one", "one_reply"]
    report = json.loads(toolbus("check", "--json", folder=folder).stdout)
    assert report["servers"]["one"]["problems"] == []


@pytest.mark.anyio
async def test_a_refused_request_is_named(tmp_path: Path) -> None:
    form = {"type": "object", "properties": {"name": {"type": "string"}}}
    asked = {"who": {"message": "Who?", "requestedSchema": form}}
    entry = scripted(tmp_path, "one", tools=[{"name": "who"}], asks=asked)
    events: list[Event] = []
    nobody = Interactions(elicit=lambda question: question.decline(), rounds=0)
    async with Toolbus({"servers": {"one": entry}}, on_event=events.append, interactions=nobody) as bus:
        await bus.call("one_who", {})
    told = [event.message for event in events if isinstance(event, Warned)]
    assert told == ["its elicitation request was refused: it asked more than 0 times in one call"]
