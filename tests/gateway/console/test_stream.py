"""The event stream of a page: what changes, how often, for how many, and for how long."""

import asyncio
import json
import re
import socket
from dataclasses import dataclass

import pytest

from tests.gateway.console.opening import console_over, plain
from tests.gateway.driving import JSON
from tests.gateway.front import Gates, gated
from tests.inside.console import BY_PATH, Console, Element, Page, PageRequest, anchor, element, live
from tests.inside.console import app as streams
from tests.patience import PATIENCE, until

pytestmark = pytest.mark.anyio


def _config() -> JSON:
    return {"servers": {"files": {"server": gated(Gates())}}}


@dataclass
class Probe:
    """A page that shows a number, with as much around it as wanted."""

    shown: int = 0
    size: int = 0
    renderings: int = 0

    async def render(self, console: Console, request: PageRequest) -> Element:
        self.renderings += 1
        return element("div", live("number", f"<{self.shown}>", "x" * self.size))


@pytest.fixture
def probe(monkeypatch: pytest.MonkeyPatch) -> Probe:
    """The probe, as the page `probe`."""
    made = Probe()
    page = Page(path="probe", title="Probe", render=made.render, topics={"calls"})
    monkeypatch.setitem(BY_PATH, "probe", page)  # pyright: ignore[reportArgumentType]  it is a dict
    return made


async def test_a_page_is_told_what_changed_and_nothing_else() -> None:
    async with console_over(_config()) as opened:
        await opened.enter()
        async with opened.stream("servers") as stream:
            # First everything: the page may be older than the stream.
            names = [await stream.next() for _ in range(3)]
            assert names == ["navigation", "servers-summary", "servers"]
            stream.parts.clear()
            await opened.bus.restart("files")
            await stream.until(lambda markup: "<tr" in markup and "ready" in plain(markup))
            assert set(stream.parts) <= {anchor("server", "files"), "servers-summary"}
            await opened.bus.add_server("more", {"server": gated(Gates())})
            await stream.until(lambda markup: markup.count("<tr") == 3)
            await opened.bus.remove_server("more")
            await stream.until(lambda markup: markup.count("<tr") == 2)


async def test_changes_in_quick_succession_are_sent_together(probe: Probe) -> None:
    async with console_over(_config()) as opened:
        await opened.enter()
        async with opened.stream("probe") as stream:
            await stream.until(lambda markup: "&lt;0&gt;" in markup)
            for _ in range(1000):
                probe.shown += 1
                opened.console.changed("calls")
            await stream.until(lambda markup: "&lt;1000&gt;" in markup)
    assert probe.renderings <= 3


async def test_what_does_not_concern_a_page_does_not_have_it_rendered(probe: Probe) -> None:
    async with console_over(_config()) as opened:
        await opened.enter()
        async with opened.stream("probe") as stream:
            await stream.until(lambda markup: "&lt;0&gt;" in markup)
            before = probe.renderings
            opened.console.changed("keys")
            probe.shown = 1
            opened.console.changed("calls")
            await stream.until(lambda markup: "&lt;1&gt;" in markup)
    assert probe.renderings == before + 1


async def test_a_slow_reader_skips_to_the_latest_state_and_nothing_piles_up(
    probe: Probe, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streams, "PAUSE", 0.0)
    probe.size = 2_000_000
    changes = 300
    async with console_over(_config()) as opened:
        await opened.enter()
        [cookie] = [f"{one.name}={one.value}" for one in opened.http.cookies.jar]
        with socket.create_connection(("127.0.0.1", opened.port)) as slow:
            slow.setblocking(False)
            path = f"{opened.home.removeprefix(opened.origin)}/events/probe"
            head = f"GET {path} HTTP/1.1\r\nhost: 127.0.0.1:{opened.port}\r\n"
            slow.sendall(f"{head}cookie: {cookie}\r\n\r\n".encode())
            for _ in range(changes):
                probe.shown += 1
                opened.console.changed("calls")
                await asyncio.sleep(0.005)
            waited_for = probe.renderings
            numbers = await _numbers(slow, last=changes)
    assert waited_for < changes / 4
    assert numbers == sorted(numbers)
    assert numbers[-1] == changes


async def _numbers(slow: socket.socket, last: int) -> list[int]:
    """The numbers that a reader gets, until the last one."""
    loop, received = asyncio.get_running_loop(), bytearray()
    async with asyncio.timeout(PATIENCE):
        while b"&lt;%d&gt;" % last not in received[-3_000_000:]:
            received += await loop.sock_recv(slow, 1 << 22)
    return [int(number) for number in re.findall(rb"&lt;(\d+)&gt;", received)]


async def test_there_are_only_so_many_streams() -> None:
    async with console_over(_config()) as opened:
        await opened.enter()
        open_streams = opened.app._streams._open  # pyright: ignore[reportPrivateUsage]
        reading = [
            asyncio.create_task(opened.http.get(f"{opened.home}/events/servers"))
            for _ in range(streams.MOST_STREAMS)
        ]
        await until(lambda: len(open_streams) == streams.MOST_STREAMS)
        refused = await opened.http.get(f"{opened.home}/events/servers")
        assert (refused.status_code, refused.headers["retry-after"]) == (503, "5")
        for task in reading:
            task.cancel()
        await asyncio.gather(*reading, return_exceptions=True)
        await until(lambda: not open_streams)


async def test_streams_end_when_the_process_drains() -> None:
    async with console_over(_config()) as opened:
        await opened.enter()
        async with opened.stream("servers") as stream:
            assert await stream.next()
            opened.app.drain()
            while await stream.next() is not None:
                pass
        assert (await opened.http.get(f"{opened.home}/events/servers")).status_code == 503
        assert "1 of 1 server ready" in plain(await opened.page("servers"))


async def test_a_fragment_is_one_line_whatever_is_in_it(probe: Probe) -> None:
    """A line feed in a server's text must not end an event, or begin another one."""

    async def render(console: Console, request: PageRequest) -> Element:
        return element("div", live("text", "a\n\ndata: b\r\n\r\nevent: c\u2028"))

    async with console_over(_config()) as opened:
        await opened.enter()
        object.__setattr__(BY_PATH["probe"], "render", render)
        async with opened.http.stream("GET", f"{opened.home}/events/probe") as response:
            received = ""
            async for chunk in response.aiter_text():
                received += chunk
                if '"text"' in received:
                    break
    events = [line for line in re.split(r"[\r\n]", received) if line.startswith("data: ")]
    assert json.loads(events[-1].removeprefix("data: "))["id"] == "text"
