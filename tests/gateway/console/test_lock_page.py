"""The page of the lock, the first lockfile, and the switches that write the config as it was shown."""

import json
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from tests.gateway.console.opening import Opened, console_over, plain
from tests.gateway.console.test_held_page import CHANGED, DRIFTED, FLAGGED, form_of, press
from tests.inside.lock import read_lock
from tests.lock.place import OFFER, READ, STAT, WRITE, Place
from tests.patience import until

pytestmark = pytest.mark.anyio
LITERAL = "sk-live-0123456789abcdef0123"


async def test_each_server_has_its_state_and_the_digest_of_its_entry(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.approve()
    entry = json.loads(place.lock.read_text())["servers"]["files"]
    async with console_over(place.config) as opened:
        await opened.enter()
        page = await opened.page("lock")
        assert "files locked 3 tools, 1 prompt, 1 template, instructions" in plain(page)
        assert entry["digest"] in page
        assert "All changes on hold" in plain(page)
        place.offer(DRIFTED)
        await until(lambda: len(opened.bus.held) == 2)
        page = plain(await opened.page("lock"))
        assert "files on hold 2 changes" in page
        assert "2 changes on hold to review" in page
    place.configure(args=[*place.server()["args"], "--more"])
    async with console_over(place.config) as opened:
        await opened.enter()
        assert "files launch changed 1 change" in plain(await opened.page("lock"))


async def test_the_first_lockfile_leaves_out_what_is_flagged(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.configure()
    place.offer({**OFFER, "tools": [FLAGGED, WRITE, STAT]})
    async with console_over(place.config) as opened:
        await opened.enter()
        await until(lambda: opened.bus.servers["files"].state == "ready")
        assert "Create one on the page Lock." in plain(await opened.page("held"))
        page = await opened.page("lock")
        assert "The config has no toolbus.lock" in plain(page)
        assert "files/read: its text asks to ignore other instructions" in plain(page)
        form = form_of(page, "lock/create")
        said = await press(opened, form, "lock")
        assert "Created " in plain(said)
        assert list(opened.bus.held) == ["files/read"]
        assert "there is a toolbus.lock already" in plain(await press(opened, form, "lock"))
    file = read_lock(place.lock)
    assert file is not None
    assert sorted(file.servers["files"].definitions["tools"]) == ["stat", "write"]


async def test_a_first_lockfile_is_what_was_shown_or_nothing(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.configure()
    async with console_over(place.config) as opened:
        await opened.enter()
        await until(lambda: opened.bus.servers["files"].state == "ready")
        form = form_of(await opened.page("lock"), "lock/create")
        place.offer({**OFFER, "tools": [CHANGED, WRITE, STAT]})
        await until(lambda: opened.bus.catalog["files_read"].description == CHANGED["description"])
        said = await press(opened, form, "lock")
        assert "has changed since it was shown; nothing was approved" in plain(said)
        assert not place.lock.exists()


def _url(**fields: str) -> str:
    return f"switch?{urlencode(fields)}"


async def test_a_tool_is_disabled_as_the_diff_showed_and_leaves_the_inbox(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    place = Place(tmp_path / "place", entry={"env": {"API_KEY": LITERAL}})
    place.approve()
    place.offer(DRIFTED)
    async with console_over(place.config) as opened:
        await opened.enter()
        await until(lambda: len(opened.bus.held) == 2)
        page = await opened.page("held")
        assert 'href="switch?server=files&amp;tool=read&amp;back=held"' in page
        page = await opened.page(_url(server="files", tool="read", back="held"))
        assert "Disable files/read? This changes" in plain(page)
        assert "<ins>+" in page
        assert LITERAL not in page
        form = form_of(page, "switch/write")
        before = place.config.read_text()
        # Somebody else writes the file meanwhile: nothing is lost.
        place.config.write_text(before + "\n")
        said = await press(opened, form, "switch")
        assert "has changed since the change was shown; nothing was written" in plain(said)
        assert place.config.read_text() == before + "\n"
        page = await opened.page(_url(server="files", tool="read", back="held"))
        said = await press(opened, form_of(page, "switch/write"))
        assert "Disabled files/read in" in plain(said)
        assert {one.key for one in opened.console.held.open} == {"files/copy"}
        again = plain(await opened.page(_url(server="files", tool="read")))
        assert "files/read is already disabled." in again
        page = await opened.page(_url(server="files", tool="read", to="on"))
        assert "Enabled files/read" in plain(await press(opened, form_of(page, "switch/write"), "lock"))
    servers = json.loads(place.config.read_text())["servers"]
    assert "exclude" not in servers["files"]


async def test_a_name_with_wildcards_disables_that_tool_alone(tmp_path: Path) -> None:
    odd: dict[str, Any] = {**READ, "name": "re*d[1]"}
    place = Place(tmp_path)
    place.configure()
    place.offer({**OFFER, "tools": [READ, odd]})
    async with console_over(place.config) as opened:
        await opened.enter()
        page = await opened.page(_url(server="files", tool="re*d[1]", back="lock"))
        await press(opened, form_of(page, "switch/write"), "lock")
        assert json.loads(place.config.read_text())["servers"]["files"]["exclude"] == ["re[*]d[[]1]"]


async def test_a_server_is_disabled_and_what_is_wrong_is_explained(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.configure()
    async with console_over(place.config) as opened:
        await opened.enter()
        assert "nobody" in plain(await opened.page(_url(server="nobody")))
        page = await opened.page(_url(server="files", back="https://evil.example/"))
        assert 'href="https://evil' not in page
        await press(opened, form_of(page, "switch/write"), "lock")
        assert json.loads(place.config.read_text())["servers"]["files"]["enabled"] is False
    async with console_over({"servers": {"files": {"command": "nothing"}}}) as opened:
        await opened.enter()
        assert "This bus has no config file." in await _page(opened, server="files")


async def _page(opened: Opened, **fields: str) -> str:
    return plain(await opened.page(_url(**fields)))
