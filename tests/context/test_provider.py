"""Resources are read before a run and kept until they change; an unreadable one hurts only itself."""

import asyncio
import gc
import logging
import threading
from typing import Any

import pytest

from tests import warm
from tests.conftest import SERVERS
from tests.context.shelf import Shelf
from tests.patience import PATIENCE, until
from toolbus import ConfigError, Toolbus
from toolbus.context import ContextProvider
from toolbus.events import Warned
from toolbus.records import Embedded

pytestmark = pytest.mark.anyio

eras = pytest.mark.parametrize("era", ["modern", "legacy"])
TEA, MILK, NOTE = "memo://tea", "memo://milk", "memo://notes/one"


def shelf(**more: Any) -> Shelf:
    return Shelf({TEA: "Green.", MILK: "None left.", NOTE: "First."}, **more)


def config(server: dict[str, Any], *uris: str, **more: Any) -> dict[str, Any]:
    return {
        "servers": {"shelf": server},
        "context": [{"server": "shelf", "uri": uri} for uri in uris],
        **more,
    }


def framed(uri: str, text: str) -> str:
    return f'<resource server="shelf" uri="{uri}">\n{text}\n</resource>'


def warnings_of(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if "context" in record.getMessage()]


@eras
async def test_what_the_config_names_is_given_in_its_order_and_read_once(era: str) -> None:
    full = shelf()
    async with Toolbus(config(full.config(era), MILK, TEA)) as bus, ContextProvider(bus) as provider:
        assert await provider.blocks() == (
            Embedded(uri=MILK, text="None left."),
            Embedded(uri=TEA, text="Green."),
        )
        text = await provider.text()
        assert text == f"{framed(MILK, 'None left.')}\n\n{framed(TEA, 'Green.')}"
        assert await provider.text() == text
    assert full.reads == {MILK: 1, TEA: 1}


@eras
async def test_only_what_changed_is_read_again(era: str) -> None:
    full = shelf()
    async with Toolbus(config(full.config(era), TEA, MILK)) as bus, ContextProvider(bus) as provider:
        await provider.text()
        await full.change(TEA, "Black.", bus)
        assert await provider.text() == f"{framed(TEA, 'Black.')}\n\n{framed(MILK, 'None left.')}"
        await provider.text()
    assert full.reads == {TEA: 2, MILK: 1}


@eras
async def test_a_change_in_the_middle_of_a_read_is_not_lost(era: str) -> None:
    full = shelf()
    async with Toolbus(config(full.config(era), TEA)) as bus, ContextProvider(bus) as provider:
        await provider.text()
        await full.change(TEA, "Black.", bus)
        full.hold.clear()
        reading = asyncio.create_task(provider.text())
        await until(lambda: full.reads[TEA] >= 2)
        await full.change(TEA, "White.", bus)
        full.hold.set()
        assert await reading == framed(TEA, "Black.")
        assert await provider.text() == framed(TEA, "White.")


@eras
async def test_a_pattern_follows_the_list(era: str) -> None:
    full = shelf()
    first = [framed(MILK, "None left."), framed(NOTE, "First."), framed(TEA, "Green.")]
    async with Toolbus(config(full.config(era), MILK, "memo://*")) as bus, ContextProvider(bus) as provider:
        assert await provider.text() == "\n\n".join(first)
        full.items["memo://notes/two"] = "Second."
        del full.items[TEA]
        await full.relisted(bus, lambda: any(found.uri == "memo://notes/two" for found in bus.resources()))
        then = [*first[:2], framed("memo://notes/two", "Second.")]
        assert await provider.text() == "\n\n".join(then)
        if era == "legacy":
            assert full.subscribed == {MILK, NOTE, "memo://notes/two"}
    assert set(full.reads.values()) == {1}


@eras
async def test_of_a_server_that_does_not_tell_of_changes_all_is_read_for_every_run(era: str) -> None:
    quiet = shelf(tells=False)
    async with Toolbus(config(quiet.config(era), TEA)) as bus, ContextProvider(bus) as provider:
        assert await provider.text() == framed(TEA, "Green.")
        quiet.items[TEA] = "Black."
        assert await provider.text() == framed(TEA, "Black.")


async def test_a_blob_is_a_block_and_a_line_of_the_text() -> None:
    full = Shelf({"memo://picture": b"\x89PNG"})
    async with Toolbus(config(full.config("modern"), "memo://picture")) as bus:
        provider = ContextProvider(bus)
        assert await provider.blocks() == (
            Embedded(uri="memo://picture", data=b"\x89PNG", mime_type="image/png"),
        )
        line = "[resource: memo://picture, image/png, 4 B]"
        assert await provider.text() == framed("memo://picture", line)


async def test_what_cannot_be_read_is_left_out_with_one_warning_each(
    caplog: pytest.LogCaptureFixture,
) -> None:
    full = Shelf({TEA: "Green.", MILK: "x" * 2_000})
    wanted = config(full.config("modern", resource_limit=1_000), "memo://gone", MILK, TEA, "else://*")
    wanted["servers"]["dead"] = {"command": "no-such-program"}
    wanted["context"] += [{"server": "dead", "uri": "a://b"}, {"server": "dead", "uri": "a://*"}]
    heard: list[str] = []
    async with Toolbus(wanted) as bus:
        bus.on_event(lambda event: heard.append(event.message) if isinstance(event, Warned) else None)
        provider = ContextProvider(bus)
        with caplog.at_level(logging.WARNING, "toolbus"):
            assert await provider.text() == framed(TEA, "Green.")
            told = warnings_of(caplog)
            async with asyncio.timeout(PATIENCE):  # nobody waits for the dead one twice
                assert await provider.text() == framed(TEA, "Green.")
    assert warnings_of(caplog) == told
    assert len(heard) == len(told) == 5
    [nothing, gone, large, *dead] = sorted(told, key=lambda line: ("dead" in line, line))
    assert nothing == "server 'shelf': no resource for the context matches 'else://*'"
    assert "resource 'memo://gone' is not in the context: " in gone
    assert f"resource {MILK!r} is not in the context: resource {MILK!r} has 2,000 bytes" in large
    assert ["not connected (failed): spawn failed: " in line for line in dead] == [True, True]


async def test_a_resource_that_hangs_is_left_out_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("toolbus.bus.context.READ_TIMEOUT", 0.2)
    full, slow = shelf(), shelf()
    slow.hold.clear()
    wanted = config(full.config("modern"), TEA)
    wanted["servers"]["slow"] = slow.config("modern")
    wanted["context"] += [{"server": "slow", "uri": TEA}]
    async with Toolbus(wanted) as bus, asyncio.timeout(PATIENCE):
        provider = ContextProvider(bus)
        assert await provider.text() == framed(TEA, "Green.")
        slow.hold.set()
        assert await provider.text() == f"{framed(TEA, 'Green.')}\n\n" + framed(TEA, "Green.").replace(
            "shelf", "slow"
        )


@eras
async def test_what_is_closed_hears_no_more_and_may_begin_anew(era: str) -> None:
    full = shelf()
    async with Toolbus(config(full.config(era), TEA)) as bus:
        provider = ContextProvider(bus)
        await provider.text()
        await provider.close()
        await provider.close()
        assert full.subscribed == set()
        full.items[TEA] = "Black."
        assert await provider.text() == framed(TEA, "Black.")
    await provider.close()


async def test_a_provider_that_is_dropped_leaves_nothing_on_the_bus() -> None:
    async with Toolbus(config(shelf().config("modern"), TEA)) as bus:
        provider = ContextProvider(bus)
        await provider.text()
        del provider
        gc.collect()
        assert bus._hub._callbacks == []  # pyright: ignore[reportPrivateUsage]  # what leaks


@eras
async def test_a_server_that_was_away_is_asked_again(era: str) -> None:
    program = [str(SERVERS / "asking.py"), "stdio"]
    asking = {"command": warm.python(), "args": program, "era": era, "timeouts": {"call": 8}}
    wanted = {"servers": {"asking": asking}, "context": [{"server": "asking", "uri": "board://now"}]}
    async with Toolbus(wanted) as bus, ContextProvider(bus) as provider, asyncio.timeout(PATIENCE):
        await bus.call("asking_write", {"text": "Buy tea."})
        assert "Buy tea." in await provider.text()
        with pytest.raises(Exception, match="the connection was lost"):
            await bus.call("asking_leave")
        while "empty" not in await provider.text():  # a new process, a new board; each look lets others run
            pass


@pytest.mark.parametrize("uri", ["memo://notes/*", NOTE])
async def test_a_lazy_server_is_connected(uri: str) -> None:
    full = shelf()
    wanted = config(full.config("modern", lazy=True), uri)
    async with Toolbus(wanted) as bus:
        assert bus.servers["shelf"].state == "idle"
        provider = ContextProvider(bus)
        assert await provider.text() == framed(NOTE, "First.")
        assert await provider.text() == framed(NOTE, "First.")
    assert full.reads == {NOTE: 1}


@eras
async def test_a_server_whose_resource_is_watched_does_not_fall_asleep(era: str) -> None:
    full, quiet = shelf(), shelf()
    wanted = config(full.config(era, idle_timeout=0.01), TEA)
    wanted["servers"]["quiet"] = quiet.config(era, idle_timeout=0.3)
    async with Toolbus(wanted) as bus, asyncio.timeout(PATIENCE):
        provider = ContextProvider(bus)
        await provider.text()
        events = bus.events()
        while bus.servers["quiet"].state != "idle":
            await anext(events)
        assert bus.servers["shelf"].state == "ready"
        await full.change(TEA, "Black.", bus)
        assert await provider.text() == framed(TEA, "Black.")


async def test_the_config_may_change() -> None:
    one, other = shelf(), Shelf({TEA: "Mint."})
    async with Toolbus(config(one.config("modern"), TEA)) as bus:
        provider = ContextProvider(bus)
        assert await provider.text() == framed(TEA, "Green.")
        await bus.reload(config(other.config("modern"), TEA))
        assert await provider.text() == framed(TEA, "Mint.")
        await other.change(TEA, "Sage.", bus)
        assert await provider.text() == framed(TEA, "Sage.")
        await bus.reload(config(other.config("modern")))
        assert await provider.text() == ""


async def test_sources_and_budget_of_ones_own_stand_for_those_of_the_config() -> None:
    async with Toolbus(config(shelf().config("modern"), TEA)) as bus:
        own = ContextProvider(bus, sources=[{"server": "shelf", "uri": MILK}], budget=200)
        assert await own.text() == framed(MILK, "None left.")
        for wrong, key in [
            ({"sources": [{"server": "shelf"}]}, "context[0].uri"),
            ({"sources": ["memo://tea"]}, "context[0]"),
            ({"budget": 20}, "context_budget"),
        ]:
            with pytest.raises(ConfigError) as caught:
                ContextProvider(bus, **wrong)  # type: ignore[arg-type]
            assert caught.value.key == key
        unknown = ContextProvider(bus, sources=[{"server": "shell", "uri": TEA}])
        assert await unknown.text() == ""


async def test_it_may_be_used_from_another_thread() -> None:
    full = shelf()
    async with Toolbus(config(full.config("modern"), TEA)) as bus:
        provider = ContextProvider(bus)
        texts: list[str] = []
        thread = threading.Thread(target=lambda: texts.append(asyncio.run(provider.text())))
        thread.start()
        await asyncio.to_thread(thread.join, PATIENCE)
        assert texts == [framed(TEA, "Green.")]
        assert await provider.text() == texts[0]
    assert full.reads == {TEA: 1}


async def test_a_bus_that_does_not_run_gives_nothing() -> None:
    bus = Toolbus(config(shelf().config("modern"), TEA))
    assert await ContextProvider(bus).text() == ""
