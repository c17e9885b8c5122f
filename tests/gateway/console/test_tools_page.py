"""The page of the tools: the list, one tool, its form, and the outcome of a call."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlencode

import mcp_types as types
import pytest
from mcp.server.lowlevel import Server

from tests.budget import measured
from tests.gateway.console.opening import Markup, Opened, console_over, plain
from tests.gateway.console.showing import HOSTILE, KINDS, PICTURE, Showing
from tests.inside.console import MOST_TRIALS, anchor, trials
from tests.inside.shape import definition_tokens
from tests.patience import PATIENCE
from toolbus import Operation

pytestmark = pytest.mark.anyio


@asynccontextmanager
async def _opened(**options: Any) -> AsyncGenerator[tuple[Opened, Showing]]:
    showing = Showing()
    config: dict[str, Any] = {"servers": {"shows": {"server": showing.server}}}
    async with console_over(config, **options) as opened:
        await opened.enter()
        yield opened, showing


def _key(name: str) -> str:
    return anchor("field", name)


async def _called(opened: Opened, tool: str, form: dict[str, Any]) -> str:
    """Send the form of a tool, and return the page that it leads to."""
    answered = await opened.post("tools/call", {"name": tool, **form})
    assert answered.status_code == 303, answered.text
    return answered.headers["location"].removeprefix("../").removesuffix("#trial")


async def _result(opened: Opened, page: str) -> str:
    """The part of a tool's page with the result, once it is shown."""
    async with opened.stream(page) as stream:
        return await stream.until(lambda part: 'id="trial"' in part and "running" not in part)


def _is_harmless(markup: str) -> bool:
    read = Markup(markup)
    scripts = [one.get("src") for one in read.named("script")]
    images = [one.get("src") or "" for one in read.named("img")]
    assert scripts in ([], ["../static/console.js", "../static/apps.js", "../static/tools.js"])
    assert all(source.startswith("data:image/png;base64,") for source in images)
    assert not any(key.startswith("on") for _, given in read.elements for key in given)
    return True


async def test_all_tools_are_there_with_their_costs_and_a_search_finds_some() -> None:
    async with _opened() as (opened, _):
        everything = plain(await opened.page("tools"))
        costs = {spec.name: max(definition_tokens(spec).values()) for spec in opened.bus.catalog}
        found = await opened.page("tools?search=KINDS+arguments")
        nothing = plain(await opened.page("tools?search=no-such-word"))
        by_tokens = [one["href"] for one in Markup(await opened.page("tools?sort=tokens")).named("a")]
    assert f"3 tools, about {sum(costs.values()):,} tokens" in everything
    assert f"kinds {costs['shows_kinds']:,}" in everything
    assert "1 of 3 tools" in plain(found)
    assert "shows_slow" not in found
    links = [one["href"] for one in Markup(found).named("a")]
    assert "tools?tool=shows_kinds&search=KINDS+arguments" in links, "the list stays as it is"
    assert "No tool has these words." in nothing
    ordered = sorted(costs, key=lambda name: -costs[name])
    assert [link for link in by_tokens if link and "tool=" in link] == [
        f"tools?tool={name}&sort=tokens" for name in ordered
    ]


async def test_two_thousand_tools_fit_a_page_and_no_step_of_the_loop_is_long() -> None:
    """On the first visit, which counts tokens, and on those to each side of it."""

    def server(alias: int) -> Server[Any]:
        fields = {f"field_{n}": {"type": "string", "description": f"Field {n}."} for n in range(8)}
        schema = {"type": "object", "properties": fields}
        tools = [
            types.Tool(name=f"tool_{n}_of_{alias}", description="Does it. " * 9, input_schema=schema)
            for n in range(40)
        ]

        async def list_tools(ctx: Any, params: Any) -> types.ListToolsResult:
            return types.ListToolsResult(tools=tools)

        return Server(f"many-{alias}", on_list_tools=list_tools)

    config = {"servers": {f"server-{n}": {"server": server(n)} for n in range(50)}}
    async with console_over(config) as opened:
        await opened.enter()
        _ = opened.bus.catalog.names  # the bus has listed its servers
        with measured() as steps:
            first = await opened.page("tools")
            async with opened.stream("tools") as stream:
                counted = await stream.until(lambda part: 'id="list"' in part and "about" in plain(part))
            one = await opened.page("tools?tool=server-7_tool_3_of_7&server=server-7")
            found = await opened.page("tools?search=tool_39&sort=tokens&only=list")
    assert "2,000 tools" in plain(first)
    assert "2,000 tools, about" in plain(counted)
    assert "Show all 40 of server-9" in plain(first)
    assert "tool_39_of_7" in plain(one)
    assert "50 of 2,000 tools" in plain(found)
    assert max(len(page.encode()) for page in (first, one, found)) < 300_000
    assert steps.longest < 50, steps.callback


async def test_a_form_has_a_field_for_every_argument() -> None:
    async with _opened() as (opened, _):
        page = Markup(await opened.page("tools?tool=shows_kinds"))
    fields = {one["name"]: one for tag in ("input", "select", "textarea") for one in page.named(tag)}
    labels = {one["for"] for one in page.named("label")}
    marks = {f"{_key('tags')}-as"}
    names = {*marks, *map(_key, KINDS["properties"])} - {_key("tags")}
    assert set(fields) - {"search", "sort", "tool", "back"} == {"name", *names}
    assert all(one["id"] in labels for one in fields.values() if one.get("type") != "hidden")
    assert fields[_key("count")]["value"] == "3"
    assert fields[_key("count")]["max"] == "9"
    assert [key for key, one in fields.items() if "required" in one] == [_key("size"), _key("text")]
    assert [one["value"] for one in page.named("option") if "selected" in one] == ["name", "true"]
    assert "size (required)" in " ".join(page.text.split())


async def test_what_is_typed_is_sent_and_the_result_is_shown() -> None:
    calls: list[Operation] = []

    async def watch(operation: Operation) -> None:
        calls.append(operation)

    async with _opened(guards=[watch]) as (opened, _):
        form = {"text": "x\r\ny", "count": "4", "ratio": "0.5", "loud": "false", "size": "3", "maybe": ""}
        form |= {"tags": '["a"]', "more": '{"b": null}'}
        page = await _called(opened, "shows_kinds", {_key(name): value for name, value in form.items()})
        result = await _result(opened, page)
        again = Markup(await opened.page(page))
    expected = {"text": "x\ny", "count": 4, "ratio": 0.5, "loud": False, "size": 3}
    expected |= {"tags": ["a"], "more": {"b": None}}
    (made,) = calls
    assert dict(made.arguments) == expected
    assert made.caller.face == "console"
    assert made.caller.session.startswith("console-")
    assert f"got {expected!r}" in plain(result)
    assert "done" in plain(result)
    # The form keeps what was typed, to be changed and sent again.
    assert [one["value"] for one in again.named("input") if one["name"] == _key("count")] == ["4"]


async def test_an_invalid_form_keeps_what_was_typed() -> None:
    async with _opened() as (opened, _):
        page = await _called(opened, "shows_kinds", {_key("size"): "3", _key("tags"): "a, <b>"})
        shown = await opened.page(page)
    [area] = [one for one in Markup(shown).named("textarea") if one["name"] == _key("tags")]
    assert area["aria-invalid"] == "true"
    assert (
        area["aria-describedby"] in [one.get("id") for one in Markup(shown).named("p")] or "autofocus" in area
    )
    assert "'tags' is not JSON" in plain(shown)
    assert "not ready" in plain(shown)
    assert "a, <b>" in Markup(shown).text


async def test_progress_is_live_and_a_call_can_be_canceled() -> None:
    async with _opened() as (opened, showing):
        page = await _called(opened, "shows_slow", {})
        async with opened.stream(page) as stream:
            running = await stream.until(lambda part: "1 of 4" in plain(part))
            assert f"1 of 4: at {HOSTILE}" in Markup(running).text
            assert _is_harmless(running)
            (number,) = [one["value"] for one in Markup(running).named("input") if one["name"] == "trial"]
            assert (await opened.post("tools/cancel", {"trial": number})).status_code == 303
            await stream.until(lambda part: 'id="trial"' in part and "canceled" in plain(part))
        async with asyncio.timeout(PATIENCE):
            await showing.was_canceled.wait()
        assert (await opened.post("tools/cancel", {"trial": number})).status_code == 303
        assert "That call has ended." in plain(await opened.page(page))


async def test_markup_of_a_tool_is_text_in_every_field() -> None:
    async with _opened() as (opened, _):
        page = await _called(opened, "shows_markup", {_key(HOSTILE): HOSTILE, "rest": '{"<i>": "<b>"}'})
        result = await _result(opened, page)
        tool = await opened.page(page)
        catalog = await opened.page("tools?" + urlencode({"search": PICTURE}))
        unknown = await opened.page("tools?" + urlencode({"tool": HOSTILE}))
    assert all(map(_is_harmless, (result, tool, catalog, unknown)))
    assert len(Markup(result).named("img")) == 1, "the PNG, and neither the SVG nor the sound"
    # The text, the name of the link, the resource and its text, the type of the sound, the JSON.
    assert Markup(result).text.count(PICTURE) >= 7
    assert "a picture, image/svg+xml" in plain(result)
    # Name, title and description of the argument, its default, the choice, and the description of the tool.
    assert Markup(tool).text.count(PICTURE) >= 12
    assert PICTURE in Markup(unknown).text


async def test_the_last_calls_are_kept_and_no_more() -> None:
    async with _opened() as (opened, showing):
        page = [await _called(opened, "shows_slow", {}) for _ in range(MOST_TRIALS)][-1]
        assert await _called(opened, "shows_slow", {}) == "tools?tool=shows_slow"
        assert "20 calls of the console are running; cancel one first" in plain(await opened.page(page))
        showing.go_on.set()
        await _result(opened, page)
        async with opened.stream(page) as stream:
            await stream.until(lambda part: 'id="trials"' in part and "running" not in part)
        await _called(opened, "shows_slow", {})
        assert len(opened.console.trials.of("shows_slow")) == MOST_TRIALS
        assert opened.console.trials.get(1) is None


async def test_large_results_are_kept_within_a_bound_the_newest_always(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(trials, "MOST_BYTES", 4000)
    async with _opened() as (opened, _):
        for _ in range(4):
            form = {_key("text"): "x" * 1000, _key("size"): "3"}
            await _result(opened, await _called(opened, "shows_kinds", form))
        known = opened.console.trials.of("shows_kinds")
        # What was typed, the arguments and the result: about 3,000 bytes each.
        assert [one.number for one in known] == [4]
        assert 3000 < known[0].size < 4000
        form = {_key("text"): "x" * 9000, _key("size"): "3"}
        await _result(opened, await _called(opened, "shows_kinds", form))
        assert [one.number for one in opened.console.trials.of("shows_kinds")] == [5]


async def test_the_arguments_of_an_earlier_call_are_filled_in_again() -> None:
    async with _opened() as (opened, _):
        for count in ("4", "5"):
            form = {
                _key("text"): "x",
                _key("size"): "3",
                _key("count"): count,
                f"{_key('tags')}-as": "absent",
            }
            await _result(opened, await _called(opened, "shows_kinds", form))
        earlier = opened.console.calls.ended[-1].id
        page = Markup(await opened.page(f"tools?tool=shows_kinds&again={earlier}"))
        unknown = Markup(await opened.page("tools?tool=shows_kinds&again=nobody"))
    assert [one["value"] for one in page.named("input") if one["name"] == _key("count")] == ["4"]
    assert [one["value"] for one in unknown.named("input") if one["name"] == _key("count")] == ["3"]
