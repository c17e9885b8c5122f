"""Hooks of a config work in every face: commands, the background bus, the gateway and its workers."""

import json
import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests import warm
from tests.background.holding import background, called
from tests.cli.running import environment, scripted, toolbus
from tests.cli.test_cli_serve import client
from tests.gateway.serving import URL, end, wait_until
from tests.patience import until
from tests.stations.places import modules
from toolbus import Toolbus, connect_mcp

pytestmark = pytest.mark.anyio
STAMP = '''
import dataclasses, os

from toolbus.records import Text


class Stamp:
    def __init__(self, mark):
        self._mark = mark

    async def __call__(self, call, following):
        result = await following(call)
        mark = Text(text=f"{self._mark} {os.getpid()}")
        return dataclasses.replace(result, content=(mark,))

    async def aclose(self):
        with open("closed", "a") as file:
            print(f"closed {self._mark}", file=file)


class Most:
    """Counts in its process."""

    def __init__(self, calls):
        self._left = calls

    async def __call__(self, operation):
        self._left -= 1
        if self._left < 0:
            raise RuntimeError
'''


@pytest.fixture(scope="module", autouse=True)
def _warm() -> None:  # pyright: ignore[reportUnusedFunction]  # pytest uses it
    """Commands are forked from one process, which is there before the first of them."""
    warm.folder()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a home of its own."""
    made = tmp_path / "home" / "work"
    made.mkdir(parents=True)
    modules(made, stamp=STAMP)
    return made


def written(folder: Path, *hooks: Any) -> Path:
    """The config of these hooks; it is named, so it needs no trust."""
    shop = scripted(folder, "shop", tools=[{"name": "buy"}])
    file = folder / "toolbus.yaml"
    fresh = file.with_suffix(".new")
    fresh.write_text(json.dumps({"servers": {"shop": shop}, "hooks": list(hooks)}))
    os.replace(fresh, file)
    return file


def stamp(mark: str) -> dict[str, str]:
    return {"use": "stamp:Stamp", "mark": mark}


def test_a_command_and_an_editor_get_what_the_hook_made(folder: Path) -> None:
    file = str(written(folder, stamp("one")))
    assert toolbus("--config", file, "call", "shop_buy", folder=folder).stdout.startswith("one ")
    with client(folder, "--config", file) as editor:
        [first] = editor.ask("tools/call", name="shop_buy", arguments={})["content"]
        assert editor.left()[0] == 0
    assert first["text"].startswith("one ")
    assert (folder / "closed").read_text().splitlines() == ["closed one"] * 2


def test_commands_share_the_stations_of_the_background_bus(folder: Path) -> None:
    """They count in one process, follow the config, and are closed with it."""
    file = written(folder, stamp("one"), {"use": "stamp:Most", "calls": 2})
    words = ("--config", str(file))
    with background(folder, *words) as held:
        pids = {called(folder, *words, "shop_buy") for _ in range(2)}
        assert pids == {f"one {held.process.pid}"}
        refused = toolbus("call", *words, "shop_buy", folder=folder)
        assert refused.returncode == 1
        assert "the guard 'stamp:Most' raised RuntimeError" in refused.stderr
        written(folder, stamp("two"))
        held.until("reloaded")
        assert called(folder, *words, "shop_buy") == f"two {held.process.pid}"
        written(folder, {"use": "stamp:Nothing"})
        held.until("not reloaded: ")
        assert called(folder, *words, "shop_buy") == f"two {held.process.pid}"
        modules(folder, stamp=STAMP.replace('f"{self._mark} ', 'f"edited {self._mark} '))
        written(folder, stamp("three"))
        held.until("reloaded\n")
        assert called(folder, *words, "shop_buy") == f"edited three {held.process.pid}"
    assert "closed one" in (folder / "closed").read_text()


@contextmanager
def gateway(folder: Path, file: Path) -> Generator[tuple[str, Path]]:
    """A gateway with two workers: its URL and its log."""
    log = folder / "log"
    options = ["serve", "--http", ":0", "--config", str(file), "--workers", "2"]
    process = warm.start("toolbus", options, folder, environment(folder.parent), log)
    try:
        wait_until(lambda: URL.search(log.read_text()) is not None, process, "toolbus serve", log)
        found = URL.search(log.read_text())
        assert found is not None
        yield found[0], log
    finally:
        end(process)


async def stamps(url: str) -> dict[str, set[str]]:
    """The marks that several clients get, by the process that made them."""
    found: dict[str, set[str]] = {}
    for _ in range(12):
        gate = await connect_mcp(url)
        result = await gate.call_tool("shop_buy", {})
        await gate.close()
        mark, _, pid = str(result.text).rpartition(" ")
        found.setdefault(pid, set()).add(mark)
    return found


@pytest.mark.skipif(not hasattr(os, "fork"), reason="workers are forks")
async def test_each_worker_of_a_gateway_has_its_own_and_follows_the_config(folder: Path) -> None:
    file = written(folder, stamp("one"))
    with gateway(folder, file) as (url, log):
        before = await stamps(url)
        assert set().union(*before.values()) == {"one"}
        written(folder, stamp("two"))
        await until(lambda: log.read_text().count("reloaded") >= len(before))
        await until(lambda: (folder / "closed").exists())
        after = await stamps(url)
    assert set().union(*after.values()) == {"two"}
    assert str(os.getpid()) not in after


async def test_the_library_and_a_view_pass_the_same_stations(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    async with Toolbus(written(folder, stamp("one"))) as bus:
        mine = f"one {os.getpid()}"
        assert (await bus.call("shop/buy", {})).text == mine
        assert (await bus.view(servers=["shop"]).call("shop_buy", {})).text == mine
        assert (await bus.as_user("ann").call("shop_buy", {})).text == mine
        assert await bus.tools()[0].execute() is not None
