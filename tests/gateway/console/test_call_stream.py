"""An open page of calls gets the rows that are new, however many calls there are; and large catalogs fit."""

from typing import Any

import mcp_types as types
import pytest
from mcp.server.lowlevel import Server

from tests.budget import measured
from tests.gateway.console.opening import console_over
from tests.gateway.front import Gates, gated
from tests.inside.console import FeedChange, LiveElements, element, feed, live, slow
from tests.patience import until

pytestmark = pytest.mark.anyio

CALLS = 60
PER_ROW = 417
"""500 kB per minute, at 20 calls per second."""


def _list(*keys: str, changed: str = "") -> Any:
    rows = [element("tr", element("td", f"{key}{'!' * (key == changed)}"), id=key) for key in keys]
    return element("div", live("whole", element("table", feed("rows", *rows))))


def test_a_list_sends_new_rows_with_their_place_and_what_went() -> None:
    elements = LiveElements()
    assert [getattr(one, "id", "") for one in elements.changes(_list("b", "a"))] == ["whole"]
    assert elements.changes(_list("b", "a")) == []
    [change] = elements.changes(_list("d", "c", "b"))
    assert isinstance(change, FeedChange)
    added = "".join(f'<tr id="{key}"><td>{key}</td></tr>' for key in "dc")
    assert (change.added, change.changed, change.gone) == ([(added, "b")], [], ["a"])
    [change] = elements.changes(_list("d", "x", "c", "b", "y", changed="b"))
    assert isinstance(change, FeedChange)
    assert [behind for _, behind in change.added] == ["", "c"]
    assert change.changed == ['<tr id="b"><td>b!</td></tr>']


def test_a_slow_element_is_sent_at_most_so_often_and_then_as_it_is() -> None:
    now = [0.0]
    elements = LiveElements(lambda: now[0])

    def is_sent(number: int) -> bool:
        return bool(elements.changes(element("div", slow(10, live("chart", number)))))

    assert [is_sent(number) for number in range(3)] == [True, False, False]
    now[0] = 10.0
    assert [is_sent(number) for number in (2, 2, 3)] == [True, False, False]
    now[0] = 20.0
    assert is_sent(3)


async def test_an_open_page_gets_each_call_once_and_little_more() -> None:
    async with console_over({"servers": {"gated": {"server": gated(Gates())}}}) as opened:
        await opened.enter()
        await opened.page("calls")
        async with opened.stream("calls") as stream:
            await stream.until(lambda markup: "calls-ended" in markup or "<tbody" in markup)
            stream.rows.clear()
            for _ in range(CALLS):
                await opened.bus.call("gated_add", {"a": 1, "b": 2})
            newest = opened.console.calls.ended[0].id
            await stream.until(lambda markup: f'id="c-{newest}"' in markup and "ok</td>" in markup)
        lists = [one for one in stream.rows if one["id"] == "calls-ended"]
    added = "".join(html for one in lists for html, _ in one["added"])
    assert added.count("<tr id=") == CALLS
    assert [one["changed"] for one in lists] == [[]] * len(lists)
    assert len(added.replace('"', "__").encode()) / CALLS < 0.85 * PER_ROW, "as JSON, with room for charts"


async def test_fifty_servers_and_two_thousand_tools_fit_and_no_step_of_the_loop_is_long() -> None:
    def server(alias: int) -> Server[Any]:
        tools = [
            types.Tool(
                name=f"tool_{n}_of_{alias}", description="Does it. " * 9, input_schema={"type": "object"}
            )
            for n in range(40)
        ]

        async def list_tools(ctx: Any, params: Any) -> types.ListToolsResult:
            return types.ListToolsResult(tools=tools)

        async def call(ctx: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
            return types.CallToolResult(
                content=[types.TextContent(text="x" * 5_000)], is_error=alias % 5 == 0
            )

        return Server(f"many-{alias}", on_list_tools=list_tools, on_call_tool=call)

    config = {"servers": {f"server-{n}": {"server": server(n)} for n in range(50)}}
    async with console_over(config) as opened:
        await opened.enter()
        assert len(opened.bus.catalog) == 2_000
        for number in range(1_050):
            await opened.bus.call(f"server-{number % 50}_tool_3_of_{number % 50}", {})
        ended = opened.console.calls.ended
        await until(lambda: not opened.console.calls.in_flight)
        with measured() as steps:
            paths = ("overview", "calls", "calls?outcome=failed&range=24h", f"call?id={ended[0].id}")
            pages = [await opened.page(path) for path in paths]
            exported = await opened.http.get(f"{opened.home}/calls/export?form=csv")
    assert max(len(page.encode()) for page in pages) < 300_000
    assert len(exported.text.splitlines()) == 1_001
    assert pages[1].count('<tr id="c-') == 100
    assert steps.longest < 50, steps.callback
