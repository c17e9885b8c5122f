"""One path for all operations: tools, resources, prompts and others share hooks, guards and routes."""

import logging
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest

from tests.inside.core import Failure, Observation, Operation, with_notes
from tests.servers.asking import asking
from tests.servers.everyday import everyday
from toolbus import (
    Answer,
    CallDenied,
    Caller,
    Elicitation,
    Interactions,
    Pending,
    Toolbus,
    ToolFailed,
    ToolResult,
)
from toolbus.call import Next
from toolbus.events import CallEnded, CallStarted, Event, InputAnswered, InputAsked
from toolbus.records import Embedded, Sampling, SamplingResult, Text
from toolbus.sync import SyncToolbus

pytestmark = pytest.mark.anyio
Asked = Callable[[Toolbus], Awaitable[object]]

TASK = Pending(server="ask", tool="dig", arguments={}, requests={}, task="t1").to_json()
EVERY: dict[str, Asked] = {
    "tools/call": lambda bus: bus.call("ask_tell", {"text": "hello", "steps": 1}),
    "resources/read": lambda bus: bus.read_resource("ask", "board://now"),
    "prompts/get": lambda bus: bus.get_prompt("ask", "review", {"language": "c"}),
    "completion/complete": lambda bus: bus.complete("ask", "review", "language", "p"),
    "resources/subscribe": lambda bus: bus.subscribe("ask", "board://now"),
    "tasks/get": lambda bus: bus.task(TASK).status(),
}
READ = {"tools/call", "resources/read", "prompts/get", "completion/complete"}
"""Operations that succeed after any others."""


def config() -> dict[str, Any]:
    return {"servers": {"ask": {"server": asking()}}}


SERVER = everyday()


class Seen:
    """An observer, and the guard and hook that note what they see."""

    def __init__(self) -> None:
        self.order: list[tuple[str, str]] = []
        self.operations: list[Operation] = []
        self.ends: list[tuple[ToolResult | None, Failure | None]] = []

    def start(self, operation: Operation, /) -> Observation:
        self.order.append(("observer", operation.route))
        self.operations.append(operation)
        return self

    def progress(self, progress: float, total: float | None, message: str | None) -> None:
        self.order.append(("progress", message or ""))

    def end(self, result: ToolResult | None, failure: Failure | None) -> None:
        self.ends.append((result, failure))

    async def hook(self, call: Operation, proceed: Next) -> ToolResult:
        self.order.append(("hook", call.route))
        return await proceed(call)

    async def guard(self, operation: Operation) -> None:
        self.order.append(("guard", operation.route))
        self.operations.append(operation)


class Broken:
    """An observer of which everything raises."""

    def __init__(self, *, starts: bool) -> None:
        self._starts = starts

    def start(self, operation: Operation, /) -> Observation:
        if not self._starts:
            raise RuntimeError("start")
        return self

    def progress(self, progress: float, total: float | None, message: str | None) -> None:
        raise RuntimeError("progress")

    def end(self, result: ToolResult | None, failure: Failure | None) -> None:
        raise RuntimeError("end")


async def refuse(operation: Operation) -> None:
    raise CallDenied(operation.spec.name, "not today")


async def fail(operation: Operation) -> None:
    raise ZeroDivisionError("secret detail")


@pytest.mark.parametrize("route", sorted(READ))
async def test_an_operation_passes_observers_hooks_and_guards_in_this_order(route: str) -> None:
    seen = Seen()
    async with Toolbus(config(), hooks=[seen.hook], guards=[seen.guard], observers=[seen]) as bus:
        await EVERY[route](bus)
    steps = [step for step in seen.order if step[0] != "progress"]
    assert steps == [("observer", route), ("hook", route), ("guard", route)]
    before, sent = seen.operations
    assert before.id == sent.id > 0
    assert (sent.server, sent.caller) == ("ask", Caller())
    [(result, failure)] = seen.ends
    assert result is not None
    assert failure is None


@pytest.mark.parametrize("route", EVERY)
async def test_a_guard_that_refuses_stops_any_operation_and_it_is_observed(route: str) -> None:
    seen, events = Seen(), list[Event]()
    guards = [refuse, seen.guard]
    async with Toolbus(config(), guards=guards, observers=[seen], on_event=events.append) as bus:
        with pytest.raises(CallDenied, match="was refused: not today") as refused:
            await EVERY[route](bus)
    assert refused.value.reason == "not today"
    assert seen.order == [("observer", route)]
    assert seen.ends == [(None, Failure("refused", str(refused.value)))]
    [started] = [event for event in events if isinstance(event, CallStarted)]
    [ended] = [event for event in events if isinstance(event, CallEnded)]
    assert (started.id, started.route, started.server) == (ended.id, route, "ask")
    assert (ended.reason, ended.error) == ("refused", str(refused.value))


@pytest.mark.parametrize("route", EVERY)
async def test_a_guard_that_fails_lets_nothing_pass_and_quotes_nothing(route: str) -> None:
    async with Toolbus(config(), guards=[fail]) as bus:
        with pytest.raises(CallDenied, match="a guard raised ZeroDivisionError") as refused:
            await EVERY[route](bus)
    assert "secret detail" not in str(refused.value)


@pytest.mark.parametrize("starts", [True, False])
@pytest.mark.parametrize("route", sorted(READ))
async def test_an_observer_that_raises_changes_nothing(
    route: str, starts: bool, caplog: pytest.LogCaptureFixture
) -> None:
    seen = Seen()
    async with Toolbus(config(), observers=[Broken(starts=starts), seen]) as bus:
        with caplog.at_level(logging.ERROR, "toolbus"):
            observed = await EVERY[route](bus)
        alone = await EVERY[route](bus)
    assert observed == alone
    assert len(seen.ends) == 2
    assert "an observer raised" in caplog.text


async def test_a_model_reads_that_its_call_was_refused() -> None:
    async with Toolbus(config(), guards=[refuse]) as bus:
        [tool] = [tool for tool in bus.tools() if tool.name == "ask_tell"]
        result = await tool.execute(text="hello")
    assert result.is_error
    assert result.text == "MCP error: ask_tell was refused: not today"


async def test_the_guard_sees_the_arguments_exactly_as_they_are_sent() -> None:
    override = {"add": {"arguments": {"a": {"name": "first"}, "b": {"hide": True, "value": 40}}}}
    seen = Seen()
    server = {"server": everyday(), "override": override}
    async with Toolbus({"servers": {"day": server}}, hooks=[seen.hook], guards=[seen.guard]) as bus:
        result = await bus.call("day_add", {"first": "2"})
    assert result.structured == {"result": 42}
    [sent] = seen.operations
    assert dict(sent.arguments) == {"a": 2, "b": 40}
    assert (sent.spec.origin.tool, sent.spec.name) == ("add", "day_add")


async def test_wrong_arguments_never_reach_a_guard() -> None:
    seen = Seen()
    async with Toolbus({"servers": {"day": {"server": everyday()}}}, guards=[seen.guard]) as bus:
        result = await bus.call("day_add", {"a": "many"})
    assert result.is_error
    assert seen.order == []


async def test_a_hook_may_change_and_refuse_what_is_read() -> None:
    async def hook(call: Operation, proceed: Next) -> ToolResult:
        if call.arguments.get("uri") == "blob://big":
            return ToolResult.failure("too big for me")
        result = await proceed(call)
        loud = (
            replace(block, text=block.text.upper())
            if isinstance(block, Text | Embedded) and block.text
            else block
            for block in result.content
        )
        return replace(result, content=tuple(loud))

    async with Toolbus(config(), hooks=[hook]) as bus:
        [board] = await bus.read_resource("ask", "board://now")
        prompt = await bus.get_prompt("ask", "review", {"language": "c"})
        with pytest.raises(ToolFailed, match="too big for me"):
            await bus.read_resource("ask", "blob://big")
    assert isinstance(board, Embedded)
    assert board.text
    assert board.text == board.text.upper()
    texts = [message.content.text for message in prompt.messages if isinstance(message.content, Text)]
    assert texts == [text.upper() for text in texts]
    assert {message.role for message in prompt.messages} == {"user", "assistant"}


async def test_a_resource_that_is_a_tool_is_one_operation_with_the_server_that_it_reaches() -> None:
    seen = Seen()
    async with Toolbus(config() | {"resource_tools": True}, guards=[seen.guard]) as bus:
        result = await bus.call("read_resource", {"server": "ask", "uri": "board://now"})
    assert not result.is_error
    [sent] = seen.operations
    assert (sent.route, sent.server, sent.arguments["uri"]) == ("resources/read", "ask", "board://now")


# What a server asks


def answering(elicited: list[Elicitation]) -> Interactions:
    async def elicit(question: Elicitation) -> Answer:
        elicited.append(question)
        return question.accept({"day": "Friday"})

    async def sample(wanted: Sampling) -> SamplingResult:
        return SamplingResult(content=Text(text="A title"), model="m")

    return Interactions(elicit=elicit, sample=sample, roots=["/tmp"])


ASKING: dict[str, tuple[str, dict[str, Any]]] = {
    "elicitation/create": ("ask_book", {"guest": "Ann"}),
    "sampling/createMessage": ("ask_title", {"about": "tea"}),
    "roots/list": ("ask_folders", {}),
}


@pytest.mark.parametrize("era", ["modern", "legacy"])
@pytest.mark.parametrize("route", ASKING)
async def test_what_a_server_asks_is_observed_and_guarded_for_its_caller(route: str, era: str) -> None:
    seen = Seen()
    tool, arguments = ASKING[route]
    servers = {"servers": {"ask": {"server": asking(), "era": era}}}
    async with Toolbus(servers, interactions=answering([]), guards=[seen.guard], observers=[seen]) as bus:
        ann = Caller(face="test", user="ann")
        await bus.view(caller=ann).call(tool, arguments)
    assert [step for step in seen.order if step[1] == route] == [("observer", route), ("guard", route)]
    asked = [operation for operation in seen.operations if operation.route == route]
    assert {operation.caller for operation in asked} == {ann}
    assert {operation.server for operation in asked} == {"ask"}


@pytest.mark.parametrize("era", ["modern", "legacy"])
async def test_a_question_that_a_guard_refuses_is_declined_and_nobody_is_asked(era: str) -> None:
    async def guard(operation: Operation) -> None:
        if operation.route == "elicitation/create":
            raise CallDenied("the question", "no questions here")

    elicited, events = list[Elicitation](), list[Event]()
    servers = {"servers": {"ask": {"server": asking(), "era": era}}}
    async with Toolbus(
        servers, interactions=answering(elicited), guards=[guard], on_event=events.append
    ) as bus:
        result = await bus.call("ask_book", {"guest": "Ann"})
    assert elicited == []
    assert "declined" in result.text.lower() or "decline" in result.text.lower()
    assert [event.kind for event in events if isinstance(event, InputAsked)] == ["elicitation"]
    assert [event.action for event in events if isinstance(event, InputAnswered)] == ["decline"]


# Kept results


async def test_a_kept_result_belongs_to_its_caller_and_has_an_id_that_cannot_be_guessed() -> None:
    servers = {"servers": {"day": {"server": everyday(), "budget": 500}}}
    async with Toolbus(servers) as bus:
        ann, bob = (bus.view(caller=Caller(user=user)) for user in ("ann", "bob"))
        [big] = [tool for tool in ann.tools() if tool.name == "day_big"]
        kept = (await big.execute(size=5000)).meta["toolbus"]["kept_as"]
        other = (await big.execute(size=5000)).meta["toolbus"]["kept_as"]
        mine = await ann.call("read_result", {"id": kept, "limit": 10})
        theirs = await bob.call("read_result", {"id": kept, "limit": 10})
    assert len(kept) > 10
    assert kept != other
    assert "characters 0 to 10" in mine.text
    assert theirs.text == f"[unknown result {kept!r}; no results are stored]"


def test_the_synchronous_bus_takes_guards_and_observers_too() -> None:
    seen = Seen()
    with SyncToolbus(config(), guards=[refuse], observers=[seen]) as bus, pytest.raises(CallDenied):
        bus.read_resource("ask", "board://now")
    assert len(seen.ends) == 1


async def test_what_a_server_puts_under_our_key_of_the_meta_does_not_disturb_ours() -> None:
    result = with_notes(ToolResult(meta={"toolbus": "mine"}), characters=5)
    assert result.meta == {"toolbus": {"characters": 5}}


async def test_a_reload_that_only_changes_a_fixed_argument_reaches_registries() -> None:
    def servers(value: int) -> dict[str, Any]:
        override = {"add": {"arguments": {"b": {"hide": True, "value": value}}}}
        return {"servers": {"day": {"server": SERVER, "override": override, "include": ["add"]}}}

    class Registry(dict[str, Any]):
        def add_tool(self, tool: Any) -> None:
            self[tool.name] = tool

    registry = Registry()
    async with Toolbus(servers(1)) as bus:
        bus.register_into(registry)
        before = await registry["day_add"].execute(a=1)
        await bus.reload(servers(2))
        after = await registry["day_add"].execute(a=1)
    assert (before.structured, after.structured) == ({"result": 2}, {"result": 3})
