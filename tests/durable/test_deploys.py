"""Rolling deploys: workers of several versions of a program share an agent, in processes of their own."""

import asyncio
import json
import random
import signal
from collections import Counter
from pathlib import Path

import pytest

from tests import warm
from tests.cli import running
from tests.durable.deploys import Stage, staged
from tests.durable.stage import run_when, settings
from tests.inside.agent import Member, best, better, label_of, lacking
from tests.inside.core import version
from tests.patience import PATIENCE, until
from toolbus.agent.durable import Runs

pytestmark = pytest.mark.anyio
KEYS = [f"run-{number}" for number in range(4)]


@pytest.mark.parametrize("starter", ["new", "old", "client"])
async def test_a_run_is_executed_by_a_worker_that_has_the_tools_of_its_program(
    store: str, tmp_path: Path, starter: str
) -> None:
    prompt = "order" if starter == "old" else "order ship"
    started = dict.fromkeys(KEYS, prompt)
    old, new = {"tools": ["order"]}, {"tools": ["order", "ship"]}
    async with staged(store, tmp_path) as stage:
        await stage.program("v1", old | ({"start": started} if starter == "old" else {}))
        await stage.program("v2", new | ({"start": started} if starter == "new" else {}))
        if starter == "client":
            for key in KEYS:
                await stage.runs.start(prompt, key=key)
        ended = [await stage.end_of(key) for key in KEYS]
        if starter == "old":
            assert [info.output in ("order by v1", "order by v2") for info in ended] == [True] * len(KEYS)
        else:
            assert [info.output for info in ended] == ["order by v2 | ship by v2"] * len(KEYS)
        assert [info.attempts for info in ended] == [1] * len(KEYS), "the first worker kept each run"


async def test_a_run_that_calls_a_tool_of_another_worker_is_handed_over_to_it(
    store: str, tmp_path: Path
) -> None:
    async with staged(store, tmp_path) as stage:
        await stage.program("v2", {"tools": ["order", "ship"]})
        await stage.program("v1", {"tools": ["order"]})  # the newest, so a client's runs begin there
        for key in KEYS:
            await stage.runs.start("order ship nothing order", key=key)
        ended = [await stage.end_of(key) for key in KEYS]
        outputs = {info.output for info in ended}
        assert outputs == {"order by v1 | ship by v2 | Unknown tool name | order by v2"}, stage.log("v1")
        assert stage.calls == Counter({"order v1": len(KEYS), "ship v2": len(KEYS), "order v2": len(KEYS)}), (
            "no call is repeated"
        )
        assert [info.attempts for info in ended] == [2] * len(KEYS)
        (worker,) = {info.worker for info in ended}
        assert (
            f"run {KEYS[0]} needs 'ship', which this worker lacks; worker {worker} continues it"
            in stage.log("v1")
        )


@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGTERM])
async def test_a_run_of_a_worker_that_ended_goes_to_one_that_has_the_tools_it_called(
    store: str, tmp_path: Path, end: int
) -> None:
    async with staged(store, tmp_path) as stage:
        started = dict.fromkeys(KEYS, "ship hold order")
        await stage.program("v2", {"tools": ["order", "ship", "hold"], "start": started})
        await until(lambda: stage.calls["hold v2"] == len(KEYS))
        await stage.program("v3", {"tools": ["order", "ship", "hold", "extra"]})
        await stage.program("v1", {"tools": ["order", "hold"]})  # the newest
        await stage.ends("v2", end)
        stage.let_go("hold")
        ended = [await stage.end_of(key) for key in KEYS]
        assert {info.output for info in ended} == {"ship by v2 | outcome unknown | order by v3"}
        assert {info.attempts for info in ended} == {2}, "no other worker had one in between"
        assert stage.calls == Counter(["ship v2", "hold v2", "order v3"] * len(KEYS))


async def test_a_recorded_tool_that_no_live_worker_has_ends_the_run_and_is_named(
    store: str, tmp_path: Path
) -> None:
    async with staged(store, tmp_path) as stage:
        await stage.program("v1", {"tools": ["order", "ship", "hold"], "start": {"k": "ship hold order"}})
        await stage.reached("hold")
        await stage.ends("v1", signal.SIGKILL)
        stage.let_go("hold")
        await stage.program("v2", {"tools": ["order"]})
        info = await stage.end_of("k")
        assert (info.status, info.error_kind) == ("failed", "RunDiverged")
        assert info.error is not None
        assert info.error.startswith("the run has called 'hold', 'ship', and no live worker has them; start ")
        await stage.program("v1 again", {"tools": ["order", "ship", "hold"]})
        await stage.runs.retry("k")
        info = await stage.end_of("k")
        assert info.output == "ship by v1 | outcome unknown | order by v1 again"


@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGTERM])
async def test_queued_runs_of_a_program_that_is_gone_are_executed_by_another(
    store: str, tmp_path: Path, end: int
) -> None:
    started = {"first": "hold", **dict.fromkeys(KEYS, "order")}
    async with staged(store, tmp_path) as stage:
        await stage.program("v1", {"tools": ["order", "hold"], "at_once": 1, "start": started})
        await stage.reached("hold")
        await stage.program("v2", {"tools": ["order", "hold", "ship"], "at_once": 1})
        assert [(await stage.runs.get(key)).status for key in KEYS] == ["queued"] * len(KEYS)
        await stage.ends("v1", end)
        stage.let_go("hold")
        assert (await stage.end_of("first")).output == "outcome unknown"
        assert [(await stage.end_of(key)).output for key in KEYS] == ["order by v2"] * len(KEYS)


@pytest.mark.parametrize("expose", ["all", "search"])
async def test_mcp_tools_count_like_functions(store: str, tmp_path: Path, expose: str) -> None:
    via = "call_tool:" if expose == "search" else ""

    def shop(*tools: str) -> dict[str, object]:
        args = ["-m", "tests.durable.deploys.server", *tools]
        return {"shop": {"command": warm.python(), "args": args}}

    async with staged(store, tmp_path) as stage:
        await stage.program("v2", {"tools": ["order"], "servers": shop("look", "pay"), "expose": expose})
        await stage.program("v1", {"tools": ["order"], "servers": shop("look"), "expose": expose})
        await _know(stage, "shop_look")
        await stage.runs.start(f"order {via}shop_look {via}shop_pay", key="k")
        info = await stage.end_of("k")
        assert info.output == "order by v1 | look by a server | pay by a server", stage.log("v1")
        rows = {row.worker: row.tools["toolbus.agent"] for row in await stage.runs.workers()}
        assert sorted(sorted(tools) for tools in rows.values()) == [
            ["order", "shop/look", "shop/pay", "shop_look", "shop_pay"],
            ["order", "shop/look", "shop_look"],
        ]


async def test_a_server_that_cannot_be_reached_keeps_no_worker_from_joining(
    store: str, tmp_path: Path
) -> None:
    servers = {"shop": {"url": "http://127.0.0.1:9/mcp"}}
    async with staged(store, tmp_path) as stage:
        await stage.program("v1", {"tools": ["order"], "servers": servers})
        await stage.runs.start("order", key="k")
        assert (await stage.end_of("k")).output == "order by v1"
        (row,) = await stage.runs.workers()
        assert row.tools == {"toolbus.agent": {"order", "shop/*"}}


async def _know(stage: Stage, tool: str) -> None:
    """Wait until the store has a tool of all workers."""
    async with asyncio.timeout(PATIENCE):
        while not all(tool in row.tools["toolbus.agent"] for row in await stage.runs.workers()):  # noqa: ASYNC110
            await asyncio.sleep(0.05)


async def test_a_version_pins_runs_to_its_workers(store: str, tmp_path: Path) -> None:
    pinned = Runs(settings(tmp_path, store=store, version="2"))
    async with staged(store, tmp_path) as stage:
        await stage.program("v1", {"tools": ["order"], "version": "1"}, {"tools": ["order"]})
        await pinned.start("renamed", key="pinned")
        await stage.runs.start("order", key="free")
        assert (await stage.end_of("free")).output == "order by v1"
        info = await pinned.get("pinned")
        assert (info.status, info.agent, info.version, info.named) == ("queued", "agent", "2", "agent@2")
        await stage.program("v2", {"tools": ["renamed"], "version": "2"})  # with none of the earlier tools
        assert (await stage.end_of("pinned")).output == "renamed by v2"
        for key in KEYS:
            await pinned.start("renamed order", key=key)
        outputs = {(await stage.end_of(key)).output for key in KEYS}
        assert outputs == {"renamed by v2 | Unknown tool name"}, "other versions are no help"
    await pinned.close()


async def test_agents_of_one_process_have_tools_of_their_own(store: str, tmp_path: Path) -> None:
    mail = Runs(settings(tmp_path, store=store, agent="mail", version="7"))
    async with staged(store, tmp_path) as stage:
        await stage.program(
            "both", {"tools": ["order", "hold"]}, {"agent": "mail", "version": "7", "tools": ["send"]}
        )
        await stage.program("orders", {"tools": ["order", "hold"]})
        labels = [row.labels["toolbus.agent"] for row in await stage.runs.workers()]
        assert labels == [label_of({"order", "hold"})] * 2, (
            "the same program, with other agents in the process"
        )
        await mail.start("send", key="m")
        await stage.runs.start("hold", key="k")
        assert (await stage.end_of("m")).output == "send by both"
        await stage.reached("hold")
        info = await run_when(stage.runs, "k", lambda info: info.status == "running")
        rows = await stage.runs.workers()
        assert [list(row.runs) for row in rows if row.worker == info.worker] == [["k"]]
        stage.let_go("hold")
        assert (await stage.end_of("k")).status == "done"
    await mail.close()


async def test_a_program_that_only_waits_executes_runs(store: str, tmp_path: Path) -> None:
    async with staged(store, tmp_path) as stage:
        await stage.program("waiting", {"tools": ["order"]}, works=False)
        await stage.runs.start("order", key="k")
        assert (await stage.end_of("k")).output == "order by waiting"


def test_each_hand_over_leaves_fewer_tools_missing() -> None:
    """So a run is never handed back and forth, with any distribution of tools."""
    chosen = random.Random(41)
    names = [f"tool-{number}" for number in range(6)]

    def some() -> frozenset[str]:
        return frozenset(name for name in names if chosen.random() < 0.6)

    for _ in range(2_000):
        members = [
            Member(worker=str(number), label=str(number), tools=some(), joined=number) for number in range(5)
        ]
        needed, now, moves = some(), chosen.choice(members), 0
        while missing := lacking(now.tools, needed):
            others = [member for member in members if member is not now]
            found = better(others, now.tools, missing, needed)
            if found is None:
                break
            assert missing & found.tools
            now, moves = found, moves + 1
        assert moves <= len(names)
        assert len(lacking(best(members, needed).tools, needed)) <= len(lacking(now.tools, needed))
        if any(not lacking(member.tools, needed) for member in members):
            assert not lacking(now.tools, needed), "one had all of them"


async def test_the_command_line_shows_the_versions_and_tools_of_all_workers(
    store: str, tmp_path: Path
) -> None:
    async def toolbus(*words: str) -> tuple[str, str]:
        done = await asyncio.to_thread(running.toolbus, *words, "--store", store, folder=tmp_path)
        assert done.returncode == 0, done.stderr
        return done.stdout, done.stderr

    async with staged(store, tmp_path) as stage:
        await stage.program("v1", {"tools": ["order", "hold"], "start": {"k": "hold"}})
        await stage.program("v2", {"tools": ["order", "hold", "ship"]}, {"agent": "mail", "tools": ["send"]})
        await stage.reached("hold")
        _, noted = await toolbus("runs", "start", "order", "--key", "p", "--agent", "mail", "--version", "3")
        assert noted.startswith("no worker takes runs of 'mail' of version '3' now; start one: ")
        assert "toolbus runs worker --agent mail --version 3 --store " in noted
        document = json.loads((await toolbus("runs", "--json"))[0])
        assert document["workers"] == 2
        newer, older = document["worker_details"]
        assert older["agents"] == [
            {"agent": "agent", "version": None, "tools": ["hold", "order"], "not_in_all": []}
        ]
        assert newer["agents"] == [
            {"agent": "agent", "version": None, "tools": ["hold", "order", "ship"], "not_in_all": ["ship"]},
            {"agent": "mail", "version": None, "tools": ["send"], "not_in_all": []},
        ]
        assert (newer["toolbus"], newer["runs"] + older["runs"]) == (version(), ["k"])
        printed, noted = await toolbus("runs")
        lines = [line.split() for line in printed.splitlines()]
        assert [newer["id"], "agent", version(), str(len(newer["runs"]))] == next(
            line[:4] for line in lines if line[:2] == [newer["id"], "agent"]
        )
        assert "3, not on every worker: ship" in printed
        assert ["p", "queued", "mail@3"] in [line[:3] for line in lines]
        assert "no worker takes runs of 'mail' of version '3' now" in noted
        shown, _ = await toolbus("runs", "show", "p")
        assert "3: only workers of this version execute it" in shown
        stage.let_go("hold")
