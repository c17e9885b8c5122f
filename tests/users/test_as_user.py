"""bus.as_user(name) is the bus for one user, with the same API."""

import asyncio
import threading
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest

from tests.servers.asking import asking
from tests.servers.everyday import everyday
from tests.users.personal_bus import bus_of, process, text_of, token_of
from toolbus import Answer, Caller, Elicitation, Interactions, Operation, ServerNotFound, Toolbus, ToolResult
from toolbus.adapters.tool_list import ToolList
from toolbus.sync import SyncToolbus

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    ("name", "error"), [("", ValueError), ("  ", ValueError), (None, TypeError), (1, TypeError)]
)
def test_a_user_has_a_name(name: Any, error: type[Exception]) -> None:
    bus = bus_of(process())
    with pytest.raises(error, match="the name of a user must"):
        bus.as_user(name)


async def test_it_costs_nothing_until_it_is_used() -> None:
    asked: list[str] = []

    def get_secret(name: str, user: str) -> str:
        asked.append(user)
        return "bus"

    async with bus_of(process("${WHO_IT_IS}"), get_secret=get_secret) as bus:
        tasks = asyncio.all_tasks()
        ann = bus.as_user("ann")
        assert (ann.tools(), ann.resources(), ann.failures) == ([], [], {})
        assert {alias: status.state for alias, status in ann.servers.items()} == {"me": "idle"}
        assert asked == [""]
        assert asyncio.all_tasks() == tasks


async def test_hooks_guards_and_observers_see_the_user() -> None:
    seen: list[tuple[str, str]] = []

    async def hook(operation: Operation, proceed: Callable[[Operation], Awaitable[ToolResult]]) -> ToolResult:
        seen.append(("hook", operation.caller.user))
        return await proceed(operation)

    async def guard(operation: Operation) -> None:
        seen.append(("guard", operation.caller.user))

    class Observing:
        def start(self, operation: Operation, /) -> None:
            seen.append(("observer", operation.caller.user))

    async with bus_of(process("bus"), hooks=[hook], guards=[guard], observers=[Observing()]) as bus:
        ann = bus.as_user("ann")
        views = [ann, ann.view(caller=Caller(face="web", user="bob")), bus]
        for view, user in zip(views, ("ann", "ann", ""), strict=True):
            seen.clear()
            await text_of(view, "whoami")
            assert seen == [("observer", user), ("hook", user), ("guard", user)]
        assert views[1].caller == Caller(face="web", user="ann")


async def test_a_view_of_a_user_is_narrower_and_stays_with_the_user() -> None:
    async with Toolbus({"servers": {"me": process(), "all": process("bus")}}, get_secret=token_of) as bus:
        ann = bus.as_user("ann").view(servers=["me"])
        assert (await ann.call("me/whoami")).text == "ann"
        assert {spec.origin.server for spec in ann.catalog} == {"me"}
        with pytest.raises(ServerNotFound):
            await ann.read_resource("all", "me://profile")
        assert list(ann.servers) == ["me"]
        assert {alias: health.ok for alias, health in (await ann.health()).items()} == {"me": True}


async def test_tools_and_adapters_call_for_their_user() -> None:
    async with bus_of(process()) as bus:
        ann, bob = bus.as_user("ann"), bus.as_user("bob")
        for view in (ann, bob):
            await view.wait_ready()
        found = {tool.name: tool for tool in ann.tools()}
        assert (await found["me_whoami"].execute()).text == "ann"
        [one] = [tool for tool in ToolList(ann, lambda tool: tool) if tool.name == "me_whoami"]
        assert (await one.execute()).text == "ann"

        class Registry:
            def __init__(self) -> None:
                self.tools: dict[str, Any] = {}

            def add_tool(self, tool: Any) -> None:
                self.tools[tool.name] = tool

            def remove_tool(self, name: str) -> None:
                del self.tools[name]

        registry = Registry()
        bob.register_into(registry)
        assert "me_only_bob" in registry.tools
        assert (await registry.tools["me_whoami"].execute()).text == "bob"
        await bus.remove_server("me")
        assert registry.tools == {}


async def test_a_user_can_be_served_from_other_threads_and_loops() -> None:
    async with bus_of(process()) as bus:
        results: list[str] = []

        def work(user: str) -> None:
            results.append(asyncio.run(text_of(bus.as_user(user), "whoami")))
            results.append(bus.as_user(user).view().tools()[-1].execute_sync().text)

        threads = [threading.Thread(target=work, args=(user,)) for user in ("ann", "bob")]
        for thread in threads:
            thread.start()
        for thread in threads:
            await asyncio.to_thread(thread.join)
        assert sorted(results) == ["ann", "ann", "bob", "bob"]


def test_the_synchronous_bus_has_users_too() -> None:
    config = {"servers": {"me": process()}}
    with SyncToolbus(config, get_secret=token_of) as bus:
        ann = bus.as_user("ann")
        assert ann.call("me/whoami").text == "ann"
        assert [tool.name for tool in ann.tools() if "only" in tool.name] == ["me_only_ann"]
        assert bus.call("me/whoami").text == "bus"


@pytest.mark.parametrize("own", [True, False])
async def test_a_handler_knows_whom_a_server_asks(own: bool) -> None:
    asked: list[tuple[str, str]] = []

    async def elicit(question: Elicitation) -> Answer:
        asked.append((question.server, question.user))
        return question.decline()

    entry = {"server": asking(), "headers": {"x": "${user:-bus}" if own else "bus"}}
    async with Toolbus({"servers": {"ask": entry}}, interactions=Interactions(elicit=elicit)) as bus:
        for user in ("ann", "bob", ""):
            view = bus.as_user(user) if user else bus
            await view.call("ask/book", {"guest": "Zoe"})
        assert asked == [("ask", "ann"), ("ask", "bob"), ("ask", "")]


async def test_a_user_is_the_same_however_often_it_is_named() -> None:
    async with bus_of(process()) as bus:
        ann = bus.as_user("ann")
        await ann.wait_ready()
        again = bus.as_user("ann")
        assert again.catalog is ann.catalog
        assert again.servers == ann.servers
        assert replace(again.caller) == ann.caller


async def test_the_tools_of_an_in_process_server_are_shared() -> None:
    async with Toolbus({"servers": {"day": {"server": everyday()}}}) as bus:
        assert [tool.name for tool in bus.as_user("ann").tools()] == [tool.name for tool in bus.tools()]
