"""The page of one call: its phases, the person it waits for, and its content if that is kept."""

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from tests.gateway.console.opening import Opened, console_over, plain
from tests.gateway.driving import JSON, ModernClient
from tests.gateway.front import Gates, gated
from tests.inside.core import ApprovalRequest, Caller, Operation
from tests.inside.gateway import CallLimits, Gateway, GatewayLimits, Principal
from tests.patience import until
from tests.servers.asking import asking
from toolbus import ToolbusError

pytestmark = pytest.mark.anyio


@asynccontextmanager
async def _console(gates: Gates, **config: Any) -> AsyncGenerator[Opened]:
    servers: JSON = {"gated": {"server": gated(gates)}, "desk": {"server": asking()}}
    async with console_over({"servers": servers, **config}) as opened:
        await opened.enter()
        await opened.page("calls")  # from now on somebody watches
        yield opened


def _phases(opened: Opened, number: int = 0) -> list[str]:
    return [one.name for one in opened.console.calls.ended[number].recorded().phases]


async def test_a_call_opens_into_the_phases_of_its_time() -> None:
    async with _console(Gates()) as opened:
        await opened.bus.call("gated_add", {"a": 1, "b": 2})
        [call] = opened.console.calls.ended
        page = plain(await opened.page(f"call?id={call.id}"))
        record = call.recorded()
    assert "server the server works" in page
    assert "gated_add ok" in page
    assert "server" in [one.name for one in record.phases]
    assert record.server_seconds is not None
    assert 0 < record.server_seconds <= sum(one.seconds for one in record.phases) + 0.001
    starts = [one.start for one in record.phases]
    assert starts == sorted(starts)


async def test_a_call_that_waits_for_approval_says_so_and_leads_to_the_inbox() -> None:
    async with _console(Gates(), policy=[{"do": "ask", "tools": "gated/add"}]) as opened:
        asked = asyncio.create_task(opened.bus.call("gated_add", {"a": 1, "b": 2}))
        await until(lambda: len(opened.console.board.waiting) == 1)
        [number], [call] = opened.console.board.waiting, opened.console.calls.in_flight
        listed, page = await opened.page("calls"), await opened.page(f"call?id={call.id}")
        overview = await opened.page("overview")
        for markup in (listed, page):
            assert f'href="inbox#question-{number}" class="badge busy">waits for approval<' in markup
            assert ">running<" not in markup
        assert f'href="inbox#question-{number}"' in overview
        assert isinstance(opened.console.board.waiting[number].question, ApprovalRequest)
        opened.console.board.reply(number, "once")
        await asked
        record = opened.console.calls.ended[0].recorded()
    assert [one.name for one in record.phases if one.name in ("person", "server")] == ["person", "server"]
    person = next(one for one in record.phases if one.name == "person")
    assert record.seconds < record.ended - record.at, "the time of a person is not the call's"  # pyright: ignore[reportOptionalOperand]  it has ended
    assert person.seconds > 0


async def test_a_question_of_the_server_is_a_person_within_the_time_of_the_server() -> None:
    async with _console(Gates()) as opened:
        asked = asyncio.create_task(opened.bus.call("desk_book", {"guest": "Ann"}))
        await until(lambda: len(opened.console.board.waiting) == 1)
        [number] = opened.console.board.waiting
        assert "waits for you" in await opened.page("calls")
        question: Any = opened.console.board.waiting[number].question
        opened.console.board.reply(number, question.decline())
        with suppress(ToolbusError):
            await asked
        names = _phases(opened)
    assert names[names.index("person") - 1] == "server"


async def test_the_time_in_the_queue_of_the_gateway_comes_first() -> None:
    gates = Gates()
    async with _console(gates) as opened:
        limits = GatewayLimits(calls=CallLimits(per_server=1))
        async with Gateway(opened.bus, limits) as gateway:
            client = ModernClient(gateway, principal=Principal(kind="key", name="ann"))
            first = asyncio.create_task(client.request("tools/call", {"name": "gated_wait", "arguments": {}}))
            await gates.entered.wait()
            second = asyncio.create_task(
                client.request("tools/call", {"name": "gated_add", "arguments": {"a": 1, "b": 2}})
            )
            await until(lambda: len(gateway.queue) == 1)
            gates.opened.set()
            await asyncio.gather(first, second)
        assert opened.console.calls.ended[0].name == "gated_add"
        assert _phases(opened)[0] == "queue"
        assert "queue" not in _phases(opened, 1)


async def test_a_call_that_is_refused_took_no_time_of_a_server() -> None:
    async with _console(
        Gates(),
        policy=[{"do": "deny", "tools": "gated/add", "arguments": {"properties": {"a": {"const": 1}}}}],
    ) as opened:
        with suppress(ToolbusError):
            await opened.bus.call("gated_add", {"a": 1, "b": 2})
        [call] = opened.console.calls.ended
        page = plain(await opened.page(f"call?id={call.id}"))
    assert call.recorded().server_seconds is None
    assert "refused" in page
    assert "policy[0]" in page


async def test_without_a_console_no_operation_has_a_clock() -> None:
    seen: list[Operation] = []

    class Observer:
        def start(self, operation: Operation, /) -> None:
            seen.append(operation)

    async with _console(Gates()) as opened:
        opened.bus.observe(Observer())
        await opened.bus.call("gated_add", {"a": 1, "b": 2})
        await opened.console.close()
        await opened.bus.call("gated_add", {"a": 1, "b": 2})
    assert [operation.clock is None for operation in seen] == [False, True]


async def test_progress_that_the_caller_asked_for_is_shown() -> None:
    gates = Gates()
    gates.opened.set()
    async with _console(gates) as opened:
        got: list[float] = []

        def on_progress(progress: float, total: float | None, message: str | None) -> None:
            got.append(progress)

        await opened.bus.call("gated_steps", {}, on_progress=on_progress)
        [call] = opened.console.calls.ended
        page = plain(await opened.page(f"call?id={call.id}"))
    assert got == [1, 2]
    assert "Progress 1 of 2: half" in page


async def test_content_is_kept_only_of_calls_of_the_console_unless_the_user_wants_more() -> None:
    async with _console(Gates()) as opened:
        await opened.bus.call("gated_add", {"a": 41, "b": 1})
        own = opened.bus.view(caller=Caller(face="console", session="console-1"))
        await own.call("gated_add", {"a": 43, "b": 1})
        made, other = [one.id for one in opened.console.calls.ended]
        pages = [await opened.page(f"call?id={id_}") for id_ in (made, other)]
        arguments = [await opened.console.arguments_of(id_) for id_ in (made, other, "nothing")]
        saved = (await opened.http.get(f"{opened.home}/call/download?id={made}")).json()
        missing = await opened.http.get(f"{opened.home}/call/download?id=nothing")
    assert arguments == [{"a": 43, "b": 1}, None, None]
    assert "again=" in pages[0]
    assert "again=" not in pages[1]
    assert "history: everything" in pages[1]
    assert saved["request"] == {
        "method": "tools/call",
        "params": {"name": "add", "arguments": {"a": 43, "b": 1}},
    }
    assert saved["answer"]["result"]["structuredContent"] == {"result": 44}
    assert missing.status_code == 404


async def test_a_call_that_nobody_knows_is_explained() -> None:
    async with _console(Gates()) as opened:
        assert "not known any more" in plain(await opened.page("call?id=x-1"))


async def test_a_history_has_the_calls_of_the_process_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    server = {"command": "python", "args": [str(Path(__file__).with_name("wild.py"))], "prefix": "x"}
    config = tmp_path / "toolbus.json"
    config.write_text(json.dumps({"servers": {"wild": server}, "history": "everything"}))
    async with console_over(str(config)) as opened:
        await opened.bus.call("x_kinds", {"words": "tea", "size": "small"})
        assert (await opened.bus.call("x_fail", {})).is_error
        await opened.enter()
        first = await opened.page("calls")
    async with console_over(str(config)) as opened:
        assert opened.console.calls.ended == []
        await opened.enter()
        later, failed = await opened.page("calls"), await opened.page("calls?outcome=failed&range=7d")
        found = await opened.page("calls?tool=wild/k*")
        [id_] = [part.split('"')[0] for part in found.split('<tr id="c-')[1:]]
        page = await opened.page(f"call?id={id_}")
        arguments = await opened.console.arguments_of(id_)
        csv = (await opened.http.get(f"{opened.home}/calls/export?form=csv&outcome=failed")).text
    rows = [part.split('"')[0] for part in first.split('<tr id="c-')[1:]]
    assert [part.split('"')[0] for part in later.split('<tr id="c-')[1:]] == rows
    assert failed.count('<tr id="c-') == 1
    assert arguments == {"words": "tea", "size": "small"}
    assert "again=" in page
    assert csv.splitlines()[0].startswith("id,began,ended,method,server,tool,name")
    assert len(csv.splitlines()) == 2
    assert "7 d" in plain(later)
    assert "0 calls in the last minute, 2 in 15 min" in plain(later)
    assert "1 in 15 min: 50.0% of all" in plain(later)
