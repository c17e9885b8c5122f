"""A view may have rules of its own: they can only make the policy of the bus stricter."""

from pathlib import Path
from typing import Any

import pytest

from tests.inside.bus import calls_of
from tests.policy.people import Person, decisions
from tests.servers.asking import asking
from tests.servers.everyday import everyday
from toolbus import CallDenied, Caller, ConfigError, Toolbus
from toolbus.events import CatalogChanged, Event, Warned
from toolbus.sync import SyncToolbus

pytestmark = pytest.mark.anyio


def config(*rules: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"servers": {"day": {"server": everyday()}}, "policy": list(rules), **more}


class Registry:
    """Some framework's registry of tools."""

    def __init__(self) -> None:
        self.tools: dict[str, Any] = {}

    def add_tool(self, tool: Any) -> None:
        self.tools[tool.name] = tool

    def remove_tool(self, name: str) -> None:
        del self.tools[name]


async def test_what_a_view_denies_is_gone_there_and_nowhere_else() -> None:
    rule = {"tools": "day/echo", "do": "deny", "reason": "not here"}
    async with Toolbus(config()) as bus:
        view = bus.view(policy=[rule])
        assert "day_echo" not in view.catalog
        assert "day_echo" not in [tool.name for tool in view.tools()]
        assert set(bus.catalog.names) - set(view.catalog.names) == {"day_echo"}
        assert view.catalog["day_add"] is bus.catalog["day_add"]
        assert (await bus.call("day_echo", {"text": "x"})).text == "x"
        for name in ("day_echo", "day/echo"):
            with pytest.raises(CallDenied) as refused:
                await view.call(name, {"text": "x"})
            assert refused.value.reason == "rule view.policy[0] denies it: not here"
            assert str(calls_of(view).missing(name, [])) == str(refused.value)
        result = await next(t for t in bus.tools() if t.name == "day_echo").execute(text="x")
        assert result.text == "x"
        with pytest.raises(CallDenied, match="not here"):
            await calls_of(view).run(bus.catalog["day_echo"], {"text": "x"})
        registry = Registry()
        view.register_into(registry)
        assert set(registry.tools) == set(view.catalog.names)


async def test_nested_views_add_up_and_the_stricter_rule_counts() -> None:
    person = Person(True)
    async with Toolbus(config({"tools": "day/echo", "do": "ask"}), interactions=person.interactions) as bus:
        loose = bus.view(policy=[{"do": "allow"}])
        assert (await loose.call("day_echo", {"text": "x"})).text == "x"
        assert len(person.asked) == 1
        strict = loose.view(policy=[{"tools": "day/add", "do": "ask"}])
        await strict.call("day_add", {"a": 1, "b": 2})
        assert [(one.name, one.rule) for one in person.asked[1:]] == [("day_add", "view.policy[0]")]
        stricter = strict.view(policy=[{"do": "deny", "reason": "nothing"}])
        assert list(stricter.catalog) == []
        with pytest.raises(CallDenied, match="nothing"):
            await stricter.call("day_add", {"a": 1, "b": 2})
        assert len(person.asked) == 2


async def test_one_question_for_two_rules_that_ask() -> None:
    person = Person("session")
    rule = {"tools": "day/echo", "do": "ask"}
    async with Toolbus(config(rule), interactions=person.interactions) as bus:
        view = bus.view(policy=[{"tools": "day/*", "do": "ask"}])
        for text in "ab":
            await view.call("day_echo", {"text": text})
        await bus.call("day_echo", {"text": "c"})
        await view.call("day_add", {"a": 1, "b": 2})
    assert [request.name for request in person.asked] == ["day_echo", "day_add"]


async def test_a_view_decides_about_resources_prompts_and_requests_of_servers(tmp_path: Path) -> None:
    trail = tmp_path / "audit.jsonl"
    servers = {"day": {"server": everyday()}, "ask": {"server": asking()}}
    rules = [
        {"resources": "day/*", "do": "deny"},
        {"prompts": "day/*", "do": "deny"},
        {"requests": "ask/elicitation", "do": "deny"},
    ]
    from toolbus import Interactions

    asked: list[str] = []

    def elicit(question: Any) -> Any:
        asked.append(question.message)
        return question.accept({"date": "2026-12-24"})

    async with Toolbus(
        {"servers": servers, "audit": str(trail), "resource_tools": True},
        interactions=Interactions(elicit=elicit),
    ) as bus:
        view = bus.view(policy=rules)
        assert {item.server for item in view.resources()} == {"ask"}
        assert {item.server for item in view.prompts()} == {"ask"}
        assert {item.server for item in bus.resources()} == {"day", "ask"}
        listed = await view.call("list_resources")
        assert listed.structured["day"] == {"resources": [], "templates": []}
        with pytest.raises(CallDenied, match=r"view\.policy\[0\]"):
            await view.read_resource("day", "memo://greeting")
        with pytest.raises(CallDenied, match=r"view\.policy\[1\]"):
            await view.get_prompt("day", "summarise", {"text": "x"})
        assert (await view.call("ask_book", {"guest": "Ann"})).text == "not booked: decline"
        assert asked == []
        assert (await bus.call("ask_book", {"guest": "Bob"})).text.startswith("Bob: 2026-12-24")
    assert asked == ["When does Bob come?"]
    refused = [one for one in decisions(trail) if one[1] == "deny"]
    assert [rule for _, _, rule, _ in refused] == ["view.policy[0]", "view.policy[1]", "view.policy[2]"]


async def test_the_view_of_a_user_has_rules_too_and_users_do_not_share_answers() -> None:
    person = Person("session")
    async with Toolbus(config(), interactions=person.interactions) as bus:
        ann = bus.as_user("ann").view(policy=[{"tools": "day/echo", "do": "ask"}])
        bob = bus.as_user("bob").view(policy=[{"tools": "day/echo", "do": "ask"}])
        for view in (ann, ann, bob):
            await view.call("day_echo", {"text": "x"})
    assert [request.user for request in person.asked] == ["ann", "bob"]


async def test_the_caller_of_a_view_is_asked_about() -> None:
    person = Person(True)
    async with Toolbus(config({"do": "ask"}), interactions=person.interactions) as bus:
        await bus.view(caller=Caller(face="test", user="eve")).call("day_echo", {"text": "x"})
    assert [request.user for request in person.asked] == ["eve"]


async def test_a_view_follows_the_catalog_with_its_rules() -> None:
    async with Toolbus(config()) as bus:
        view = bus.view(policy=[{"tools": "more/echo", "do": "deny"}])
        events: list[Event] = []
        view.on_event(events.append)
        await bus.add_server("more", {"server": everyday()})
        assert "more_echo" not in view.catalog
        assert "more_add" in view.catalog
    changed = [event for event in events if isinstance(event, CatalogChanged)]
    assert "more_add" in changed[0].added
    assert "more_echo" not in changed[0].added


async def test_an_invalid_rule_of_a_view_is_named() -> None:
    bus = Toolbus(config())
    with pytest.raises(ConfigError, match=r"policy\[0\]"):
        bus.view(policy=[{"tools": "day/echo", "do": "forbid"}])
    with pytest.raises(ConfigError, match="expected a list of rules"):
        bus.view(policy={"do": "deny"})  # pyright: ignore[reportArgumentType]


def test_views_of_the_synchronous_bus_take_rules() -> None:
    with SyncToolbus(config({"tools": "day/add", "do": "allow"})) as bus:
        view = bus.view(policy=[{"tools": "day/echo", "do": "deny"}])
        with pytest.raises(CallDenied):
            view.call("day_echo", {"text": "x"})
        assert bus.call("day_echo", {"text": "x"}).text == "x"
        assert [rule.do for rule in bus.policy.rules] == ["allow"]


async def test_a_rule_of_a_view_that_matches_nothing_is_warned_of_once() -> None:
    events: list[Event] = []
    async with Toolbus(config(), on_event=events.append) as bus:
        for _ in range(2):
            bus.view(policy=[{"tools": "day/ecko", "do": "deny"}])
        bus.view(policy=[{"tools": "day/echo", "do": "deny"}])
    [warned] = [event.message for event in events if isinstance(event, Warned)]
    assert warned.startswith("view.policy[0]: tools: 'day/ecko' matches no tool; did you mean 'day/echo'")
