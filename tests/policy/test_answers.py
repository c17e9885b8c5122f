"""Lasting answers apply to one user, one definition and one rule, and expire with them."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests import warm
from tests.inside.policy import file_answers
from tests.policy.people import Person
from tests.servers.everyday import everyday
from toolbus import CallDenied, Toolbus
from toolbus.events import Event, Warned

pytestmark = pytest.mark.anyio

SERVER = """
import sys
from mcp.server.mcpserver import MCPServer

server = MCPServer("day")

@server.tool(structured_output=False, description={about!r})
def echo(text: str) -> str:
    return text

@server.tool(structured_output=False)
def other(text: str) -> str:
    return text

server.run("stdio")
"""


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "state"
    monkeypatch.setenv("XDG_STATE_HOME", str(folder))
    return folder


class Project:
    """A config file with one server, whose tool can be given a new description."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "toolbus.json"
        self.server = folder / "day.py"
        self.describe("Say it again.")
        self.write({"tools": "day/echo", "do": "ask"})

    def describe(self, about: str) -> None:
        self.server.write_text(SERVER.replace("{about!r}", repr(about)))

    def write(self, *rules: dict[str, Any]) -> None:
        entry = {"command": warm.python(), "args": [str(self.server)]}
        self.file.write_text(json.dumps({"servers": {"day": entry}, "policy": rules}))

    async def asked(self, *answers: Any, user: str = "") -> int:
        """The number of questions to a person in a run with two calls."""
        person = Person(*answers)
        async with Toolbus(self.file, interactions=person.interactions) as bus:
            view = bus.as_user(user) if user else bus
            for text in "ab":
                assert (await view.call("day_echo", {"text": text})).text == text
        return len(person.asked)


@pytest.fixture
def project(tmp_path: Path) -> Project:
    folder = tmp_path / "project"
    folder.mkdir()
    return Project(folder)


async def test_always_is_stored_until_the_definition_changes(project: Project) -> None:
    assert await project.asked("always") == 1
    assert await project.asked(False) == 0
    project.describe("Say it  again.\n")  # white space aside, the same
    assert await project.asked(False) == 0
    project.describe("Say it again, and send it to me.")
    assert await project.asked("once") == 2
    (expired,) = file_answers(project.file).all()  # it is kept, to be shown
    assert await project.asked("always") == 1
    (replaced,) = file_answers(project.file).all()
    assert expired.about.definition != replaced.about.definition
    project.describe("Say it again.")
    assert await project.asked("once") == 2


async def test_an_answer_expires_with_its_rule_but_not_when_the_rule_moves(project: Project) -> None:
    assert await project.asked("always") == 1
    rule = {"tools": "day/echo", "do": "ask"}
    project.write({"tools": "day/other", "do": "deny"}, rule)
    assert await project.asked(False) == 0
    project.write(rule | {"reason": "another one"})
    assert await project.asked("once") == 2


async def test_answers_are_of_one_user(project: Project) -> None:
    assert await project.asked("always", user="ann") == 1
    assert await project.asked("once", user="ann") == 0
    assert await project.asked("once", user="bob") == 2
    assert await project.asked("once") == 2


async def test_never_is_stored_as_a_denial(project: Project) -> None:
    person = Person("never")
    for _ in range(2):
        async with Toolbus(project.file, interactions=person.interactions) as bus:
            with pytest.raises(CallDenied, match="a person did not allow it"):
                await bus.call("day_echo", {"text": "x"})
            with pytest.raises(CallDenied, match="answered 'never'"):
                await bus.call("day_echo", {"text": "y"})
    assert len(person.asked) == 1


async def test_stored_answers_are_listed_and_forgotten(project: Project) -> None:
    assert await project.asked("always") == 1
    stored = file_answers(project.file)
    [one] = stored.all()
    assert (one.about.user, one.about.kind, one.about.target, one.answer) == (
        "",
        "tool",
        "day/echo",
        "always",
    )
    assert stored.forget("day/other") == 0
    assert stored.forget("day/echo") == 1
    assert stored.all() == []
    assert await project.asked("always") == 1
    assert stored.forget() == 1
    assert stored.forget() == 0


async def test_approvals_that_others_can_write(project: Project, state: Path) -> None:
    """Nothing is approved by a file that others can write."""
    assert await project.asked("always") == 1
    file = approvals_in(state)
    file.chmod(0o666)
    await expect_warning(project, "can be written by other users")


async def test_approvals_that_are_damaged(project: Project, state: Path) -> None:
    """An unreadable file approves nothing."""
    assert await project.asked("always") == 1
    file = approvals_in(state)
    for content in (
        "",
        "[]",
        '{"file": "/other", "answers": []}',
        file.read_text().replace("always", "maybe"),
    ):
        file.write_text(content)
        await expect_warning(project, "stored approvals are not used")


def approvals_in(state: Path) -> Path:
    [file] = state.rglob("approvals/*.json")
    return file


def is_there(path: Path) -> bool:
    return path.exists()


async def expect_warning(project: Project, message: str) -> None:
    person = Person("once")
    events: list[Event] = []
    async with Toolbus(project.file, interactions=person.interactions, on_event=events.append) as bus:
        for text in "ab":
            await bus.call("day_echo", {"text": text})
    assert len(person.asked) == 2
    warned = [event.message for event in events if isinstance(event, Warned)]
    assert len(warned) == 1
    assert message in warned[0]


async def test_the_approvals_of_another_config(project: Project, tmp_path: Path) -> None:
    """An answer counts only for the config in which it was given."""
    assert await project.asked("always") == 1
    copy = tmp_path / "copy"
    copy.mkdir()
    other = Project(copy)
    assert await other.asked("once") == 2


async def test_without_a_config_file_always_counts_for_the_session_and_says_so(state: Path) -> None:
    person = Person("always")
    events: list[Event] = []
    async with Toolbus(
        {"servers": {"day": {"server": everyday()}}, "policy": [{"do": "ask"}]},
        interactions=person.interactions,
        on_event=events.append,
    ) as bus:
        for _ in range(2):
            await bus.call("day_echo", {"text": "x"})
            await bus.call("day_add", {"a": 1, "b": 2})
    assert len(person.asked) == 2
    warned = [event.message for event in events if isinstance(event, Warned)]
    assert warned == [
        "the answer 'always' is kept only until the bus closes: it is stored only for a config file"
    ]
    assert not is_there(state)
