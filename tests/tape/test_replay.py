"""A tape repeats what servers did: every result, every event, every question, in order."""

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.inside.tape import Tape
from tests.servers.asking import asking
from tests.tape.scenes import COMMON, MODERN, Scene, answering, played
from toolbus import Answer, Elicitation, Interactions, Toolbus
from toolbus.errors import TapeMismatch
from toolbus.events import CatalogChanged, ResourceUpdated
from toolbus.testing import FakeServer

pytestmark = pytest.mark.anyio
ERAS = ("modern", "legacy")


def same(text: str) -> str:
    return text


def tagged(text: str, tags: str = "") -> str:
    return text


def adding(text: str, **options: Any) -> Scene:
    """A call of `add`."""
    return lambda bus: bus.call("asking/add", {"text": text}, **options)


def config(server: object, era: str = "auto", **more: Any) -> dict[str, Any]:
    return {"servers": {"asking": {"server": server, "era": era, **more}}}


@asynccontextmanager
async def replaying(
    tape: Path, interactions: Interactions | None = None, **options: Any
) -> AsyncGenerator[Toolbus]:
    async with Toolbus(replay=tape, interactions=interactions or answering(), **options) as bus:
        yield bus


@pytest.mark.parametrize("era", ERAS)
async def test_every_result_and_event_of_a_recorded_server_is_repeated(era: str, tmp_path: Path) -> None:
    scenes = COMMON | (MODERN if era == "modern" else {})
    tape = tmp_path / "tape.jsonl"
    async with Toolbus(config(asking(), era), record=tape, interactions=answering()) as bus:
        recorded = await played(bus, scenes)
    async with replaying(tape) as bus:
        replayed = await played(bus, scenes)
    assert replayed == recorded
    assert Tape(tape).is_complete


@pytest.mark.parametrize("era", ERAS)
async def test_a_replayed_server_offers_what_the_recorded_one_did(era: str, tmp_path: Path) -> None:
    tape = tmp_path / "tape.jsonl"
    async with Toolbus(config(asking(), era), record=tape) as bus:
        offered, names, instructions = bus.inventories, bus.catalog.names, bus.instructions
    async with replaying(tape) as bus:
        assert bus.catalog.names == names
        assert bus.instructions == instructions
        for kind in ("tools", "prompts", "resources", "templates"):
            before, now = (getattr(one["asking"], kind) for one in (offered, bus.inventories))
            assert sorted(before, key=str) == sorted(now, key=str)


async def test_identical_calls_get_their_answers_in_order_and_then_the_last_one(tmp_path: Path) -> None:
    numbers = iter(range(1, 4))
    fake = FakeServer({"next": lambda: next(numbers)})
    tape = tmp_path / "tape.jsonl"
    async with Toolbus(config(fake), record=tape) as bus:
        for _ in range(3):
            await bus.call("asking/next")
    async with replaying(tape) as bus:
        assert [(await bus.call("asking/next")).text for _ in range(5)] == ["1", "2", "3", "3", "3"]
    assert len(fake.calls) == 3


async def test_a_call_that_is_not_on_the_tape_is_an_error_that_shows_the_nearest(tmp_path: Path) -> None:
    fake = FakeServer({"add": tagged, "other": same})
    tape = tmp_path / "tape.jsonl"
    async with Toolbus(config(fake), record=tape) as bus:
        await bus.call("asking/other", {"text": "milk"})
        await bus.call("asking/add", {"text": "tea", "tags": "a"})
    async with replaying(tape) as bus:
        with pytest.raises(TapeMismatch) as caught:
            await bus.call("asking/add", {"text": "milk"})
    assert caught.value.nearest == 2
    assert caught.value.diff == (
        'text: "tea" was recorded, not "milk"',
        'tags: "a" was recorded, and is missing',
    )
    assert "\n" not in str(caught.value)


async def test_another_answer_than_the_recorded_one_is_a_mismatch(tmp_path: Path) -> None:
    def decline(question: Elicitation) -> Answer:
        return question.decline()

    tape = tmp_path / "tape.jsonl"
    async with Toolbus(config(asking()), record=tape, interactions=answering()) as bus:
        await bus.call("asking/book", {"guest": "Ann"})
    async with replaying(tape, answering(decline)) as bus:
        with pytest.raises(TapeMismatch, match="answer") as caught:
            await bus.call("asking/book", {"guest": "Ann"})
    assert caught.value.diff[0] == 'action: "accept" was recorded, not "decline"'


@pytest.mark.parametrize("era", ERAS)
async def test_each_of_several_recorded_answers_has_its_own_result(era: str, tmp_path: Path) -> None:
    answers = {"Ann": True}

    def answer(question: Elicitation) -> Answer:
        return question.accept({"date": "2026-12-24"}) if answers["Ann"] else question.decline()

    async def both(bus: Toolbus, order: tuple[bool, ...]) -> list[str]:
        found: list[str] = []
        for accepts in order:
            answers["Ann"] = accepts
            found.append((await bus.call("asking/book", {"guest": "Ann"})).text)
        return found

    tape = tmp_path / "tape.jsonl"
    async with Toolbus(config(asking(), era), record=tape, interactions=answering(answer)) as bus:
        yes, no = await both(bus, (True, False))
    async with replaying(tape, answering(answer)) as bus:
        assert await both(bus, (False, True, False)) == [no, yes, no]


async def test_a_crash_during_a_call_is_repeated(tmp_path: Path) -> None:
    fake = FakeServer({"add": same})
    tape = tmp_path / "tape.jsonl"
    texts = {"crash": "boom", "after": "tea", "error": "bad", "rejected": "worse"}
    scenes = {name: adding(text) for name, text in texts.items()}
    fake.crash("add")
    async with Toolbus(config(fake), record=tape) as bus:
        recorded = await played(bus, {"crash": scenes["crash"], "after": scenes["after"]})
        fake.fail("add", "no")
        recorded |= await played(bus, {"error": scenes["error"]})
        fake.fail("add", "broken", code=-32050)
        recorded |= await played(bus, {"rejected": scenes["rejected"]})
    async with replaying(tape) as bus:
        assert await played(bus, scenes) == recorded
        assert bus.servers["asking"].restarts == 1
    assert recorded["crash"][0][0] == "ConnectionLost"


async def test_a_timeout_is_repeated_at_once(tmp_path: Path) -> None:
    fake = FakeServer({"add": same})
    fake.delay("add", 30)
    tape = tmp_path / "tape.jsonl"
    async with Toolbus(config(fake), record=tape) as bus:
        recorded = await played(bus, {"slow": adding("tea", timeout=0.05)})
    async with replaying(tape) as bus:
        assert await played(bus, {"slow": adding("tea")}) == recorded
    assert recorded["slow"][0][0] == "CallTimeout"


async def test_a_change_that_came_after_a_call_comes_after_it_again(tmp_path: Path) -> None:
    fake = FakeServer({"grow": lambda: fake.add_tool(lambda: "new", "fresh"), "idle": lambda: None})
    tape = tmp_path / "tape.jsonl"

    async def changed(bus: Toolbus) -> list[str]:
        names = [list(bus.catalog.names)]
        await bus.call("asking/idle")
        names.append(list(bus.catalog.names))
        events = bus.events(CatalogChanged)
        await bus.call("asking/grow")
        await anext(events)
        return [*map(str, names), str(list(bus.catalog.names)), (await bus.call("asking/fresh")).text]

    async with Toolbus(config(fake), record=tape) as bus:
        recorded = await changed(bus)
    async with replaying(tape) as bus:
        assert await changed(bus) == recorded


async def test_a_subscribed_resource_changes_again(tmp_path: Path) -> None:
    tape = tmp_path / "tape.jsonl"

    async def told(bus: Toolbus) -> str:
        await bus.subscribe("asking", "board://now")
        events = bus.events(ResourceUpdated)
        await bus.call("asking/write", {"text": "tea"})
        return (await anext(events)).uri

    async with Toolbus(config(asking()), record=tape) as bus:
        recorded = await told(bus)
    async with replaying(tape) as bus:
        assert await told(bus) == recorded


async def test_a_tape_recorded_twice_differs_only_in_its_times(tmp_path: Path) -> None:
    async def record(name: str) -> list[dict[str, Any]]:
        tape = tmp_path / name
        async with Toolbus(config(asking()), record=tape, interactions=answering()) as bus:
            await played(bus, COMMON)
        lines = [json.loads(line) for line in tape.read_text().splitlines()]
        return [{k: v for k, v in line.items() if k not in ("at", "seconds")} for line in lines]

    assert await record("one.jsonl") == await record("two.jsonl")
