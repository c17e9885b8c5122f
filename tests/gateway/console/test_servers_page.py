"""The page of the servers: what it shows, and the button that restarts one."""

import sys
import time
from pathlib import Path
from typing import Any

import mcp_types as types
import pytest
from mcp.server.lowlevel import Server

from tests.budget import measured
from tests.gateway.console.opening import Markup, console_over, plain
from tests.gateway.driving import JSON
from tests.inside.console import anchor
from tests.patience import until
from toolbus import ConnectionLost, ServerDown
from toolbus.events import StateChanged

pytestmark = pytest.mark.anyio

PLAIN = str(Path(__file__).parents[2] / "servers" / "plain.py")
PICTURE = "<img src=x onerror=alert(1)>"
HOSTILE = f"</pre><script>alert('1')</script>{PICTURE}\"&\x1b[31m\u202e"
LOUD = """
import os, sys
text = os.environ["TEXT"]
print(f"ValueError: {text}", file=sys.stderr)
sys.exit(3)
"""


def _process(*behaviours: str, **more: object) -> JSON:
    return {"command": sys.executable, "args": [PLAIN, *behaviours], **more}


def _rows(page: str) -> list[str]:
    return [plain(f"<tr{row}") for row in page.split("<tr")[2:]]


async def test_every_server_is_there_with_its_state_and_its_reason_failed_ones_first() -> None:
    gone: JSON = {"command": "no-such-command-at-all"}
    off: JSON = {"command": "off", "enabled": False}
    config: JSON = {"servers": {"files": _process(), "gone": gone, "later": _process(lazy=True), "off": off}}
    async with console_over(config) as opened:
        await opened.enter()
        await opened.bus.call("files_echo", {"text": "hi"})
        page = await opened.page("servers")
    missing, files, later, disabled = _rows(page)
    assert missing.startswith("gone stdio failed ")
    assert "spawn failed: command 'no-such-command-at-all' not found" in missing
    assert files.startswith("files stdio ready ")
    assert later.startswith("later stdio idle ")
    assert disabled.startswith("off disabled")
    assert "1 of 3 servers ready, 1 disabled, 1 tool in the catalog" in plain(page)


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("", ["gone", "files", "later"]),
        ("?sort=name", ["files", "gone", "later"]),
        ("?sort=tools", ["files", "gone", "later"]),
        ("?state=failed", ["gone"]),
        ("?search=LATE", ["later"]),
        ("?transport=sse", []),
        ("?transport=stdio&state=idle", ["later"]),
        ("?sort=nonsense&state=", ["gone", "files", "later"]),
    ],
)
async def test_the_table_is_filtered_and_sorted_by_its_url(query: str, expected: list[str]) -> None:
    gone: JSON = {"command": "no-such-command-at-all"}
    config: JSON = {"servers": {"later": _process(lazy=True), "files": _process(), "gone": gone}}
    async with console_over(config) as opened:
        await opened.enter()
        page = await opened.page(f"servers{query}")
    assert [row.split()[0] for row in _rows(page)] == expected
    assert expected or "No server is like that." in plain(page)


async def test_a_server_that_crashes_again_and_again_is_not_shown_as_ready() -> None:
    config: JSON = {"servers": {"files": _process("die_in_call")}}
    async with console_over(config) as opened:
        await opened.enter()
        for _ in range(3):
            with pytest.raises(ConnectionLost):
                await opened.bus.call("files_echo", {"text": "die"})
            await until(lambda: opened.bus.servers["files"].state == "ready")
        [row] = _rows(await opened.page("servers?state=crash+loop"))
        page = await opened.page("server?name=files")
    assert row.startswith("files stdio crash loop ")
    assert " 3 Restart" in row
    assert "crash loop" in plain(page)
    assert plain(page).count("exit code") == 3


async def test_the_restart_button_starts_a_new_process_and_the_page_shows_it() -> None:
    config: JSON = {"servers": {"files": _process("stderr_flood")}}
    async with console_over(config) as opened:
        await opened.enter()
        async with opened.stream("server?name=files") as stream:
            await stream.until(lambda markup: "restarts 0" in plain(markup))
            done = await opened.post("servers/restart", {"server": "files"})
            assert done.headers["location"] == f"../servers#{anchor('server', 'files')}"
            await stream.until(lambda markup: "restarts 1" in plain(markup) and "ready" in plain(markup))
        # What the earlier process wrote is still there.
        assert plain(await opened.page("server?name=files")).count("the end of the flood") == 2
        assert (await opened.bus.call("files_echo", {"text": "still there"})).text


async def test_restarting_a_server_that_is_down_tries_again() -> None:
    config: JSON = {"servers": {"gone": {"command": "no-such-command-at-all"}}}
    async with console_over(config) as opened:
        with pytest.raises(ServerDown, match="no-such-command-at-all"):
            await opened.bus.restart("gone")


@pytest.mark.parametrize("alias", [HOSTILE, "a b", "ü/#?&", "../x"])
async def test_markup_of_a_server_is_text_in_every_field(alias: str) -> None:
    loud: JSON = {"command": sys.executable, "args": ["-c", LOUD], "env": {"TEXT": HOSTILE}}
    config: JSON = {"servers": {alias: {**loud, "prefix": "x"}}}
    async with console_over(config) as opened:
        await opened.enter()
        table = await opened.page("servers")
        [link] = [
            one["href"] or "" for one in Markup(table).named("a") if (one["href"] or "").startswith("server?")
        ]
        page = await opened.page(link)
        async with opened.stream(link) as stream:
            streamed = await stream.until(lambda markup: "ValueError" in markup)
        restarted = await opened.post("server/restart", {"server": alias})
        said = await opened.page(restarted.headers["location"].removeprefix("../"))
    for markup in (table, page, streamed, said):
        read = Markup(markup)
        assert {tag for tag, _ in read.elements} & {"img"} == set()
        scripts = [one.get("src") for one in read.named("script")]
        assert set(scripts) <= {"../static/console.js", "../static/servers.js"}
        assert not any(key.startswith("on") for _, given in read.elements for key in given)
        assert PICTURE in read.text
        # A form sends back what it was given; everything else is shown, and hides nothing.
        shown = [text or "" for _, given in read.elements for key, text in given.items() if key != "value"]
        assert not any(hidden in text for text in (*shown, read.text) for hidden in "\x1b\u202e")
    assert "Restarting " in said


def _many_tools(number: int) -> Server[Any]:
    tools = [
        types.Tool(name=f"tool_{n}_of_{number}", description="Does it. " * 9, input_schema={"type": "object"})
        for n in range(40)
    ]

    async def list_tools(ctx: Any, params: Any) -> types.ListToolsResult:
        return types.ListToolsResult(tools=tools)

    return Server(f"many-{number}", on_list_tools=list_tools)


async def test_fifty_servers_and_two_thousand_tools_fit_a_page_and_no_step_of_the_loop_is_long() -> None:
    config = {"servers": {f"server-{n}": {"server": _many_tools(n)} for n in range(50)}}
    async with console_over(config) as opened:
        await opened.enter()
        _ = opened.bus.catalog.names  # the bus has listed its servers
        for number in range(50):
            for change in range(200):  # as if all of them were lost and came back all day
                opened.console.states.note(
                    StateChanged(
                        server=f"server-{number}",
                        state="ready" if change % 2 else "retrying",
                        previous="retrying" if change % 2 else "ready",
                        at=time.time() - 86_000 + 430 * change,
                        error=None if change % 2 else "lost",
                    )
                )
        with measured() as steps:
            pages = [await opened.page(path) for path in ("servers", "server?name=server-7")]
            async with opened.stream("servers") as stream:
                await stream.until(lambda markup: "server-49" in markup)
    assert pages[0].count("<tr") == 51
    assert "40 tools" in plain(pages[1])
    assert max(len(page.encode()) for page in pages) < 300_000
    assert steps.longest < 50, steps.callback
