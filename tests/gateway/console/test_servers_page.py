"""The page of the servers: what it shows, and the button that restarts one."""

import sys
from pathlib import Path

import pytest

from tests.gateway.console.opening import Markup, console_over, plain
from tests.gateway.driving import JSON
from tests.inside.console import anchor
from toolbus import ServerDown

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


def _cards(page: str) -> list[str]:
    return [plain(f"<article{card}") for card in page.split("<article")[1:]]


async def test_every_server_is_there_with_its_state_and_its_reason() -> None:
    gone: JSON = {"command": "no-such-command-at-all"}
    config: JSON = {"servers": {"files": _process(), "gone": gone, "later": _process(lazy=True)}}
    async with console_over(config) as opened:
        await opened.enter()
        page = await opened.page("servers")
    files, missing, later = _cards(page)
    assert files.startswith("files ready since ")
    assert "era legacy (2025-06-18) transport stdio tools 1 restarts 0" in files
    assert missing.startswith("gone failed spawn failed: command 'no-such-command-at-all' not found")
    assert later.startswith("later idle since ")
    assert "1 of 3 servers ready, 1 tool in the catalog" in plain(page)
    assert plain(page).startswith("Servers - toolbus Skip to the content toolbus Servers")


async def test_the_restart_button_starts_a_new_process_and_the_page_shows_it() -> None:
    config: JSON = {"servers": {"files": _process("stderr_flood")}}
    async with console_over(config) as opened:
        await opened.enter()
        async with opened.stream("servers") as stream:
            await stream.until(lambda markup: "restarts 0" in plain(markup))
            done = await opened.post("servers/restart", {"server": "files"})
            assert done.headers["location"] == f"../servers#{anchor('server', 'files')}"
            await stream.until(lambda markup: "restarts 1" in plain(markup) and "ready" in plain(markup))
        # What the earlier process wrote is still there.
        assert plain(await opened.page("servers")).count("the end of the flood") == 2
        assert (await opened.bus.call("files_echo", {"text": "still there"})).text


async def test_restarting_a_server_that_is_down_tries_again() -> None:
    config: JSON = {"servers": {"gone": {"command": "no-such-command-at-all"}}}
    async with console_over(config) as opened:
        with pytest.raises(ServerDown, match="no-such-command-at-all"):
            await opened.bus.restart("gone")


@pytest.mark.parametrize("alias", [HOSTILE, "a b", "ü/#?&"])
async def test_markup_of_a_server_is_text_in_every_field(alias: str) -> None:
    loud: JSON = {"command": sys.executable, "args": ["-c", LOUD], "env": {"TEXT": HOSTILE}}
    config: JSON = {"servers": {alias: {**loud, "prefix": "x"}}}
    async with console_over(config) as opened:
        await opened.enter()
        page = await opened.page("servers")
        async with opened.stream("servers") as stream:
            streamed = await stream.until(lambda markup: "<article" in markup)
        form = Markup(page).named("input")
        restarted = await opened.post("servers/restart", {one["name"] or "": one["value"] for one in form})
        said = await opened.page("servers")
    assert restarted.headers["location"] == f"../servers#{anchor('server', alias)}"
    for markup in (page, streamed, said):
        read = Markup(markup)
        assert {tag for tag, _ in read.elements} & {"img", "b"} == set()
        assert [one.get("src") for one in read.named("script")] in ([], ["../static/console.js"])
        assert not any(key.startswith("on") for _, given in read.elements for key in given)
        # The reason, and the last lines on stderr.
        assert read.text.count(PICTURE) >= 2
        # A form sends back what it was given; everything else is shown, and hides nothing.
        shown = [text or "" for _, given in read.elements for key, text in given.items() if key != "value"]
        assert not any(hidden in text for text in (*shown, read.text) for hidden in "\x1b\u202e")
    assert "Restarting " in said
