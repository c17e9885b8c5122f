"""The page of the calls: active and ended calls, charts, and servers' content as text only."""

import asyncio
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from mcp.server.mcpserver import MCPServer

from tests.gateway.console.opening import Markup, Opened, console_over, plain
from tests.gateway.driving import JSON, LegacyClient, ModernClient
from tests.gateway.front import Gates, gated
from tests.inside.console import Console, anchor
from tests.inside.core import Caller
from tests.inside.gateway import Gateway, Principal
from tests.patience import until
from toolbus import ToolbusError

pytestmark = pytest.mark.anyio

PLAIN = str(Path(__file__).parents[2] / "servers" / "plain.py")
PICTURE = "<img src=x onerror=alert(1)>"
HOSTILE = f"</td><script>alert('1')</script>{PICTURE}\"&\x1b[31m\u202e"


def _failing() -> MCPServer:
    server: MCPServer = MCPServer("failing")

    @server.tool()
    def fail() -> str:  # pyright: ignore[reportUnusedFunction]
        raise ValueError(HOSTILE)

    return server


def _rows(page: str) -> list[str]:
    return [plain(row.partition(">")[2].split("</tr>")[0]) for row in page.split('<tr id="c-')[1:]]


def _check_markup(markup: str) -> Markup:
    read = Markup(markup)
    assert "img" not in {tag for tag, _ in read.elements}
    assert [one.get("src") for one in read.named("script")] in ([], ["../static/console.js"])
    assert not any(key.startswith("on") for _, given in read.elements for key in given)
    shown = [text or "" for _, given in read.elements for key, text in given.items() if key != "value"]
    assert not any(hidden in text for text in (*shown, read.text) for hidden in "\x1b\u202e")
    return read


async def _call(opened: Opened, name: str, **arguments: Any) -> None:
    with suppress(ToolbusError):
        await opened.bus.call(name, arguments)


async def test_calls_in_flight_come_first_and_then_those_that_ended() -> None:
    gates = Gates()
    async with console_over({"servers": {"gated": {"server": gated(gates)}}}) as opened:
        await opened.enter()
        assert "No call has ended yet." in plain(await opened.page("calls"))
        await _call(opened, "gated_add", a=1, b=2)
        waiting = asyncio.create_task(opened.bus.call("gated_wait"))
        await gates.entered.wait()
        page = await opened.page("calls")
        running, ended = _rows(page)
        assert page.index("In flight: ") < page.index("The last calls")
        assert running.startswith("gated_wait gated program ")
        assert running.endswith("running")
        assert ended.startswith("gated_add gated program ")
        assert ended.endswith("s ok")
        async with opened.stream("calls") as stream:
            await stream.until(lambda markup: "gated_wait" in plain(markup))
            gates.opened.set()
            await waiting
            await stream.until(lambda markup: markup.count("<tr id=") == 1 and "gated_wait" in markup)
            assert stream.rows[-1]["id"] == "calls-ended"


async def test_a_filter_shows_one_server_or_errors_only() -> None:
    config: JSON = {"servers": {"gated": {"server": gated(Gates())}, "bad": {"server": _failing()}}}
    async with console_over(config) as opened:
        await opened.enter()
        await _call(opened, "gated_add", a=1, b=2)
        await _call(opened, "gated_add", a="one")
        await _call(opened, "bad_fail")
        await _call(opened, "nowhere")
        every, one, errors, both = [
            [row.split(" ")[0] for row in _rows(await opened.page(f"calls{query}"))]
            for query in ("", "?server=gated", "?errors=yes", "?server=gated&errors=yes")
        ]
        page = Markup(await opened.page("calls?server=gated&errors=yes"))
    assert every == ["nowhere", "bad_fail", "gated_add", "gated_add"]
    assert one == ["gated_add", "gated_add"]
    assert errors == ["nowhere", "bad_fail", "gated_add"]
    assert both == ["gated_add"]
    chosen = [given["value"] for given in page.named("option") if "selected" in given]
    assert chosen == ["gated", "failed"]


async def test_the_charts_have_a_text_and_no_script() -> None:
    async with console_over({"servers": {"gated": {"server": gated(Gates())}}}) as opened:
        await opened.enter()
        await _call(opened, "gated_add", a=1, b=2)
        await _call(opened, "nowhere")
        page = await opened.page("calls")
    drawn = page.split("<svg")[1:]
    assert len(drawn) == 3
    titles = [plain(f"<svg{one}".split("</title>")[0]) for one in drawn]
    assert titles[0] == "Calls per second: 2 calls in the last minute, 2 in 15 min"
    assert titles[1] == "Errors: 1 error in the last minute, 1 in 15 min: 50.0% of all"
    assert titles[2].startswith("Time of servers: in the last minute, half took up to ")
    assert all("<script" not in one.split("</svg>")[0] for one in drawn)


async def test_calls_of_mcp_clients_are_there_with_their_callers() -> None:
    async with console_over({"servers": {"gated": {"server": gated(Gates())}}}) as opened:
        await opened.enter()
        async with Gateway(opened.bus) as gateway:
            ann = Principal(kind="key", name="ann")
            modern = ModernClient(gateway, principal=ann)
            await modern.request("tools/call", {"name": "gated_add", "arguments": {"a": 1, "b": 2}})
            legacy = await LegacyClient.opened(gateway)
            await legacy.request("tools/call", {"name": "gated_add", "arguments": {"a": 1, "b": 2}})
            rows = _rows(await opened.page("calls"))
            session = legacy.session.id
    assert rows[1].startswith("gated_add gated key:ann, via gateway")
    assert rows[0].startswith(f"gated_add gated via gateway, session {session[:8]} ")
    assert session not in " ".join(rows)


async def test_two_browsers_are_two_callers() -> None:
    async with console_over({"servers": {"gated": {"server": gated(Gates())}}}) as opened:
        for number in range(1, 3):
            await opened.enter()
            form = {"name": "gated_add", anchor("field", "a"): 1, anchor("field", "b"): 2}
            await opened.post("tools/call", form)
            await until(lambda number=number: len(opened.console.calls.ended) == number)
        rows = _rows(await opened.page("calls"))
        sessions = [record.caller.session for record in opened.console.calls.ended]
    shown = [row.split("session ")[1].split()[0] for row in rows]
    assert len(set(shown)) == len(set(sessions)) == 2
    for label, session in zip(shown, sessions, strict=True):
        assert session.startswith(label)
        assert session != label


async def test_calls_of_users_and_sessions_are_there() -> None:
    async with console_over({"servers": {"gated": {"server": gated(Gates())}}}) as opened:
        await opened.bus.as_user("before").call("gated_add", {"a": 1, "b": 2})
        await opened.bus.as_user("ann", session="s1").call("gated_add", {"a": 1, "b": 2})
        await opened.enter()
        rows = _rows(await opened.page("calls"))
    assert [row.split(" 20")[0] for row in rows] == [
        "gated_add gated ann, session s1",
        "gated_add gated before",
    ]


async def test_a_console_follows_users_and_sessions_that_were_there_before_it_until_it_is_closed() -> None:
    async with console_over({"servers": {"gated": {"server": gated(Gates())}}}) as opened:
        callers = [opened.bus, opened.bus.as_user("ann"), opened.bus.as_user("ann", session="s1")]
        another = Console(opened.bus)
        for caller in callers:
            await caller.call("gated_add", {"a": 1, "b": 2})
        await another.close()
        for caller in callers:
            await caller.call("gated_add", {"a": 1, "b": 2})
        assert len(another.calls.ended) == 3
        assert len(opened.console.calls.ended) == 6


async def test_markup_of_names_errors_and_callers_is_text() -> None:
    refusing: JSON = {"command": sys.executable, "args": [PLAIN, "refuse_loudly"]}
    alias = f"a{PICTURE}\x1b\u202e"
    servers: JSON = {alias: {**refusing, "prefix": "x"}, "bad": {"server": _failing()}}
    async with console_over({"servers": servers}) as opened:
        await opened.enter()
        strange = opened.bus.view(caller=Caller(face=HOSTILE, user=HOSTILE, session=PICTURE))
        for name in ("x_echo", "bad_fail", HOSTILE):
            with suppress(ToolbusError):
                await strange.call(name, {})
        page = await opened.page("calls")
        async with opened.stream("calls") as stream:
            streamed = await stream.until(lambda markup: markup.count("<tr id=") == 3)
    for markup in (page, streamed):
        read = _check_markup(markup)
        # The name of the unknown tool and its error, the callers of three calls, and the alias.
        assert read.text.count(PICTURE) >= 9
        assert "no such \\x1b[31mthing" in read.text or "no such thing" in read.text
