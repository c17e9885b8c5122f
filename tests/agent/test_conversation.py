"""Conversations are kept, saved and loaded; files, resources and prompts go along with the next message."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import get_args

import pytest
from pydantic_ai.messages import BinaryContent, ModelRequest, UserPromptPart

from tests.agent.library import library
from tests.agent.stage import final, scripted, talking, told
from tests.patience import PATIENCE
from tests.servers.everyday import PNG, everyday
from tests.wire.asked import Wire
from toolbus import Toolbus
from toolbus.agent import Agent
from toolbus.testing import ScriptedModel, ToolCall

pytestmark = pytest.mark.anyio

PDF = b"%PDF-1.7 plain enough to be taken for text"


@pytest.fixture
async def bus() -> AsyncIterator[Toolbus]:
    servers = {"desk": {"server": everyday()}, "library": {"server": library()}}
    async with Toolbus({"servers": servers}) as bus:
        yield bus


def prompt(agent: Agent) -> list[str | BinaryContent]:
    """The user's last message, as the model got it."""
    last = scripted(agent).requests[-1][-1]
    assert isinstance(last, ModelRequest)
    [part] = [part for part in last.parts if isinstance(part, UserPromptPart)]
    content = [part.content] if isinstance(part.content, str) else part.content
    return [item for item in content if isinstance(item, str | BinaryContent)]


def picture(data: bytes = PNG, mime: str = "image/png") -> BinaryContent:
    return BinaryContent(data, media_type=mime)


async def test_a_conversation_is_saved_and_goes_on_elsewhere(bus: Toolbus, tmp_path: Path) -> None:
    file, again = tmp_path / "talk.json", tmp_path / "again.json"
    calls = [ToolCall("desk_many"), ToolCall("library_fetch"), ToolCall("desk_fail")]
    agent = Agent(ScriptedModel([calls, "Seen."]), tools=[bus])
    agent.add_file(PNG, name="own.png")
    await final(agent.send("Look."))
    agent.save(file)
    other = Agent(ScriptedModel(["Still seen."]), tools=[bus])
    other.load(file)
    other.save(again)
    assert again.read_text() == file.read_text()
    assert await final(other.send("And now?")) == "Still seen."
    sent = scripted(other).requests[0]
    assert told(sent)[:2] == ["user: [resource: own.png, image/png, 70 B]", "user: image/png"]
    assert told(sent)[-2:] == ["model: Seen.", "user: And now?"]
    pictures = [
        file.data
        for message in sent
        if isinstance(message, ModelRequest)
        for part in message.parts
        for file in getattr(part, "files", ())
    ]
    assert pictures == [PNG]


async def test_a_conversation_with_pictures_can_go_on_with_another_provider(
    bus: Toolbus, tmp_path: Path
) -> None:
    file = tmp_path / "talk.json"
    agent = Agent(ScriptedModel([ToolCall("desk_many"), "Seen."]), tools=[bus])
    await final(agent.send("Look."))
    agent.save(file)
    async with talking("anthropic", ["Yes."]) as (other, model):
        other.load(file)
        assert await final(other.send("Still?")) == "Yes."
    assert PNG in model.asked[0].given[0].images


@pytest.mark.parametrize("text", ["", "no JSON", '{"a": 1}', '[{"kind": "gossip"}]'])
async def test_what_holds_no_conversation_is_refused(text: str, tmp_path: Path) -> None:
    file = tmp_path / "talk.json"
    file.write_text(text)
    agent = Agent(ScriptedModel(["One."]))
    await final(agent.send("Go."))
    with pytest.raises(ValueError, match="validation error"):
        agent.load(file)
    assert told(agent.history) == ["user: Go.", "model: One."]


async def test_the_history_can_be_set() -> None:
    agent = Agent(ScriptedModel(["One.", "Two."]))
    await final(agent.send("Go."))
    agent.history = agent.history[:0]
    await final(agent.send("Anew."))
    assert told(agent.history) == ["user: Anew.", "model: Two."]


@pytest.mark.parametrize(
    ("name", "data", "along"),
    [
        ("a.md", b"# Tea", ["[resource: a.md, text/markdown]\n# Tea"]),
        ("a.unknown", b"tea", ["[resource: a.unknown, text/plain]\ntea"]),
        ("a.txt", "Grün".encode("latin-1"), ["[resource: a.txt, text/plain]\nGr\ufffdn"]),
        ("a.png", PNG, ["[resource: a.png, image/png, 70 B]", picture()]),
        ("a.pdf", PDF, ["[a.pdf]", picture(PDF, "application/pdf")]),
        ("a.zip", b"PK\xff", ["[resource: a.zip, application/zip, 3 B]"]),
        ("a.tiff", b"II*\xff", ["[resource: a.tiff, image/tiff, 4 B]", "[image: image/tiff, 4 B]"]),
    ],
)
async def test_a_file_goes_along_once(
    name: str, data: bytes, along: list[str | BinaryContent], tmp_path: Path
) -> None:
    file = tmp_path / name
    file.write_bytes(data)
    agent = Agent(ScriptedModel(["One.", "Two."]))
    agent.add_file(file)
    await final(agent.send("Read."))
    assert prompt(agent) == [*along, "Read."]
    await final(agent.send("More?"))
    assert prompt(agent) == ["More?"]


async def test_bytes_go_along_under_the_name_and_type_that_are_given() -> None:
    agent = Agent(ScriptedModel(["One."]))
    agent.add_file(PNG, mime_type="image/png")
    agent.add_file(b"tea", name="list")
    await final(agent.send())
    assert prompt(agent) == [
        "[resource: file, image/png, 70 B]",
        picture(),
        "[resource: list, text/plain]\ntea",
    ]


async def test_what_was_read_of_a_resource_is_a_file_too(bus: Toolbus) -> None:
    agent = Agent(ScriptedModel(["One."]))
    agent.add_file(await bus.read_resource("desk", "memo://greeting"))
    agent.add_file(await bus.read_resource("library", "memo://picture"))
    [archive] = await bus.read_resource("library", "memo://archive")
    agent.add_file(archive, name="own.zip")
    await final(agent.send())
    assert prompt(agent) == [
        "[resource: memo://greeting, text/plain]\nhello",
        "[resource: memo://picture, image/png, 70 B]",
        picture(),
        "[resource: own.zip, application/zip, 5 B]",
    ]


async def test_a_file_that_is_added_after_a_send_goes_with_the_next() -> None:
    agent = Agent(ScriptedModel(["One.", "Two."]))
    first = agent.send("First.")
    agent.add_file(b"tea", name="list.txt")
    second = agent.send("Second.")
    assert [await final(first), await final(second)] == ["One.", "Two."]
    assert told(agent.history) == [
        *["user: First.", "model: One."],
        *["user: [resource: list.txt, text/plain]\ntea", "user: Second.", "model: Two."],
    ]


@pytest.mark.parametrize("wire", get_args(Wire))
async def test_every_provider_gets_pictures_and_documents(wire: Wire) -> None:
    async with talking(wire, ["Seen."]) as (agent, model):
        agent.add_file(PNG, name="a.png")
        agent.add_file(PDF, name="a.pdf")
        assert await final(agent.send("Look.")) == "Seen."
    assert model.asked[0].images == (PNG,)
    assert "JVBERi0xLjcg" in str(model.asked[0].body), "the document, as base64"


async def test_resources_go_along(bus: Toolbus) -> None:
    agent = Agent(ScriptedModel(["One."]), tools=[bus])
    await agent.add_resource("desk", "memo://greeting")
    await agent.add_resource("desk", "memo://of/Ann")
    await agent.add_resource("library", "memo://picture")
    await agent.add_resource("library", "memo://archive")
    await final(agent.send("Read."))
    assert prompt(agent) == [
        "[resource: memo://greeting, text/plain]\nhello",
        "[resource: memo://of/Ann, text/plain]\nmemo of Ann",
        "[resource: memo://picture, image/png, 70 B]",
        picture(),
        "[resource: memo://archive, application/zip, 5 B]",
        "Read.",
    ]


async def test_a_prompt_of_a_server_is_taken_over(bus: Toolbus) -> None:
    agent = Agent(ScriptedModel(["Well.", "Here it is."]), tools=bus.tools())
    await agent.use_prompt("library", "interview", {"topic": "tea"})
    assert await final(agent.send()) == "Well."
    await agent.use_prompt("desk", "summarise", {"text": "tea"})
    assert await final(agent.send("In one word.")) == "Here it is."
    assert told(agent.history) == [
        "user: Let us talk about tea.",
        "model: What do you want to know?",
        "user: Everything.",
        "model: Well.",
        "user: Summarise: tea",
        "user: In one word.",
        "model: Here it is.",
    ]


async def test_a_prompt_that_is_used_during_a_run_comes_after_it(bus: Toolbus) -> None:
    async def begin() -> str:
        """Take over a prompt, too early."""
        nonlocal using
        using = asyncio.create_task(agent.use_prompt("library", "interview", {"topic": "tea"}))
        return "begun"

    using: asyncio.Task[None] | None = None
    agent = Agent(ScriptedModel([ToolCall("begin"), "One.", "Two."]), tools=[bus, begin])
    await final(agent.send("Go."))
    assert using is not None
    await asyncio.wait_for(using, PATIENCE)
    await final(agent.send())
    assert told(agent.history)[3:6] == [
        "model: One.",
        "user: Let us talk about tea.",
        "model: What do you want to know?",
    ]
