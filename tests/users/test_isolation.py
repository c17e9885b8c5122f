"""Lists, calls, kept results, subscriptions and events of one user reach nobody else."""

import asyncio
import random

import pytest

from tests.conftest import sampled
from tests.inside.bus import View, calls_of
from tests.users.personal_bus import bus_of, event_of, heard, process, text_of, token_of, web
from toolbus import Caller, Toolbus, ToolNotFound
from toolbus.events import CallEnded, CallStarted, Logged, ResourceUpdated, StateChanged

pytestmark = pytest.mark.anyio
AT_ONCE = 16


async def _ask(view: View, who: str, turn: int) -> None:
    """One request of any kind; its result has to name the user."""
    match turn % 4:
        case 0 | 1:
            assert await text_of(view, "whoami", n=turn) == f"{who} {turn}"
        case 2:
            [part] = await view.read_resource("me", "me://profile")
            assert part.text == f"profile of {who}"
        case _:
            [message] = (await view.get_prompt("me", "greet")).messages
            assert getattr(message.content, "text", "") == f"I am {who}"


@pytest.mark.parametrize("calls", sampled([300, 10_000], 300))
async def test_interleaved_requests_of_users_are_never_mixed(
    personal_port: int, era: str, calls: int
) -> None:
    async with bus_of(web(personal_port, era)) as bus:
        views = {"ann": bus.as_user("ann"), "bob": bus.as_user("bob"), "bus": bus}
        updates = {who: heard(views[who], ResourceUpdated) for who in views}
        for who, view in views.items():
            await view.subscribe("me", f"me://{who}")
        turns = iter(range(calls))
        order = random.Random(7)

        async def work() -> None:
            for turn in turns:
                who = order.choice(("ann", "bob", "bob", "ann", "bus"))
                await _ask(views[who], who, turn)

        await asyncio.gather(*(work() for _ in range(AT_ONCE)))
        for view in views.values():
            # Each of them changes the resources of all.
            for other in views:
                await text_of(view, "touch", uri=f"me://{other}")
        for who, view in views.items():
            await event_of(view, ResourceUpdated, text_of(view, "touch", uri=f"me://{who}"))
            assert {event.uri for event in updates[who]} == {f"me://{who}"}


async def test_each_user_has_lists_of_their_own(personal_port: int, era: str) -> None:
    async with bus_of(web(personal_port, era)) as bus:
        for who in ("ann", "bob"):
            view = bus.as_user(who)
            assert len(view.catalog) == 0, "nothing is known before it is connected for this user"
            await view.wait_ready()
            assert f"me_only_{who}" in view.catalog
            assert [tool.name for tool in view.tools() if "only" in tool.name] == [f"me_only_{who}"]
            assert [item.uri for item in view.resources()] == ["me://profile", f"me://{who}"]
            assert [item.name for item in view.prompts()] == ["greet", f"greet_{who}"]
            with pytest.raises(ToolNotFound):
                await view.call("me_only_bus")
        assert [tool.name for tool in bus.tools() if "only" in tool.name] == ["me_only_bus"]
        assert "me_only_ann" in bus.as_user("ann").catalog


async def test_a_kept_result_is_read_by_its_user_alone(personal_port: int) -> None:
    async with bus_of(web(personal_port, "modern")) as bus:
        ann, bob = bus.as_user("ann"), bus.as_user("bob")
        for view in (ann, bob, bus):
            await view.wait_ready()
        cut = await calls_of(ann).run(ann.catalog["me/long"], {})
        kept = cut.meta["toolbus"]["kept_as"]
        assert "read_result" in ann.catalog
        assert "read_result" not in bob.catalog
        assert "read_result" not in bus.catalog
        assert "ann ann" in (await ann.call("read_result", {"id": kept})).text
        await calls_of(bob).run(bob.catalog["me/long"], {})
        await calls_of(bus).run(bus.catalog["me/long"], {})
        posing = bus.view(caller=Caller(user="ann"))
        for view in (bob, bus, posing, bob.view(caller=Caller(user="ann"))):
            text = (await view.call("read_result", {"id": kept})).text
            assert "unknown result" in text
            assert "ann ann" not in text
        # The same name is the same user.
        assert "ann ann" in (await bus.as_user("ann").call("read_result", {"id": kept})).text


@pytest.mark.parametrize("shared", [True, False])
async def test_events_of_a_call_reach_its_user_alone(shared: bool) -> None:
    async with bus_of(process("bus" if shared else "${user:-bus}", era="legacy")) as bus:
        views = {"ann": bus.as_user("ann"), "bob": bus.as_user("bob"), "bus": bus}
        for view in views.values():
            await view.wait_ready()
        kinds = (CallStarted, CallEnded, Logged)
        found = {name: heard(view, *kinds) for name, view in views.items()}
        await event_of(views["ann"], Logged, text_of(views["ann"], "log"))
        assert [type(event) for event in found["ann"]] == [CallStarted, Logged, CallEnded]
        assert found["ann"][1].data == f"log of {'bus' if shared else 'ann'}"
        assert found["bob"] == found["bus"] == []


async def test_users_of_a_shared_link_get_the_changes_that_they_subscribed_to() -> None:
    async with bus_of(process("bus")) as bus:
        ann, bob = bus.as_user("ann"), bus.as_user("bob")
        updates = {
            name: heard(view, ResourceUpdated) for name, view in (("ann", ann), ("bob", bob), ("bus", bus))
        }
        await ann.subscribe("me", "me://1")
        await bob.subscribe("me", "me://2")
        await bob.unsubscribe("me", "me://1")  # it is not his
        await bus.unsubscribe("me", "me://1")
        await event_of(ann, ResourceUpdated, text_of(bob, "touch", uri="me://1"))
        await event_of(bob, ResourceUpdated, text_of(bus, "touch", uri="me://2"))
        assert {e.uri for e in updates["ann"]} == {"me://1"}
        assert {e.uri for e in updates["bob"]} == {"me://2"}
        assert updates["bus"] == []


async def test_the_states_of_links_are_told_to_those_who_use_them(personal_port: int) -> None:
    servers = {"own": web(personal_port, "modern"), "shared": process("bus", lazy=True)}
    async with Toolbus({"servers": servers}, get_secret=token_of) as bus:
        ann, bob = bus.as_user("ann"), bus.as_user("bob")
        states = {
            name: heard(view, StateChanged) for name, view in (("ann", ann), ("bob", bob), ("bus", bus))
        }
        await ann.connect("own")
        await ann.connect("shared")
        found = {name: [(e.server, e.state) for e in events] for name, events in states.items()}
        opened = ["connecting", "ready"]
        assert found["ann"] == [("own", state) for state in opened] + [("shared", state) for state in opened]
        assert found["bob"] == found["bus"] == [("shared", state) for state in opened]
