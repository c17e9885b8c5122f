"""`toolbus tape verify` finds each kind of change that a server has made since its tape was recorded."""

import asyncio
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.inside.tape import Matching, Tape, TapeVerifier, Verification
from tests.servers.asking import asking
from tests.tape.scenes import COMMON, MODERN, answering, played
from toolbus import Toolbus
from toolbus.testing import FakeServer

pytestmark = pytest.mark.anyio
ERAS = ("modern", "legacy")
READS = {"readOnlyHint": True}
ITEM = {"id": 1, "name": "tea", "tags": [{"at": "2026"}]}


class Shop:
    """A server whose answers can be changed."""

    def __init__(self, era: str = "auto") -> None:
        self.answer: Any = {"items": [ITEM], "total": 1}
        self.asked: list[str] = []
        self.fake = FakeServer({}, name="shop")
        self.config: dict[str, Any] = {"servers": {"shop": {"server": self.fake, "era": era}}}
        self.offer(self.search, "search")
        self.fake.add_tool(self.order, "order", structured_output=False)

    def offer(self, tool: Callable[..., object], name: str) -> None:
        """Offer a tool that only reads."""
        from mcp_types import ToolAnnotations

        annotations = ToolAnnotations.model_validate(READS)
        self.fake.add_tool(tool, name, annotations=annotations, structured_output=False)

    def search(self, query: str, limit: int = 5) -> str:
        """Find something."""
        self.asked.append(query)
        return json.dumps(self.answer) if not isinstance(self.answer, str) else self.answer

    def order(self, item: str) -> str:
        """Order something."""
        self.asked.append(item)
        return f"ordered {item}"

    async def record(self, tape: Path) -> None:
        """Search and order."""
        async with Toolbus(self.config, record=tape) as bus:
            await bus.call("shop/search", {"query": "tea"})
            await bus.call("shop/order", {"item": "tea"})
        self.asked.clear()

    async def verify(self, tape: Path, **options: Any) -> Verification:
        """Verify the tape against the server as it is now."""
        return await verified(tape, self.config, **options)


async def verified(tape: Path, config: Mapping[str, Any], **options: Any) -> Verification:
    """Verify a tape of one server."""
    opened = Tape(tape)
    verifier = TapeVerifier(opened, {name: name for name in opened.servers}, **options)
    interactions = verifier.answers.interactions
    async with Toolbus(dict(config), interactions=interactions, observers=[verifier.outcome]) as bus:
        await verifier.run(bus)
    opened.close()
    return verifier.found


def told(found: Verification) -> list[tuple[str, str, bool]]:
    return [(change.kind, change.text, change.is_breaking) for change in found.changes]


@pytest.fixture
def tape(tmp_path: Path) -> Path:
    return tmp_path / "tape.jsonl"


@pytest.mark.parametrize("recorded", ERAS)
@pytest.mark.parametrize("now", ERAS)
async def test_a_server_that_is_the_same_has_no_changes(recorded: str, now: str, tape: Path) -> None:
    await Shop(recorded).record(tape)
    shop = Shop(now)
    found = await shop.verify(tape, level="result")
    assert told(found) == []
    assert [one.status for one in found.calls] == ["same", "skipped"]
    assert shop.asked == ["tea"]


async def test_only_read_only_calls_are_repeated_unless_writes_are_allowed(tape: Path) -> None:
    shop = Shop()
    await shop.record(tape)
    found = await shop.verify(tape)
    assert found.calls[1].reason == "not read-only"
    assert shop.asked == ["tea"]
    found = await shop.verify(tape, writes=True)
    assert [one.status for one in found.calls] == ["same", "same"]
    assert shop.asked == ["tea", "tea", "tea"]


async def test_a_tool_is_not_called_because_the_server_calls_it_read_only_now(tape: Path) -> None:
    shop = Shop()
    await shop.record(tape)
    shop.offer(shop.order, "order")
    found = await shop.verify(tape)
    assert shop.asked == ["tea"]
    assert [one.status for one in found.calls] == ["same", "skipped"]


def with_less(query: str) -> str:
    """Find something."""
    return "{}"


def with_more(query: str, limit: int = 5, region: str = "eu") -> str:
    """Find something."""
    return "{}"


def with_required(query: str, region: str, limit: int = 5) -> str:
    """Find something."""
    return "{}"


def with_words(query: str, limit: int = 5) -> str:
    """Find everything."""
    return "{}"


def with_type(query: int, limit: int = 5) -> str:
    """Find something."""
    return "{}"


@pytest.mark.parametrize(
    ("tool", "text", "breaks"),
    [
        (with_less, "tool search: argument limit removed", True),
        (with_more, "tool search: argument region new", False),
        (with_required, "tool search: argument region now required", True),
        (with_words, "tool search: description changed", False),
        (with_type, 'tool search: argument query: type was "string", is now "integer"', True),
    ],
)
async def test_a_changed_definition_is_compatible_or_breaking(
    tool: Callable[..., object], text: str, breaks: bool, tape: Path
) -> None:
    shop = Shop()
    await shop.record(tape)
    shop.offer(tool, "search")
    assert ("definition", text, breaks) in told(await shop.verify(tape, level="schema"))


async def test_added_and_missing_tools_are_told_apart(tape: Path) -> None:
    shop = Shop()
    await shop.record(tape)
    shop.fake.remove_tool("search")
    shop.fake.add_tool(lambda: "", "export")
    assert told(await shop.verify(tape)) == [
        ("definition", "tool export: new", False),
        ("definition", "tool search: removed", True),
        ("missing", "there is no tool 'search' any more", True),
    ]


@pytest.mark.parametrize(
    ("answer", "changes"),
    [
        (
            {"items": [{**ITEM, "id": "1"}], "total": 1},
            ["content.*.text.items.*.id: was number, is now string"],
        ),
        ({"items": [ITEM]}, ["content.*.text.total: number is missing"]),
        ({"items": [ITEM], "total": 1, "next": None}, ["content.*.text.next: null is new"]),
        (
            {"items": [{**ITEM, "tags": None}], "total": 1},
            ["content.*.text.items.*.tags: was array, is now null"],
        ),
        ({"items": [], "total": 0}, []),
        ({"items": [ITEM, ITEM], "total": 2.5}, []),
        ("no JSON", ["content.*.text: was object, is now string"]),
    ],
)
async def test_the_shape_of_a_result_is_its_fields_and_their_types(
    answer: object, changes: list[str], tape: Path
) -> None:
    shop = Shop()
    await shop.record(tape)
    shop.answer = answer
    assert [change.text for change in (await shop.verify(tape)).changes] == changes


async def test_values_are_compared_if_wanted_except_for_those_that_are_ignored(tape: Path) -> None:
    shop = Shop()
    await shop.record(tape)
    shop.answer = {"items": [{**ITEM, "name": "milk"}], "total": 1}
    assert told(await shop.verify(tape)) == []
    found = await shop.verify(tape, level="result")
    assert told(found) == [("result", 'content.0.text.items.0.name: "tea" was recorded, not "milk"', True)]
    for matching in (
        Matching(ignore=("content.*.text.items.*.name",)),
        Matching(patterns={"content.*.text.items.*.name": "*"}),
    ):
        assert told(await shop.verify(tape, level="result", matching=matching)) == []


async def test_errors_that_are_new_and_errors_that_are_gone_are_changes(tape: Path, tmp_path: Path) -> None:
    shop = Shop()
    await shop.record(tape)
    failing = tmp_path / "failing.jsonl"
    shop.fake.fail("search", "no stock", times=None)
    found = await shop.verify(tape)
    assert told(found) == [("error", "fails now: no stock", True)]
    await shop.record(failing)
    assert told(await shop.verify(failing)) == []
    shop.fake.reset()
    assert told(await shop.verify(failing)) == [("error", "does not fail any more", False)]
    shop.fake.fail("search", "broken", code=-32050, times=None)
    [(kind, text, breaks)] = told(await shop.verify(tape))
    assert (kind, breaks) == ("error", True)
    assert "broken" in text


async def test_a_server_that_is_down_is_a_change_and_its_calls_are_skipped(tape: Path) -> None:
    shop = Shop()
    await shop.record(tape)
    shop.config = {"servers": {"shop": {"command": "toolbus-test-nowhere"}}}
    found = await shop.verify(tape)
    [(kind, text, _)] = told(found)
    assert kind == "server"
    assert "toolbus-test-nowhere" in text
    assert {one.reason for one in found.calls} == {"its server cannot be used"}


async def test_a_call_that_takes_too_long_is_a_change(tape: Path) -> None:
    shop = Shop()
    await shop.record(tape)
    shop.fake.delay("search", 3600)
    assert told(await shop.verify(tape, timeout=0.05)) == [("timeout", "takes more than 0.05 s", True)]


async def test_what_was_done_is_known_after_an_interruption(tape: Path) -> None:
    shop = Shop()
    await shop.record(tape)
    opened = Tape(tape)
    verifier = TapeVerifier(opened, {"shop": "shop"}, writes=True)
    async with Toolbus(shop.config, observers=[verifier.outcome]) as bus:
        shop.fake.delay("order", 3600)
        reached = asyncio.Event()
        running = asyncio.create_task(verifier.run(bus, lambda done: reached.set()))
        await reached.wait()
        running.cancel()
        await running
    assert verifier.found.is_interrupted
    assert [one.status for one in verifier.found.calls] == ["same"]


async def test_a_call_with_a_redacted_argument_is_not_repeated(tape: Path) -> None:
    shop = Shop()
    await shop.record(tape)
    recorded = await asyncio.to_thread(tape.read_text)
    await asyncio.to_thread(tape.write_text, recorded.replace('{"query": "tea"}', '{"query": "key ***"}'))
    found = await shop.verify(tape)
    assert found.calls[0].reason == "its arguments had a secret, which the tape does not have"
    assert shop.asked == []


@pytest.mark.parametrize("recorded", ERAS)
@pytest.mark.parametrize("now", ERAS)
async def test_the_tape_answers_the_questions_of_the_server(recorded: str, now: str, tape: Path) -> None:
    scenes = COMMON | (MODERN if recorded == now == "modern" else {})
    scenes = {name: scene for name, scene in scenes.items() if name != "a task that asks"}
    config = {"servers": {"asking": {"server": asking(), "era": recorded}}}
    async with Toolbus(config, record=tape, interactions=answering()) as bus:
        await played(bus, scenes)
    config = {"servers": {"asking": {"server": asking(), "era": now}}}
    found = await verified(tape, config, level="result", writes=True)
    assert told(found) == []
    assert {one.status for one in found.calls} == {"same"}
    assert len(found.calls) > 10


async def test_a_question_that_is_new_is_a_change(tape: Path) -> None:
    shop = Shop()
    await shop.record(tape)
    shop.fake.ask("search", "Are you sure?")
    assert told(await shop.verify(tape)) == [("question", "asks something else: Are you sure?", True)]
