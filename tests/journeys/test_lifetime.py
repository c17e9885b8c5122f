"""Opening and closing in any task, thread and order: clean, bounded, nothing left behind."""

import asyncio
import threading

import pytest

from tests.conftest import Place, plain
from tests.patience import PATIENCE, until
from tests.processes import alive, children
from toolbus import BusClosed, ConnectionLost, McpConnection, Toolbus, ToolResult, connect_mcp
from toolbus.sync import SyncToolbus

pytestmark = pytest.mark.anyio


async def test_a_bus_is_opened_used_and_closed_in_three_different_tasks(place: Place) -> None:
    bus = Toolbus({"servers": {"day": place.config()}})
    await asyncio.create_task(bus.start())
    result = await asyncio.create_task(bus.call("day_echo", {"text": "hi"}))
    await asyncio.create_task(bus.stop())
    assert result.text == "hi"
    assert bus.servers["day"].state == "closed"


async def test_connections_are_closed_in_any_order_and_twice(place: Place) -> None:
    first = await connect_mcp(place.config())
    second = await connect_mcp(place.config())
    await first.close()
    assert (await second.call_tool("echo", {"text": "still here"})).text == "still here"
    await first.close()
    await second.close()
    await second.close()


async def test_after_close_every_use_says_so(place: Place) -> None:
    mcp: McpConnection = await connect_mcp(place.config())
    [tool] = [tool for tool in await mcp.list_tools() if tool.name == "echo"]
    await mcp.close()
    with pytest.raises(BusClosed):
        await mcp.list_tools()
    with pytest.raises(BusClosed):
        await mcp.call_tool("echo", {"text": "x"})
    with pytest.raises(BusClosed):
        await mcp.bus.start()
    assert await tool.execute(text="x") == ToolResult.failure("the bus is closed; create a new one")


async def test_closing_fails_the_calls_under_way_at_once_with_a_typed_error(place: Place) -> None:
    bus = Toolbus({"servers": {"day": place.config()}})
    await bus.start()
    calls = [asyncio.create_task(bus.call("day_hang")) for _ in range(3)]
    for call in calls:
        await asyncio.sleep(0)
        assert not call.done()
    closing = asyncio.create_task(bus.stop())
    done, waiting = await asyncio.wait(calls, timeout=PATIENCE)
    assert (len(done), len(waiting)) == (3, 0)
    assert {type(call.exception()) for call in done} == {ConnectionLost}
    await closing


async def test_a_bus_is_used_from_another_thread_with_a_loop_of_its_own(place: Place) -> None:
    async with Toolbus({"servers": {"day": place.config()}}) as bus:
        answers: list[str] = []

        def elsewhere() -> None:
            answers.append(asyncio.run(bus.call("day_echo", {"text": "from elsewhere"})).text)

        thread = threading.Thread(target=elsewhere)
        thread.start()
        await asyncio.to_thread(thread.join)
    assert answers == ["from elsewhere"]


def test_plain_synchronous_code_has_the_same_bus(place: Place) -> None:
    with SyncToolbus({"servers": {"day": place.config()}}) as bus:
        assert "day_echo" in bus.catalog
        assert bus.call("day_echo", {"text": "sync"}).text == "sync"
        [echo] = [tool for tool in bus.tools() if tool.name == "day_echo"]
        assert echo.execute(text="tool").text == "tool"
        assert bus.health()["day"].ok
        assert bus.read_resource("day", "memo://greeting")[0].text == "hello"
    bus.stop()
    with pytest.raises(BusClosed):
        bus.call("day_echo", {"text": "late"})
    assert echo.execute(text="late").is_error


async def test_the_synchronous_bus_works_inside_a_running_loop(place: Place) -> None:
    with SyncToolbus({"servers": {"day": place.config()}}) as bus:
        assert bus.call("day_echo", {"text": "notebook"}).text == "notebook"


def test_the_synchronous_bus_is_used_by_many_threads(place: Place) -> None:
    answers: list[str] = []
    with SyncToolbus({"servers": {"day": place.config()}}) as bus:

        def one(number: int) -> None:
            answers.append(bus.call("day_echo", {"text": str(number)}).text)

        threads = [threading.Thread(target=one, args=(n,)) for n in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert sorted(answers) == [str(n) for n in range(8)]


async def test_a_start_that_is_cancelled_leaves_nothing() -> None:
    bus = Toolbus({"servers": {"slow": plain("never_answer")}})
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.3):
            await bus.start()
    assert bus.servers["slow"].state == "closed"


async def test_a_bus_that_nobody_stopped_is_ended_with_its_loop() -> None:
    def forgetful() -> None:
        async def main() -> None:
            await Toolbus({"servers": {"a": plain()}}).start()

        asyncio.run(main())

    before = children()
    await asyncio.to_thread(forgetful)
    await until(lambda: children() <= before)


async def test_grandchildren_are_gone_after_close() -> None:
    async with Toolbus({"servers": {"a": plain("leave_child")}}) as bus:
        grandchild = int((await bus.call("a_echo")).text)
        assert alive(grandchild)
    await until(lambda: not alive(grandchild))


async def test_a_server_that_ignores_every_request_to_leave_is_killed() -> None:
    before = children()
    async with Toolbus({"servers": {"a": plain("stay")}}):
        assert children() > before
    await until(lambda: children() == before)


async def test_a_caller_cancelled_by_its_own_timeout_sees_just_that(place: Place) -> None:
    async with Toolbus({"servers": {"day": place.config()}}) as bus:
        with pytest.raises(TimeoutError) as caught:
            async with asyncio.timeout(0.2):
                await bus.call("day_hang")
        assert type(caught.value) is TimeoutError
        assert (await bus.call("day_echo", {"text": "on"})).text == "on"


async def test_two_starts_at_once_both_return_when_the_bus_is_up() -> None:
    bus = Toolbus({"servers": {"a": plain()}})
    assert bus.servers["a"].state == "idle"
    await asyncio.gather(bus.start(), bus.start())
    assert bus.catalog.names == ("a_echo",)
    await bus.stop()


async def test_a_stop_in_the_middle_of_a_start_ends_both() -> None:
    bus = Toolbus({"servers": {"a": plain("never_answer"), "b": plain()}})
    starting = asyncio.create_task(bus.start())
    await asyncio.sleep(0)
    await bus.stop()
    async with asyncio.timeout(PATIENCE):
        await starting
    assert {status.state for status in bus.servers.values()} == {"closed"}


async def test_a_call_from_elsewhere_is_told_when_the_loop_of_the_bus_ends() -> None:
    bus = Toolbus({"servers": {"a": plain("hang_in_call")}})
    calling = threading.Event()

    def home() -> None:
        async def main() -> None:
            await bus.start()
            calling.set()
            await asyncio.to_thread(begun.wait)

        asyncio.run(main())

    begun = threading.Event()
    thread = threading.Thread(target=home)
    thread.start()
    await asyncio.to_thread(calling.wait)
    call = asyncio.create_task(bus.call("a_echo"))
    await asyncio.sleep(0)
    begun.set()
    with pytest.raises(BusClosed):
        await call
    await asyncio.to_thread(thread.join)
    with pytest.raises(BusClosed):
        await bus.call("a_echo")
