"""The records of decisions, calls, and the requests of servers."""

import asyncio
import json
import time
from pathlib import Path
from typing import Any

import pytest

from tests.audit.bus import lines, recorded_bus
from tests.audit.writing import problems
from tests.inside.audit import AuditTrail, Chain, open_trail
from tests.inside.config import Audit, Redactor
from tests.inside.core import AuditFailed, Decision, Operation, digest, request_spec
from toolbus import (
    ArgumentsError,
    CallDenied,
    Caller,
    CallTimeout,
    Interactions,
    ServerRejected,
    ToolNotFound,
)
from toolbus.config import BusConfig, load_config

pytestmark = pytest.mark.anyio
SECRET = "s3cr3t-of-a-server"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "audit.jsonl"


def texts(file: Path) -> list[str]:
    return file.read_text().splitlines()


def facts(file: Path, *keys: str) -> list[tuple[Any, ...]]:
    return [tuple(line.get(key) for key in ("event", *keys)) for line in lines(file)]


async def test_a_call_has_a_line_before_it_is_sent_and_one_when_it_is_over(file: Path) -> None:
    async with recorded_bus(file) as bus:
        ann = Caller(face="test", user="ann", session="s1", run="r1")
        await bus.view(caller=ann).call("day_add", {"a": 1, "b": 2})
    decided, ended = lines(file)
    who = {"id": decided["id"], "run": "r1", "user": "ann", "face": "test", "session": "s1"}
    what = {**who, "route": "tools/call", "server": "day", "tool": "add"}
    assert decided == {
        "event": "decided",
        **what,
        "decision": "allow",
        "by": "default",
        "arguments": digest({"a": 1, "b": 2}),
    }
    assert ended == {"event": "ended", **what, "outcome": "ok", "bytes": 1}
    order = [*json.loads(texts(file)[1])]
    assert order[:4] == ["seq", "time", "event", "id"]
    assert order[-2:] == ["prev", "hash"]
    assert problems(file) == []


async def test_a_refused_call_has_its_decision_alone(file: Path) -> None:
    async with recorded_bus(file, denies="day_add") as bus:
        with pytest.raises(CallDenied):
            await bus.call("day_add", {"a": 1, "b": 2})
    (line,) = lines(file)
    assert (line["decision"], line["rule"], line["by"], line["reason"]) == (
        "deny",
        "policy[0]",
        "policy",
        "no",
    )
    assert line["definition"] == "sha256:1"


async def test_a_call_that_failed_before_it_was_decided_has_its_end_alone(file: Path) -> None:
    async with recorded_bus(file) as bus:
        await bus.call("day_add", {"a": "one"})
        with pytest.raises(ToolNotFound):
            await bus.call("day_none", {"a": 1})
        await asyncio.sleep(0)  # it is reported a moment later
        with pytest.raises(ArgumentsError):
            await bus.call("day_add", [1])  # pyright: ignore[reportArgumentType]  # on purpose
    assert facts(file, "tool", "outcome", "arguments") == [
        ("ended", "add", "invalid_arguments", digest({"a": "one"})),
        ("ended", "day_none", "unknown_tool", None),
        ("ended", "add", "invalid_arguments", digest([1])),
    ]


async def test_an_error_of_a_tool_and_a_call_that_is_cancelled(file: Path) -> None:
    async with recorded_bus(file) as bus:
        await bus.call("day_fail", {})
        with pytest.raises(CallTimeout):
            await bus.call("day_hang", {}, timeout=0.1)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.1):
                await bus.call("day_hang", {})
    assert facts(file, "tool", "outcome") == [
        ("decided", "fail", None),
        ("ended", "fail", "tool_error"),
        ("decided", "hang", None),
        ("ended", "hang", "timed_out"),
        ("decided", "hang", None),
        ("ended", "hang", "cancelled"),
    ]


async def test_resources_and_prompts_are_recorded(file: Path) -> None:
    async with recorded_bus(file) as bus:
        await bus.read_resource("ask", "board://now")
        await bus.get_prompt("ask", "review", {"language": "python"})
    assert facts(file, "route", "server", "tool", "outcome")[::2] == [
        ("decided", "resources/read", "ask", "board://now", None),
        ("decided", "prompts/get", "ask", "review", None),
    ]


ASKED: dict[str, tuple[str, dict[str, Any]]] = {
    "elicitation/create": ("ask_book", {"guest": "Ann"}),
    "sampling/createMessage": ("ask_title", {"about": "tea"}),
    "roots/list": ("ask_folders", {}),
}


@pytest.mark.parametrize("route", ASKED)
async def test_what_a_server_asks_is_recorded_with_the_answer(file: Path, route: str) -> None:
    tool, arguments = ASKED[route]
    async with recorded_bus(file, "full") as bus:
        await bus.call(tool, arguments)
    asked, answered = (line for line in lines(file) if line["route"] == route)
    assert (asked["event"], asked["server"], asked["tool"]) == ("decided", "ask", tool.removeprefix("ask_"))
    assert (answered["event"], answered["outcome"]) == ("ended", "accept")
    contents: dict[str, object] = {
        "elicitation/create": answered["answer"].get("date"),
        "sampling/createMessage": answered["answer"].get("content", {}).get("text"),
        "roots/list": [root["uri"] for root in answered["answer"].get("roots", ())],
    }
    expected = {
        "elicitation/create": "2026-12-24",
        "sampling/createMessage": "A title",
        "roots/list": ["file:///tmp"],
    }
    assert contents[route] == expected[route]
    assert problems(file) == []


async def test_a_declined_question_and_its_digest(file: Path) -> None:
    declining = Interactions(elicit=lambda question: question.decline(), sample=lambda wanted: None)
    async with recorded_bus(file, interactions=declining) as bus:
        await bus.call("ask_book", {"guest": "Ann"})
        with pytest.raises(ServerRejected):
            await bus.call("ask_title", {"about": "tea"})
    asked = [line for line in lines(file) if line["route"] != "tools/call"]
    assert [line["arguments"][:7] for line in asked[::2]] == ["sha256:"] * 2
    assert [(line["outcome"], "answer" in line) for line in asked[1::2]] == [("decline", False)] * 2


@pytest.mark.parametrize("content", ["digest", "full", "none"])
async def test_the_content_is_recorded_as_the_setting_says(file: Path, content: Any) -> None:
    arguments = {"a": 1, "b": 2}
    async with recorded_bus(file, content) as bus:
        await bus.call("day_add", arguments)
        await bus.call("day_fail", {})
    decided, _, _, failed = lines(file)
    assert decided.get("arguments") == {"digest": digest(arguments), "full": arguments}.get(content)
    assert ("error" in failed) is False


async def test_a_known_secret_is_in_no_line(file: Path) -> None:
    known = Redactor([SECRET])
    async with recorded_bus(file, "full") as bus:
        await bus.call("day_echo", {"text": f"use {SECRET} here"})
        with pytest.raises(ToolNotFound):
            await bus.call(SECRET, {"text": SECRET})
    assert SECRET not in "".join(texts(file))
    assert lines(file)[0]["arguments"] == {"text": "use *** here"}
    del known


def test_secrets_in_the_config_are_known_before_a_server_is_connected(file: Path) -> None:
    config = load_config(
        {"servers": {"web": {"url": "https://x.example", "headers": {"Authorization": f"Bearer {SECRET}"}}}}
    )
    trail = open_trail(config.model_copy(update={"audit": Audit(file=str(file), content="full")}))
    assert trail is not None
    operation = Operation(spec=request_spec("tools/call", "day", "echo"), arguments={"text": SECRET})
    trail.decided(operation, Decision(action="allow", by="default"))
    trail.close()
    assert lines(file)[0]["arguments"] == {"text": "***"}


def test_without_the_setting_there_is_no_trail() -> None:
    assert open_trail(BusConfig()) is None


HOSTILE = {
    "a line break": "x\n{}",
    "a quote": '"},"hash":"' + "0" * 64 + '"}',
    "a lone surrogate": "\ud800",
    "a null": "\0",
    "a line separator": "\u2028",
}


@pytest.mark.parametrize("content", ["digest", "full"])
@pytest.mark.parametrize("attack", HOSTILE)
def test_a_text_that_would_break_a_line(file: Path, attack: str, content: Any) -> None:
    """The line holds it as it is, and the chain stays valid."""
    text = HOSTILE[attack]
    trail = AuditTrail(Audit(file=str(file), content=content))
    operation = Operation(
        spec=request_spec("tools/call", "day", text), arguments={text: text}, caller=Caller(user=text)
    )
    trail.decided(operation, Decision(action="deny", by=text, reason=text, rule=text, definition=text))
    trail.close()
    (line,) = lines(file)
    assert {line[key] for key in ("tool", "user", "by", "reason", "rule", "definition")} == {text}
    assert line["arguments"] == {text: text} or content == "digest"
    assert problems(file) == []


async def test_a_call_that_cannot_be_recorded_is_not_made(tmp_path: Path) -> None:
    """The call is refused, and says why."""
    (tmp_path / "logs").write_text("a file")
    async with recorded_bus(tmp_path / "logs" / "audit.jsonl") as bus:
        with pytest.raises((CallDenied, AuditFailed)):
            await bus.call("day_add", {"a": 1, "b": 2})


def test_a_line_takes_little_time(file: Path) -> None:
    """With room for slow machines: about 10 us were measured for each."""
    trail = AuditTrail(Audit(file=str(file)))
    spec = request_spec("tools/call", "files", "read_file")
    decision = Decision(action="allow", by="default", definition="sha256:" + "0" * 64)
    began = time.thread_time()
    for _ in range(5_000):
        operation = Operation(spec=spec, arguments={"path": "notes/today.md"})
        call = trail.start(operation)
        trail.decided(operation, decision)
        call.end(None, None)
    taken = (time.thread_time() - began) / 10_000
    trail.close()
    assert taken < 60e-6
    assert Chain(Audit(file=str(file))).path == file
