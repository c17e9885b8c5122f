"""A gateway answers from known lists before its servers have started, and reports the difference once."""

import asyncio
import json
import re
import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from tests import warm
from tests.cli.running import TOOLBUS, environment, write_config
from tests.gateway.driving import FORWARDS, LegacyClient, ModernClient, text_of
from tests.gateway.test_stdio import ENVELOPE, HELLO
from tests.inside.bus import tenant_of
from tests.inside.cli import last_inventories, save_listings
from tests.inside.config import Serve
from tests.inside.core import Inventory
from tests.inside.gateway import LOCAL, Gateway, GatewayLimits, ProtocolError, Views
from tests.patience import PATIENCE, until
from toolbus import Toolbus
from toolbus.config import usable_config
from toolbus.sync import SyncToolbus

pytestmark = pytest.mark.anyio
SERVERS = Path(__file__).parents[1] / "servers"
FIRST = {
    "legacy": {"id": 1, "method": "initialize", "params": HELLO},
    "modern": {"id": 1, "method": "server/discover", "params": {"_meta": ENVELOPE}},
}
HEAVY = re.compile(r"(mcp|mcp_types|httpx\w*|starlette|uvicorn|httptools)\b")
NEVER = {"command": sys.executable, "args": [str(SERVERS / "plain.py"), "never_answer"]}


def listing(era: str) -> dict[str, Any]:
    return {"id": 2, "method": "tools/list", "params": {} if era == "legacy" else {"_meta": ENVELOPE}}


def lines(*messages: dict[str, Any]) -> bytes:
    return b"".join(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n" for message in messages)


@pytest.mark.parametrize("era", ["legacy", "modern"])
def test_the_first_answer_waits_for_no_server_and_no_import_of_the_sdk(era: str, tmp_path: Path) -> None:
    """In a cold process; both streams are one, so that the log of imports precedes the answer."""
    config = write_config(tmp_path, {"never": NEVER}, serve={"list_within": 0.5})
    process = subprocess.Popen(
        [sys.executable, "-X", "importtime", TOOLBUS, "serve", "--stdio", "--config", str(config)],
        env=environment(tmp_path.parent),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    before: set[str] = set()
    answers: list[dict[str, Any]] = []
    with process:
        process.stdin.write(lines(FIRST[era], listing(era)))  # before it can read
        process.stdin.flush()
        for line in process.stdout:
            if line.startswith(b"{"):
                answers.append(json.loads(line))
            elif not answers and line.startswith(b"import time:"):
                before.add(line.decode().rsplit("|", 1)[1].strip())
            if len(answers) == 2:  # although the server never gets ready
                break
        process.stdin.close()
        process.stdout.read()
        assert process.wait(PATIENCE) == 0
    assert [answer["id"] for answer in answers] == [1, 2], answers
    assert answers[1]["result"]["tools"] == []
    assert "toolbus.gateway.stdio" in before
    assert {name for name in before if HEAVY.match(name)} == set()


@dataclass
class Stock:
    """Servers that wait for a test, each behind a gate of its own."""

    folder: Path
    count: int = 3

    @property
    def config(self) -> dict[str, Any]:
        servers = {f"s{number}": self._entry(number) for number in range(self.count)}
        return {"servers": servers}

    def _entry(self, number: int) -> dict[str, Any]:
        env = {"GATE": str(self.gate(number)), "OFFER": str(self.folder / f"offer{number}")}
        return {"command": warm.python(), "args": [str(SERVERS / "gated.py")], "env": env, "era": "legacy"}

    def gate(self, number: int) -> Path:
        return self.folder / f"gate{number}"

    def open(self) -> None:
        for number in range(self.count):
            self.gate(number).touch()

    def close(self) -> None:
        for number in range(self.count):
            self.gate(number).unlink(missing_ok=True)

    def offer(self, *tools: str, **more: Any) -> None:
        """Set the tools that all servers offer after their next start."""
        for number in range(self.count):
            offered = [{"name": tool, "inputSchema": {"type": "object"}, **more} for tool in tools]
            (self.folder / f"offer{number}").write_text(json.dumps(offered))

    @property
    def called(self) -> list[str]:
        files = [self.folder / f"offer{number}.calls" for number in range(self.count)]
        return [line for file in files if file.exists() for line in file.read_text().split()]

    async def listed(self, **settings: Any) -> dict[str, Inventory]:
        """The inventories of the servers, from an earlier process."""
        self.open()
        async with Toolbus({**self.config, **settings}) as bus:
            await bus.wait_ready()
            found = bus.inventories
        self.close()
        return found


@asynccontextmanager
async def starting(
    stock: Stock, known: dict[str, Inventory], serve: Serve | None = None, **settings: Any
) -> AsyncGenerator[Gateway]:
    """A gateway whose servers wait, with their earlier inventories."""
    bus = Toolbus({**stock.config, **settings}, interactions=FORWARDS)
    tenant_of(bus).assume(known)
    view_of = None if serve is None else Views(bus, serve).view_of
    async with Gateway(
        bus, GatewayLimits(list_within=PATIENCE, first_within=0.3), view_of=view_of
    ) as gateway:
        try:
            yield gateway
        finally:
            stock.open()
            await bus.stop()


def names(listed: dict[str, Any], key: str = "tools") -> list[str]:
    return sorted(one["name"] for one in listed[key])


CHANGES = [f"notifications/{kind}/list_changed" for kind in ("prompts", "resources", "tools")]


async def followed(gateway: Gateway, era: str) -> tuple[LegacyClient | ModernClient, Any]:
    """A client that follows the lists, and where it hears of them."""
    if era == "legacy":
        legacy = await LegacyClient.opened(gateway)
        return legacy, legacy.standalone
    modern = ModernClient(gateway)
    wanted = {"toolsListChanged": True, "promptsListChanged": True, "resourcesListChanged": True}
    stream = asyncio.create_task(modern.once("subscriptions/listen", {"notifications": wanted}))
    await modern.heard.wait_for("notifications/subscriptions/acknowledged")
    stream.add_done_callback(lambda task: task.cancelled() or task.exception())
    return modern, modern.heard


def changes(heard: Any) -> list[str]:
    return sorted(one["method"] for one in heard.messages if one["method"] in CHANGES)


@pytest.mark.parametrize("era", ["legacy", "modern"])
async def test_nine_servers_that_changed_are_one_notice_for_each_kind_of_list(
    era: str, tmp_path: Path
) -> None:
    stock = Stock(tmp_path, count=9)
    stock.offer("old")
    known = await stock.listed()
    stock.offer("new")
    async with starting(stock, known) as gateway:
        client, heard = await followed(gateway, era)
        for method, key in {"tools/list": "tools", "prompts/list": "prompts"}.items():
            assert names(await client.request(method), key) == [f"s{n}_old" for n in range(9)]
        assert names(await client.request("resources/list"), "resources") == ["old"] * 9
        for number in range(9):  # one after the other
            stock.gate(number).touch()
            await until(lambda number=number: gateway.bus.servers[f"s{number}"].state == "ready")
        await gateway.started()
        for method in CHANGES:
            await heard.wait_for(method)
        assert names(await client.request("tools/list")) == [f"s{n}_new" for n in range(9)]
        await asyncio.sleep(0.2)  # others would come now
        assert changes(heard) == CHANGES


@pytest.mark.parametrize("era", ["legacy", "modern"])
async def test_servers_that_offer_the_same_as_before_are_no_notice(era: str, tmp_path: Path) -> None:
    stock = Stock(tmp_path)
    stock.offer("one", description="The same.", annotations={"readOnlyHint": True}, _meta={"x": 1})
    known = await stock.listed()
    async with starting(stock, known) as gateway:
        client, heard = await followed(gateway, era)
        before = await client.request("tools/list")
        assert gateway.bus.servers["s0"].state in ("idle", "connecting")
        stock.open()
        await gateway.started()
        await until(lambda: all(one.state == "ready" for one in gateway.bus.servers.values()))
        assert await client.request("tools/list") == before
        await asyncio.sleep(0.2)
        assert changes(heard) == []


async def test_unknown_servers_are_waited_for_and_known_ones_are_not(tmp_path: Path) -> None:
    stock = Stock(tmp_path)
    stock.offer("one")
    known = await stock.listed()
    del known["s1"]
    serve = Serve.model_validate({"views": {"small": {"servers": ["s0", "s2"]}, "default": {}}})
    async with starting(stock, known, serve) as gateway:
        client = await LegacyClient.opened(gateway)
        waiting = asyncio.create_task(client.request("tools/list"))
        small = await LegacyClient.opened(gateway, principal=replace(LOCAL, view="small"))
        assert names(await small.request("tools/list")) == ["s0_one", "s2_one"]
        assert not waiting.done()
        stock.gate(1).touch()
        assert names(await waiting) == ["s0_one", "s1_one", "s2_one"]
        assert gateway.bus.servers["s0"].state == "connecting"


async def test_a_call_of_a_known_tool_waits_for_its_server_only(tmp_path: Path) -> None:
    stock = Stock(tmp_path)
    stock.offer("one")
    async with starting(stock, await stock.listed()) as gateway:
        client = await LegacyClient.opened(gateway)
        call = asyncio.create_task(client.request("tools/call", {"name": "s1_one", "arguments": {}}))
        await asyncio.sleep(0.2)
        assert not call.done()
        stock.gate(1).touch()
        assert text_of(await call) == "called one"
        assert gateway.bus.servers["s0"].state == "connecting"


async def test_what_is_known_never_decides_about_a_call(tmp_path: Path) -> None:
    """Tools that left are not called, changed ones are checked and judged as they are now."""
    stock = Stock(tmp_path, count=1)
    stock.offer("left", "tightened", annotations={"readOnlyHint": True})
    trusted: dict[str, Any] = {
        "servers": {"s0": {**stock.config["servers"]["s0"], "trust_annotations": True}},
        "policy": [{"hint": "destructive", "do": "deny"}],
    }
    known = await stock.listed(**trusted)
    assert [tool.name for tool in known["s0"].tools] == ["left", "tightened"]
    stock.offer("tightened", annotations={"destructiveHint": True})
    async with starting(stock, known, **trusted) as gateway:
        client = await LegacyClient.opened(gateway)
        assert names(await client.request("tools/list")) == ["s0_left", "s0_tightened"]
        calls = [
            asyncio.create_task(client.request("tools/call", {"name": name, "arguments": {}}))
            for name in ("s0_left", "s0_tightened")
        ]
        await asyncio.sleep(0.1)
        stock.open()
        with pytest.raises(ProtocolError, match="Unknown tool"):
            await calls[0]
        refused = await calls[1]
        assert refused["isError"]
        assert "policy[0]" in text_of(refused)
        assert stock.called == []


async def test_policies_and_views_hold_for_what_is_known(tmp_path: Path) -> None:
    stock = Stock(tmp_path)
    stock.offer("read", "write")
    known = await stock.listed()
    serve = Serve.model_validate({"views": {"default": {"exclude": ["s2_*"]}}})
    async with starting(stock, known, serve, policy=[{"tools": "*/write", "do": "deny"}]) as gateway:
        client = await LegacyClient.opened(gateway)
        assert names(await client.request("tools/list")) == ["s0_read", "s1_read"]


async def test_the_tools_of_a_server_that_fails_leave_with_one_notice(tmp_path: Path) -> None:
    stock = Stock(tmp_path)
    stock.offer("one")
    known = await stock.listed()
    (tmp_path / "offer1").write_text("not JSON")
    async with starting(stock, known) as gateway:
        client = await LegacyClient.opened(gateway)
        assert names(await client.request("tools/list")) == ["s0_one", "s1_one", "s2_one"]
        stock.open()
        await client.standalone.wait_for("notifications/tools/list_changed")
        assert names(await client.request("tools/list")) == ["s0_one", "s2_one"]
        assert changes(client.standalone) == ["notifications/tools/list_changed"]


async def test_servers_that_must_not_start_are_not_assumed(tmp_path: Path) -> None:
    stock = Stock(tmp_path)
    stock.offer("one")
    known = await stock.listed()
    servers = stock.config["servers"]
    others = {"s1": {**servers["s1"], "lazy": True}, "s2": {"command": 5}}
    bus = Toolbus({"servers": {"s0": servers["s0"], **others}})
    tenant_of(bus).assume(known)
    assert bus.catalog.names == ("s0_one", "s1_one")


class Served:
    """`toolbus serve --stdio` as a process, and one legacy client of it."""

    def __init__(self, config: Path) -> None:
        self._process = subprocess.Popen(
            [str(warm.folder() / "toolbus"), "serve", "--stdio", "--config", str(config)],
            env=environment(config.parent.parent),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        self.notices: list[str] = []

    def request(self, number: int, method: str, params: dict[str, Any] | None = None) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(lines({"id": number, "method": method, "params": params or {}}))
        self._process.stdin.flush()
        for line in self._process.stdout:
            message = json.loads(line)
            if message.get("id") == number:
                return message["result"]
            self.notices.append(message["method"])
        raise AssertionError("it ended")

    def end(self) -> None:
        with self._process:
            assert self._process.stdin is not None
            self._process.stdin.close()
            assert self._process.wait(PATIENCE) == 0


def test_a_second_start_answers_from_the_listing_of_the_first(tmp_path: Path) -> None:
    home, folder = tmp_path / "home", tmp_path / "home" / "project"
    folder.mkdir(parents=True)
    stock = Stock(tmp_path)
    stock.offer("one")
    config = write_config(folder, stock.config["servers"], serve={"list_within": PATIENCE})
    stock.open()
    first = Served(config)
    assert "instructions" not in first.request(1, "initialize", HELLO)
    listed = first.request(2, "tools/list")
    assert names(listed) == ["s0_one", "s1_one", "s2_one"]
    first.end()
    stock.close()
    second = Served(config)
    assert second.request(1, "initialize", HELLO)["instructions"].count("I have one.") == 3
    assert second.request(2, "tools/list") == listed
    assert names(second.request(3, "resources/list"), "resources") == ["one"] * 3
    stock.open()
    assert text_of(second.request(4, "tools/call", {"name": "s1_one"})) == "called one"
    second.end()
    assert second.notices == []
    kept = [file for file in (home / ".state").rglob("*.json") if file.parent.name == "definitions"]
    assert [file.stat().st_mode & 0o777 for file in kept] == [0o600]


@pytest.mark.parametrize("damage", ["another entry", "a lockfile", "not JSON", "other JSON"])
def test_a_listing_counts_only_for_the_same_entry_and_without_a_lockfile(
    damage: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    file = tmp_path / "toolbus.yaml"
    server = {"command": sys.executable, "args": [str(SERVERS / "plain.py")]}
    file.write_text(json.dumps({"servers": {"plain": server}}))
    with SyncToolbus(str(file)) as bus:
        config = usable_config(str(file))
        save_listings(config, bus.bus)
        assert last_inventories(config)["plain"].tools == bus.bus.inventories["plain"].tools
    match damage:
        case "another entry":
            file.write_text(json.dumps({"servers": {"plain": {**server, "env": {"A": "1"}}}}))
        case "a lockfile":
            (tmp_path / "toolbus.lock").write_text("{}")
        case _:
            [kept] = (tmp_path / "state").rglob("definitions/*.json")
            kept.write_text("{" if damage == "not JSON" else '{"plain": {"digest": 5, "tools": "x"}}')
    assert last_inventories(usable_config(str(file))) == {}
