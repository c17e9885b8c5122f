"""The look of a bus, its tools and their results at a prompt and in a notebook."""

import base64
from typing import Any

import pytest

from tests.conftest import plain
from tests.servers.everyday import PNG, everyday
from toolbus import Toolbus, ToolFailed, ToolResult
from toolbus.records import Audio, Embedded, Image, Text
from toolbus.sync import SyncToolbus

pytestmark = pytest.mark.anyio
PICTURE = Image(data=PNG, mime_type="image/png")
CODED = base64.b64encode(PNG).decode()


async def test_a_bus_tells_how_its_servers_are() -> None:
    broken: Any = {"command": "no-such-program", "env": {"API_TOKEN": "s3cret-value"}}
    config = {"servers": {"day": {"server": everyday(), "include": ["add"]}, "p": plain(), "broken": broken}}
    bus = Toolbus(config)
    assert repr(bus) == "<Toolbus 3 servers, not started>"
    async with bus:
        assert repr(bus) == "<Toolbus 3 servers: 2 ready, 1 failed; 2 tools>"
    assert repr(bus) == "<Toolbus 3 servers, closed>"
    async with Toolbus({"servers": {}}) as empty:
        assert repr(empty) == "<Toolbus 0 servers; 0 tools>"


def test_a_sync_bus_and_its_tools_say_what_they_are() -> None:
    server = everyday()

    @server.tool()
    def search(
        query: str, limit: int = 10, tag: str | None = None, order: str = "by date, newest first"
    ) -> str:
        """Search."""
        return query

    with SyncToolbus({"servers": {"day": {"server": server, "include": ["search"]}}}) as bus:
        assert repr(bus) == "<SyncToolbus 1 server: 1 ready; 1 tool>"
        [tool] = bus.tools()
    shown = "day_search(query, limit=10, tag=None, order='by date, newest f...')>"
    assert (repr(tool), repr(tool.tool)) == (f"<SyncTool {shown}", f"<Tool {shown}")


@pytest.mark.parametrize(
    ("result", "shown"),
    [
        (ToolResult(content=(Text(text="kept as note 1"),)), "<ToolResult 'kept as note 1'>"),
        (
            ToolResult(content=(Text(text="no such note"),), is_error=True),
            "<ToolResult 'no such note' error>",
        ),
        (
            ToolResult(content=(Text(text="a \x1b[31mred\x1b[0m\nline " * 9),)),
            f"<ToolResult '{'a red line ' * 5}a...'>",
        ),
        (ToolResult(structured={"n": 7}), '<ToolResult {"n": 7}>'),
        (
            ToolResult(content=(Text(text="two"), PICTURE, PICTURE, Audio(data=b"x", mime_type="audio/wav"))),
            "<ToolResult 'two' [2 images, 1 audio]>",
        ),
        (ToolResult(), "<ToolResult empty>"),
    ],
)
def test_a_result_is_one_short_line(result: ToolResult, shown: str) -> None:
    assert repr(result) == shown


def bundle(result: ToolResult) -> dict[str, str]:
    """As a notebook asks for it."""
    show: Any = result._repr_mimebundle_  # pyright: ignore[reportPrivateUsage]  the protocol's name
    return show(include=None, exclude=None)


def test_a_notebook_shows_a_picture_as_a_picture() -> None:
    assert bundle(ToolResult(content=(PICTURE,))) == {
        "text/plain": "<ToolResult [1 image]>",
        "image/png": CODED,
    }


def test_a_notebook_shows_text_and_all_pictures_and_runs_nothing() -> None:
    second = Embedded(uri="memo://p", data=b"GIF8", mime_type="image/gif")
    active = Image(data=b"<svg/>", mime_type="image/svg+xml")
    both = ToolResult(content=(Text(text="<script>\x1b[8m"), PICTURE, second, active))
    gif = base64.b64encode(b"GIF8").decode()
    assert bundle(both) == {
        "text/plain": "<script>",
        "image/png": CODED,
        "image/gif": gif,
        "text/html": f'<pre>&lt;script&gt;</pre><img src="data:image/png;base64,{CODED}">'
        f'<img src="data:image/gif;base64,{gif}">',
    }
    assert bundle(ToolResult(content=(Text(text="no"),), is_error=True)) == {"text/plain": "[error] no"}


def test_ipython_takes_the_pictures() -> None:
    formatters = pytest.importorskip(
        "IPython.core.formatters", reason="IPython is not installed: pip install ipython"
    )
    data, _ = formatters.DisplayFormatter().format(ToolResult(content=(PICTURE,)))
    assert (data["image/png"], data["text/plain"]) == (CODED, "<ToolResult [1 image]>")


async def test_a_failure_can_be_raised_with_the_tool_and_its_text() -> None:
    async with Toolbus({"servers": {"day": {"server": everyday()}}}) as bus:
        fine = await bus.call("day_add", {"a": 1, "b": 2})
        failed = await bus.call("day_fail", {"reason": "the ink\nis dry"})
        executed = await bus.tools()[0].execute(nope=1)

    assert fine.raise_for_error() is fine
    with pytest.raises(ToolFailed) as caught:
        failed.raise_for_error()
    assert (caught.value.tool, caught.value.text) == ("day_fail", failed.text)
    assert str(caught.value).endswith("the ink is dry")
    assert str(caught.value).startswith("tool 'day_fail' failed: ")
    with pytest.raises(ToolFailed, match=f"tool '{bus.catalog.names[0]}' was not called: MCP error"):
        executed.raise_for_error()
