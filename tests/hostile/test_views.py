"""Attempts of a key's holder to learn of parts outside its view, while others use other views."""

from collections.abc import Callable, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp.server.mcpserver import MCPServer

from tests import warm
from tests.gateway.driving import LegacyClient, ModernClient, gateway_over
from tests.gateway.front import front
from tests.inside.bus import Scope
from tests.inside.config import PolicyRule, setting
from tests.inside.core import Catalog, Origin, ToolSpec
from tests.inside.gateway import AccessControl, Keys, Principal, ProtocolError, file_keys
from tests.inside.policy import Layer
from tests.lock.place import OFFER, READ, Place
from tests.patience import until
from tests.properties import modest
from toolbus import CallDenied, Toolbus, ToolbusError, ToolNotFound

pytestmark = pytest.mark.anyio

SERVERS = ("a", "b", "c")
TOOLS = ("drop", "get", "put")
NAMES = [f"{server}_{tool}" for server in SERVERS for tool in TOOLS]
PATTERNS = st.lists(
    st.sampled_from([*NAMES, "*", "a_*", "*_get", "b/*", "*/put", "c/drop", "*_d*", "nothing"]), max_size=3
)
VIEWS: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {},
    optional={
        "servers": st.lists(st.sampled_from(SERVERS), unique=True),
        "include": PATTERNS.filter(bool),
        "exclude": PATTERNS,
        "deny": st.sampled_from(["a/*", "*/get", "b/put"]),
    },
)


def neighbors(view: dict[str, Any], other: dict[str, Any]) -> list[dict[str, Any]]:
    """A view, and views that differ from it in one setting."""
    return [view, *({**view, key: value} for key, value in other.items()), other]


def shows(view: dict[str, Any], name: str) -> bool:
    """Whether a view shows a tool, by the words of its settings alone."""
    server, _, tool = name.partition("_")

    def matches(patterns: Sequence[str]) -> bool:
        return any(fnmatchcase(name, one) or fnmatchcase(f"{server}/{tool}", one) for one in patterns)

    return (
        server in view.get("servers", SERVERS)
        and matches(view.get("include", ["*"]))
        and not matches(view.get("exclude", ()))
        and not ("deny" in view and fnmatchcase(f"{server}/{tool}", view["deny"]))
    )


def scope_of(view: dict[str, Any]) -> Scope:
    rules = [PolicyRule(tools=(view["deny"],), do="deny")] if "deny" in view else None
    return Scope().narrowed(
        frozenset(view["servers"]) if "servers" in view else None,
        view.get("include"),
        None,
        None if rules is None else Layer(rules, "view."),
        view.get("exclude"),
    )


def spec_of(name: str) -> ToolSpec:
    server, _, tool = name.partition("_")
    return ToolSpec(name=name, origin=Origin(server, tool))


@modest
@given(st.sets(st.sampled_from(NAMES)), st.builds(neighbors, VIEWS, VIEWS))
def test_views_over_one_catalog(names: set[str], views: list[dict[str, Any]]) -> None:
    """Each view shows exactly what it shows alone, in any order of requests for views."""
    whole = Catalog(map(spec_of, sorted(names)))
    for view in (*views, *views):
        assert list(scope_of(view).catalog(whole).names) == [
            name for name in sorted(names) if shows(view, name)
        ]


def offering(*names: str, resources: Sequence[str] = ()) -> MCPServer:
    """A server with these tools, each of which returns its name, and these resources."""
    server: MCPServer = MCPServer("offering")

    def returning(name: str) -> Callable[[], str]:
        return lambda: name

    for name in names:
        server.add_tool(returning(name), name=name)
    for uri in resources:
        server.resource(uri, name=uri)(lambda: "content")
    return server


SEVERAL: dict[str, dict[str, Any]] = {
    "all": {},
    "no-gets": {"exclude": ["*_get"]},
    "no-drops": {"exclude": ["*/drop"]},
    "of-a": {"servers": ["a"]},
    "of-a-no-put": {"servers": ["a"], "exclude": ["a_put"]},
    "puts": {"include": ["*_put"]},
    "puts-not-b": {"include": ["*_put"], "exclude": ["b/*"]},
    "denied": {"deny": "*/drop"},
    "denied-no-gets": {"deny": "*/drop", "exclude": ["*_get"]},
}


def written(view: dict[str, Any]) -> dict[str, Any]:
    """The view as in a config."""
    rest = {key: value for key, value in view.items() if key != "deny"}
    return rest if "deny" not in view else {**rest, "policy": [{"tools": view["deny"], "do": "deny"}]}


@pytest.mark.parametrize("expose", ["all", "search"])
async def test_keys_whose_views_differ_in_one_setting(
    expose: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Over HTTP, each key lists and calls exactly the tools of its own view."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    stored = file_keys(tmp_path / "toolbus.yaml")
    keys = {view: stored.add(view, views=(view,))[0] for view in SEVERAL}
    servers = {alias: {"server": offering(*TOOLS)} for alias in SERVERS}
    views = {name: {**written(view), "expose": expose} for name, view in SEVERAL.items()}
    serve = setting("serve", {"views": views, "default_view": "all", "auth": {"keys": True}})
    access = AccessControl(serve, keys=Keys(stored, "all"))
    async with front(access=access, config={"servers": servers}, serve=serve) as served:
        for view in (*SEVERAL, *reversed(SEVERAL)):
            key = {"authorization": f"Bearer {keys[view]}"}
            shown = [name for name in NAMES if shows(SEVERAL[view], name)]
            if expose == "all":
                listed = (await served.modern("tools/list", headers=key)).json()["result"]["tools"]
                assert [tool["name"] for tool in listed] == shown, view
            for name in (*NAMES, *(name.replace("_", "/") for name in NAMES)):
                sent: dict[str, Any] = {"name": name, "arguments": {}}
                if expose == "search":
                    sent = {"name": "call_tool", "arguments": sent}
                answer = (await served.modern("tools/call", sent, headers=key)).json()
                text = (
                    answer["result"]["content"][0]["text"]
                    if "result" in answer
                    else answer["error"]["message"]
                )
                if name.replace("/", "_") in shown:
                    assert text == name[2:], (view, name, answer)
                else:
                    assert "no tool named" in text, (view, name, answer)


async def test_two_views_of_one_bus_side_by_side() -> None:
    """In the library, a view finds, shows and calls its own tools only, in whichever order views are used."""
    config = {"servers": {alias: {"server": offering(*TOOLS)} for alias in SERVERS}}
    async with Toolbus(config) as bus:
        views = {name: bus.view(**written(view)) for name, view in SEVERAL.items()}
        for name, view in (*views.items(), *reversed(views.items())):
            shown = [tool for tool in NAMES if shows(SEVERAL[name], tool)]
            assert list(view.catalog.names) == shown
            assert [tool.name for tool in view.tools()] == shown
            assert {hit.name for hit in view.search(["get put drop"], limit=50)} <= set(shown)
            for tool in set(NAMES) - set(shown):
                is_denied = shows({**SEVERAL[name], "deny": "nothing"}, tool)
                with pytest.raises(CallDenied if is_denied else ToolNotFound):
                    await view.call(tool)


async def test_a_held_tool_that_a_view_leaves_out(tmp_path: Path) -> None:
    """It is unknown there, and not reported as held."""
    place = Place(tmp_path, settings={"lock": "block"})
    place.approve()
    place.offer({**OFFER, "tools": [{**READ, "description": "Another one."}]})
    async with Toolbus(place.config) as bus:
        await bus.wait_ready()
        await until(lambda: "files/read" in bus.held)
        without = bus.view(exclude=["files/*"])
        assert [held for held in without.held.values() if held.kind == "tool"] == []
        for name in ("files_read", "files/read"):
            with pytest.raises(ToolNotFound):
                await without.call(name)
            with pytest.raises(CallDenied):
                await bus.call(name)


@pytest.mark.parametrize("era", ["modern", "legacy"])
async def test_a_uri_that_a_hidden_server_has_as_well(era: str) -> None:
    """A view shows it as its own server does: nothing tells that another server has it."""
    servers = {alias: {"server": offering(resources=["memo://one"])} for alias in ("a", "b")}
    serve = setting("serve", {"views": {"all": {}, "of-a": {"servers": ["a"]}}, "default_view": "all"})
    async with gateway_over({"servers": servers}, serve=serve) as gateway:
        shown: dict[str, list[str]] = {}
        for view in ("of-a", "all", "of-a"):
            principal = Principal(name=f"key of {view}", view=view)
            client = (
                ModernClient(gateway, principal=principal)
                if era == "modern"
                else await LegacyClient.opened(gateway, principal=principal)
            )
            listed = (await client.request("resources/list"))["resources"]
            shown[view] = [one["uri"] for one in listed]
            for uri in shown[view]:
                assert (await client.request("resources/read", {"uri": uri}))["contents"]
        assert shown == {"of-a": ["memo://one"], "all": ["a+memo://one", "b+memo://one"]}
        guest = ModernClient(gateway, principal=Principal(name="key of of-a", view="of-a"))
        with pytest.raises(ProtocolError, match="Resource not found"):
            await guest.request("resources/read", {"uri": "b+memo://one"})


async def test_unknown_names_while_a_server_cannot_start(tmp_path: Path) -> None:
    """A failed server is not started for every call of a name that it may have."""
    starts = tmp_path / "starts"
    code = f"open({str(starts)!r}, 'a').write('x'); raise SystemExit(1)"
    config = {"servers": {"bad": {"command": warm.python(), "args": ["-c", code]}}}
    async with Toolbus(config) as bus:
        before = starts.read_text()
        for number in range(20):
            with pytest.raises(ToolbusError):
                await bus.call(f"bad_{number}")
        assert starts.read_text() == before
