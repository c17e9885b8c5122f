"""Events on a session's own connections reach that session, and events on shared ones reach all."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.inside.bus import View
from tests.inside.core import JSONObject, QuestionRouting
from tests.lock.place import Place
from tests.lock.test_mutations import MUTATIONS, mutated
from tests.patience import PATIENCE
from tests.users.counting_bus import bus_of, counting, text_of
from tests.users.personal_bus import event_of, heard
from toolbus import Answer, CallDenied, ConnectionLost, Elicitation, Interactions, LoginRequired, Toolbus
from toolbus.events import (
    CallEnded,
    CatalogChanged,
    ListChanged,
    Logged,
    LoginNeeded,
    ResourceUpdated,
    StateChanged,
    ToolHeld,
)

pytestmark = pytest.mark.anyio


def answering(name: str, asked: list[str]) -> Interactions:
    """A person who says that name, and remembers to have been asked."""

    async def elicit(question: Elicitation) -> Answer:
        asked.append(question.user)
        return question.accept({"name": name})

    return Interactions(elicit=elicit)


async def test_states_of_own_connections_reach_their_session_alone() -> None:
    async with Toolbus({"servers": {"me": counting(), "all": counting(per_session=False)}}) as bus:
        one, two = bus.as_user("", session="one"), bus.as_user("ann", session="two")
        views: list[View] = [one, two, bus, bus.as_user("ann")]
        found = [heard(view, StateChanged) for view in views]
        await text_of(one, "count")
        assert [event.state for event in found[0]] == ["connecting", "ready"]
        assert found[1:] == [[], [], []]
        with pytest.raises(ConnectionLost):
            await bus.call("all/crash")
        assert (await two.call("all/count")).text == "1"
        states = [[event.state for event in events if event.server == "all"] for events in found]
        assert states == [["retrying", "ready"]] * 4


async def test_states_of_a_users_link_reach_the_sessions_of_that_user() -> None:
    own = counting(per_session=False, env={"WHO": "${user:-bus}"})
    async with bus_of(own) as bus:
        one, other = bus.as_user("ann", session="one"), bus.as_user("bob", session="one")
        await text_of(one, "count")
        found = [heard(view, StateChanged) for view in (one, other, bus.as_user("ann"), bus)]
        with pytest.raises(ConnectionLost):
            await text_of(bus.as_user("ann"), "crash")
        assert await text_of(one, "count") == "1"
        assert [[event.state for event in events] for events in found] == [
            ["retrying", "ready"],
            [],
            ["retrying", "ready"],
            [],
        ]


@pytest.mark.parametrize("per_session", [True, False])
@pytest.mark.parametrize("user", ["", "ann"])
@pytest.mark.parametrize("who", ["bus", "${user:-bus}"])
async def test_calls_and_their_logs_reach_their_session_alone(per_session: bool, user: str, who: str) -> None:
    async with bus_of(counting(per_session=per_session, env={"WHO": who})) as bus:
        one, two = bus.as_user(user, session="one"), bus.as_user(user, session="two")
        found = [heard(view, Logged, CallEnded) for view in (one, two, bus, bus.as_user("ann"))]
        assert await text_of(one, "log", text="hello") == "hello"
        [logged, ended] = found[0]
        assert (logged.data, ended.tool, ended.reason) == ("hello", "log", None)
        assert found[1:] == [[], [], []]


async def test_progress_is_asked_for_only_if_somebody_wants_it() -> None:
    async with bus_of(counting()) as bus:
        one = bus.as_user("ann", session="one")
        for view in (bus, bus.as_user("ann"), one):
            assert await text_of(view, "progress") == "False"
        followed = await one.call("me/progress", on_progress=lambda done, total, message: None)
        assert followed.text == "True"


async def test_a_tool_that_appears_in_one_session_is_seen_by_that_session_alone() -> None:
    async with bus_of(counting()) as bus:
        one, two = bus.as_user("", session="one"), bus.as_user("", session="two")
        await text_of(two, "count")
        changes = heard(bus, CatalogChanged)
        await event_of(one, CatalogChanged, text_of(one, "grow", name="extra"), added=("me_extra",))
        assert await text_of(one, "extra") == "extra"
        assert "me_extra" not in two.catalog
        assert two.catalog is bus.catalog
        assert changes == []
        await one.close()
        assert "me_extra" not in bus.as_user("", session="one").catalog


async def test_each_session_answers_the_questions_of_its_own_servers() -> None:
    asked: list[str] = []
    async with bus_of(counting(), interactions=answering("program", asked)) as bus:
        of_ann = answering("Ann", asked)
        one = bus.as_user("ann", session="one", interactions=of_ann)
        two = bus.as_user("bob", session="two", interactions=answering("Bob", asked))
        names = await asyncio.gather(*(text_of(view, "ask") for view in (one, two, bus)))
        assert names == ["Ann", "Bob", "program"]
        assert sorted(asked) == ["", "ann", "bob"]
        assert await text_of(bus.as_user("cid", session="one"), "ask") == "program"
        again = bus.as_user("ann", session="one", interactions=of_ann)
        assert again.catalog is one.catalog
        assert [await text_of(again, "process"), await text_of(again, "ask")] == [
            await text_of(one, "process"),
            "Ann",
        ]
        with pytest.raises(ValueError, match="other interactions"):
            bus.as_user("ann", session="one", interactions=Interactions())
        with pytest.raises(TypeError, match="are for a session"):
            bus.as_user("ann", interactions=Interactions())  # pyright: ignore[reportCallIssue]


class Person:
    """A client that says its name whenever it is asked."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.capabilities: dict[str, Any] = {"elicitation": {"form": {}}}
        self.asked = asyncio.Event()

    async def ask(self, server: str, method: str, params: JSONObject) -> dict[str, Any]:
        assert (server, method) == ("me", "elicitation/create")
        self.asked.set()
        return {"action": "accept", "content": {"name": self.name}}


async def test_a_question_that_belongs_to_no_call_reaches_the_client_of_its_session() -> None:
    async with bus_of(counting(), interactions=Interactions(_routing=QuestionRouting(forwards=True))) as bus:
        people = Person("Ann"), Person("Bob")
        views = [
            bus.as_user(
                "",
                session=one.name,
                interactions=Interactions(_routing=QuestionRouting(forwards=True, client=one)),
            )
            for one in people
        ]
        for view, person in zip(views, people, strict=True):
            assert await text_of(view, "ask_later") == "later"
            async with asyncio.timeout(PATIENCE):
                await person.asked.wait()
            while not (told := await text_of(view, "told")):
                pass
            assert told == person.name


async def test_a_list_that_changes_is_reported_to_whom_it_concerns() -> None:
    async with Toolbus({"servers": {"me": counting(), "all": counting(per_session=False)}}) as bus:
        one, two, ann = (
            bus.as_user("", session="one"),
            bus.as_user("ann", session="two"),
            bus.as_user("ann"),
        )
        views: list[View] = [one, two, ann, bus]
        found = [heard(view, ListChanged) for view in views]
        for view in (one, two):
            await text_of(view, "count")
        assert found == [[], [], [], []], "their own servers list what the sessions show already"
        await event_of(one, ListChanged, text_of(one, "grow", name="extra"), server="me")
        assert found[1:] == [[], [], []]
        found[0].clear()
        await event_of(two, ListChanged, bus.call("all/grow", {"name": "extra"}), server="all")
        assert [[(event.server, event.kind) for event in events] for events in found] == [
            [("all", "tools")]
        ] * 4


async def test_a_subscription_of_a_session_ends_with_it() -> None:
    async with bus_of(counting(per_session=False)) as bus:
        one, two = bus.as_user("", session="one"), bus.as_user("", session="two")
        found = [heard(view, ResourceUpdated) for view in (one, two, bus)]
        for _ in range(2):
            await one.subscribe("me", "count://now")
        await event_of(one, ResourceUpdated, text_of(two, "touch"))
        assert [len(events) for events in found] == [1, 0, 0]
        await two.subscribe("me", "count://now")
        await one.close()
        await event_of(two, ResourceUpdated, text_of(bus, "touch"))
        assert [len(events) for events in found] == [1, 1, 0]
        await two.close()
        assert await text_of(bus, "subscribed") == "", "the server also knows it"


async def test_the_bus_hears_that_somebody_has_to_sign_in(personal_port: int) -> None:
    url = f"http://127.0.0.1:{personal_port}/mcp"
    entry = {"url": url, "auth": "oauth", "per_session": True, "lazy": True}
    async with bus_of(entry) as bus:
        one = bus.as_user("ann", session="one")
        found = [heard(view, LoginNeeded) for view in (one, bus.as_user("ann"), bus, bus.as_user("bob"))]
        with pytest.raises(LoginRequired):
            await one.connect("me")
        assert [[(event.server, event.user) for event in events] for events in found] == [
            [("me", "ann")],
            [("me", "ann")],
            [("me", "ann")],
            [],
        ]


async def test_a_lock_holds_what_differs_for_one_session(tmp_path: Path) -> None:
    place = Place(tmp_path, entry={"per_session": True, "lazy": True})
    place.approve()
    async with Toolbus(place.config) as bus:
        one, two = bus.as_user("", session="one"), bus.as_user("", session="two")
        names = ["files_read", "files_stat", "files_write"]
        assert one.catalog is two.catalog is bus.catalog
        assert sorted(one.catalog.names) == names
        assert (await one.call("files_stat")).text == "ran stat"
        await one.close()
        place.offer(mutated(MUTATIONS["description"]))
        held = [heard(view, ToolHeld) for view in (two, bus)]
        with pytest.raises(CallDenied):
            await two.call("files_read", {"path": "x", "mode": "text"})
        assert [sorted(view.catalog.names) for view in (two, bus)] == [names[1:], names]
        assert [list(view.held) for view in (two, bus)] == [["files/read"], []]
        assert [[event.tool for event in events] for events in held] == [["read"], []]
        assert place.calls == ["stat"]
