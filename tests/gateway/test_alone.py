"""One server below the endpoint, under its own tool names, for clients whose view has it."""

from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.gateway.driving import Era, LegacyClient, ModernClient, gateway_over, text_of
from tests.gateway.front import front
from tests.gateway.serving import gateway
from tests.inside.config import Serve, setting
from tests.inside.gateway import LOCAL, AccessControl, Principal, ProtocolError, RequestFacts
from tests.inside.gateway import Gateway as GatewayCore
from tests.servers.asking import asking
from tests.servers.everyday import everyday
from toolbus import connect_mcp

pytestmark = pytest.mark.anyio
ERAS: list[Era] = ["modern", "legacy"]
ALONE = Principal(name="local", server="day")


def config(**more: Any) -> dict[str, Any]:
    return {"servers": {"day": {"server": everyday()}, "ask": {"server": asking()}}, **more}


def serve(**views: Any) -> Serve:
    return setting("serve", {"views": {"default": {}, **views}})


async def client(era: Era, core: GatewayCore, principal: Principal = ALONE) -> Any:
    if era == "modern":
        return ModernClient(core, principal=principal)
    return await LegacyClient.opened(core, principal=principal)


@pytest.mark.parametrize("era", ERAS)
async def test_a_server_alone_has_its_own_names(era: Era) -> None:
    async with gateway_over(config(), serve=serve()) as core:
        own = await client(era, core)
        names = [tool["name"] for tool in (await own.request("tools/list"))["tools"]]
        assert "add" in names
        assert not [name for name in names if name.startswith(("day_", "ask"))]
        added = await own.request("tools/call", {"name": "add", "arguments": {"a": 1, "b": 2}})
        assert added["structuredContent"] == {"result": 3}
        assert [one["name"] for one in (await own.request("prompts/list"))["prompts"]] == ["summarise"]
        filled = await own.request("prompts/get", {"name": "summarise", "arguments": {"text": "x"}})
        assert filled["messages"][0]["content"]["text"] == "Summarise: x"
        uris = [one["uri"] for one in (await own.request("resources/list"))["resources"]]
        assert uris == ["memo://greeting"]
        read = await own.request("resources/read", {"uri": "memo://greeting"})
        assert read["contents"][0]["text"] == "hello"
        ref = {"type": "ref/prompt", "name": "summarise"}
        done = await own.request(
            "completion/complete", {"ref": ref, "argument": {"name": "text", "value": ""}}
        )
        assert done["completion"]["values"] == []


@pytest.mark.parametrize("era", ERAS)
async def test_nothing_else_can_be_reached_through_it(era: Era) -> None:
    async with gateway_over(config(resource_tools=True, expose="search"), serve=serve()) as core:
        own = await client(era, core)
        names = {tool["name"] for tool in (await own.request("tools/list"))["tools"]}
        assert not names & {"search_tools", "call_tool", "list_resources", "read_resource"}
        for name in ("ask_tell", "ask/tell", "tell", "search_tools", "call_tool", "day_add", "day/add"):
            with pytest.raises(ProtocolError) as failed:
                await own.request("tools/call", {"name": name, "arguments": {"text": "x"}})
            assert failed.value.code == -32602, name
        for uri in ("board://now", "ask+board://now"):
            with pytest.raises(ProtocolError):
                await own.request("resources/read", {"uri": uri})


@pytest.mark.parametrize("era", ERAS)
async def test_errors_have_the_names_of_the_server(era: Era) -> None:
    rules = [
        {"tools": "day/echo", "do": "deny"},
        {"tools": "day/add", "arguments": {"properties": {"a": {"const": 13}}}, "do": "deny"},
    ]
    async with gateway_over(config(policy=rules), serve=serve()) as core:
        own = await client(era, core)
        with pytest.raises(ProtocolError) as failed:
            await own.request("tools/call", {"name": "ad", "arguments": {}})
        assert "did you mean 'add'" in str(failed.value)
        assert "day" not in str(failed.value)
        wrong = await own.request("tools/call", {"name": "add", "arguments": {"a": "x"}})
        assert "wrong arguments for 'add'" in text_of(wrong)
        denied = await own.request("tools/call", {"name": "echo", "arguments": {"text": "x"}})
        assert denied["isError"]
        assert "'echo'" in text_of(denied)
        assert "day_" not in text_of(denied)
        refused = await own.request("tools/call", {"name": "add", "arguments": {"a": 13, "b": 1}})
        assert "'add'" in text_of(refused)
        assert "day_add" not in text_of(refused)


@pytest.mark.parametrize("era", ERAS)
async def test_the_patterns_and_rules_of_the_view_hold(era: Era) -> None:
    views = serve(
        some={"include": ["day_add", "day/echo", "ask/*"], "exclude": ["day/echo"]},
        ruled={"servers": ["day"], "policy": [{"tools": "day/echo", "do": "deny"}]},
        other={"servers": ["ask"]},
    )
    async with gateway_over(config(), serve=views) as core:
        some = await client(era, core, Principal(name="a", view="some", server="day"))
        [only] = (await some.request("tools/list"))["tools"]
        assert only["name"] == "add"
        ruled = await client(era, core, Principal(name="b", view="ruled", server="day"))
        assert "echo" not in {tool["name"] for tool in (await ruled.request("tools/list"))["tools"]}
        for one in (some, ruled):
            with pytest.raises(ProtocolError):
                await one.request("tools/call", {"name": "echo", "arguments": {"text": "x"}})
        # A view that does not have the server any more.
        other = await client(era, core, Principal(name="c", view="other", server="day"))
        assert (await other.request("tools/list"))["tools"] == []


async def test_a_name_that_an_override_gives_is_not_the_servers_own() -> None:
    entry = {"server": everyday(), "override": {"add": {"name": "plus", "description": "Adds."}}}
    async with gateway_over({"servers": {"day": entry}}, serve=serve()) as core:
        own = await client("modern", core)
        tools = {tool["name"]: tool for tool in (await own.request("tools/list"))["tools"]}
        assert "plus" not in tools
        assert tools["add"]["description"] == "Adds."
        added = await own.request("tools/call", {"name": "add", "arguments": {"a": 1, "b": 2}})
        assert added["structuredContent"] == {"result": 3}


async def test_a_change_reaches_who_has_the_server_alone_and_nobody_else() -> None:
    async with gateway_over(config(), serve=serve()) as core:
        day = await client("legacy", core)
        ask = await client("legacy", core, Principal(name="local", server="ask"))
        for one in (day, ask):
            await one.request("tools/list")
        await day.request("tools/call", {"name": "grow", "arguments": {"name": "fresh"}})
        await day.standalone.wait_for("notifications/tools/list_changed")
        assert "fresh" in {tool["name"] for tool in (await day.request("tools/list"))["tools"]}
        assert not ask.standalone.of("notifications/tools/list_changed")


# Who is let in


def facts(path: str, **headers: str) -> RequestFacts:
    return RequestFacts(
        method="POST", path=path, address="127.0.0.1", headers={"host": "localhost", **headers}
    )


async def test_a_path_names_a_view_first_and_then_a_server() -> None:
    settings = serve(day={"servers": ["ask"]}, wide={"servers": ["ask"]})
    access = AccessControl(settings, servers=("day", "ask"))
    admitted = await access.admit(facts("/mcp/day"))
    assert isinstance(admitted, Principal)
    assert admitted.place == ("day", "")
    assert await access.admit(facts("/mcp/ask")) == Principal(name="local", view="default", server="ask")
    narrow = setting(
        "serve", {"views": {"a": {"servers": ["x"]}, "b": {"servers": ["ask"]}}, "default_view": "a"}
    )
    access.use(AccessControl(narrow, servers=("day", "ask")))
    assert await access.admit(facts("/mcp/ask")) == Principal(name="local", view="b", server="ask")
    for path in ("/mcp/day", "/mcp/gone", "/mcp/ask/", "/mcp/ask/more"):
        refused = await access.admit(facts(path))
        assert getattr(refused, "status", None) == 404, path


async def test_a_session_of_one_server_is_none_of_another() -> None:
    access = AccessControl(serve(), servers=("day", "ask"))
    async with front(access=access, config=config(), serve=serve()) as server:
        server.url = f"{server.url}/day"
        session = await server.opened()
        added = await session.call("add", a=1, b=2)
        assert '"structuredContent":{"result":3}' in added.text, "as JSON, or as an event of a slow call"
        for path in ("/mcp/ask", "/mcp"):
            server.url = f"http://127.0.0.1:{server.port}{path}"
            assert (await session.call("add", a=1, b=2)).status_code == 404


async def test_the_gateway_as_a_process_serves_a_server_alone(tmp_path: Path) -> None:
    text = """
        servers:
          notes: {command: python, args: [-m, toolbus.demo.notes]}
          files: {command: python, args: [-m, toolbus.demo.files, .]}
    """
    file = tmp_path / "toolbus.yaml"
    file.write_text(text)
    with gateway(file) as url:
        async with await connect_mcp(f"{url}/notes") as notes:
            names = {tool.name for tool in await notes.list_tools()}
            assert {"add", "search"} <= names
            assert not [name for name in names if name.startswith(("notes_", "files_"))]
            await notes.call_tool("add", {"text": "tea"})
            assert "tea" in (await notes.call_tool("search", {"words": "tea"})).text
        async with httpx2.AsyncClient() as http:
            assert (await http.post(f"{url}/gone", json={})).status_code == 404


def test_a_local_client_has_no_server_of_its_own() -> None:
    assert LOCAL.place == ("default", "")
