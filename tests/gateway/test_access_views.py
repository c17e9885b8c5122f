"""The view of a client: by its key or token, for its user. Nothing else exists for it."""

from typing import Any

import pytest

from tests.inside.config import Serve, setting
from tests.inside.core import Budget, Caller, Interactions, QuestionRouting
from tests.inside.gateway import LOCAL, Principal, Views, caller_of
from tests.servers.asking import asking
from tests.servers.everyday import everyday
from toolbus import CallDenied, ServerNotFound, Toolbus, ToolNotFound

pytestmark = pytest.mark.anyio

SERVE: dict[str, Any] = {
    "views": {
        "all": {},
        "sums": {"include": ["day_add", "ask/*"], "exclude": ["ask/tell"], "budget": 1000},
        "day": {"servers": ["day"], "policy": [{"tools": "day/echo", "do": "deny"}], "user": "guest"},
    },
    "default_view": "all",
}


def settings(**more: Any) -> Serve:
    return setting("serve", {**SERVE, **more})


def bus_of(**more: Any) -> Toolbus:
    return Toolbus({"servers": {"day": {"server": everyday()}, "ask": {"server": asking()}}, **more})


async def test_the_default_view_is_that_of_the_config() -> None:
    async with bus_of() as bus:
        views = Views(bus, settings())
        assert views.view_of(LOCAL).catalog.names == bus.catalog.names
        assert views.view_of(LOCAL).caller == Caller(face="gateway")
        assert Views(bus).view_of(LOCAL).catalog.names == bus.catalog.names


async def test_a_view_shows_and_reaches_its_tools_alone() -> None:
    async with bus_of() as bus:
        view = Views(bus, settings()).view_of(Principal(kind="key", name="ann", view="sums"))
        assert "day_add" in view.catalog.names
        assert all(name.startswith("ask_") for name in view.catalog.names if name != "day_add")
        assert (await view.call("day_add", {"a": 1, "b": 2})).structured == {"result": 3}
        for hidden in ("day_echo", "day/echo", "ask_tell", "ask/tell"):
            with pytest.raises(ToolNotFound):
                await view.call(hidden, {"text": "x"})
        ann = Principal(kind="key", name="ann", view="sums")
        assert caller_of(ann, "one") == Caller(
            face="gateway", user="key:ann", session="one", key="key:ann", view="sums"
        )


async def test_a_view_of_servers_with_rules() -> None:
    async with bus_of() as bus:
        view = Views(bus, settings()).view_of(Principal(kind="key", name="ann", view="day"))
        assert {spec.origin.server for spec in view.catalog} == {"day"}
        with pytest.raises(CallDenied):
            await view.call("day/echo", {"text": "x"})
        with pytest.raises(ServerNotFound):
            await view.read_resource("ask", "board://now")
        # The user of the view, because the key has none of its own.
        assert view.caller.user == "guest"
        own = Views(bus, settings()).view_of(Principal(kind="key", name="bob", user="bob", view="day"))
        assert own.caller.user == "bob"


async def test_another_session_of_the_same_client() -> None:
    """It gets no other quota, even with connections of its own."""
    rules = [{"tools": "day/add", "do": "allow", "per_minute": 1}, {"do": "deny"}]
    async with bus_of() as bus:
        views = Views(bus, settings(views={"all": {"policy": rules}}))
        ann, bob = (
            Principal(kind="key", name="ann", view="all"),
            Principal(kind="key", name="bob", view="all"),
        )
        assert views.view_of(ann) is views.view_of(bob)
        first = views.view_of(ann, "one")
        second = views.view_of(
            ann, "two", Interactions(_routing=QuestionRouting(forwards=True))
        )  # with connections of its own
        assert (first.caller.session, second.caller.session) == ("one", "two")
        await first.call("day_add", {"a": 1, "b": 2})
        with pytest.raises(CallDenied, match="per minute"):
            await second.call("day_add", {"a": 1, "b": 2})
        # Another client has its own.
        await views.view_of(bob, "three").call("day_add", {"a": 1, "b": 2})


async def test_the_budget_is_that_of_the_view() -> None:
    async with bus_of() as bus:
        views = Views(bus, settings())
        assert views.budget_of(LOCAL) is None
        assert views.budget_of(Principal(name="a", view="sums")) == Budget(characters=1000, tokens=None)


async def test_a_view_that_is_not_in_the_config() -> None:
    """It is an error, never everything."""
    async with bus_of() as bus:
        views = Views(bus, settings())
        with pytest.raises(LookupError, match="no view named 'gone'"):
            views.view_of(Principal(kind="key", name="ann", view="gone"))


async def test_a_disabled_server_is_left_out_until_the_config_is_used_again() -> None:
    async with Toolbus({"servers": {"day": {"server": everyday()}}}) as bus:
        views = Views(bus, settings(views={"all": {"servers": ["day", "ask"]}}))
        assert list(views.view_of(LOCAL).servers) == ["day"]
        await bus.add_server("ask", {"server": asking()})
        views.use(settings(views={"all": {"servers": ["ask"]}}))
        assert list(views.view_of(LOCAL).servers) == ["ask"]
