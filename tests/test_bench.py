"""The benchmark selects, measures and shows what it says it does; its figures are for `make bench`."""

import json
import shlex
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest

from bench.__main__ import main
from bench.chart import STYLE, draw
from bench.compare.peers import OTHERS, Peer
from bench.lines import SDK, lines, selected
from bench.measure import Line, Outcome, Round, Sides, measured
from bench.openings import Turning
from bench.page import CHART, PAGE, with_report
from bench.report import HEAD, gateway_rows, peer_rows, report, row
from bench.server import Holding
from bench.sides import STDIO
from bench.turns import (
    agent_ours,
    agent_own,
    answer,
    langchain_ours,
    langchain_own,
    openai_ours,
    openai_own,
    pydantic_ours,
    pydantic_own,
)

pytestmark = pytest.mark.anyio

SVG = "{http://www.w3.org/2000/svg}"

CALLS = Outcome(
    name="stdio, 64 in flight",
    raw=0.0004,
    toolbus=0.0001,
    limit=0.00002,
    peers={"FastMCP client": 0.0006, "OpenAI Agents": 0.0008},
    left_out={"pydantic-ai": "not installed: No module named 'pydantic_ai'"},
    bar=1 / 6,
    rounds=20,
    per_second=True,
    with_peers=True,
)


def test_a_pattern_selects_lines_by_name_in_any_case() -> None:
    known = lines("http://127.0.0.1:1/mcp")
    chosen = [line.name for line in selected(known, ["http, 64*", "First listing*"])]
    assert chosen == [
        "HTTP, 64 in flight",
        "HTTP, 64 in flight, legacy",
        "HTTP, 64 in flight / limit",
        "first listing, 1 server",
        "HTTP, 64 in flight, uvloop",
    ]
    assert selected(known, []) == known
    assert selected(known, ["no such line"]) == []


def test_no_two_lines_have_the_same_name() -> None:
    names = [line.name for line in lines("")]
    assert len(set(names)) == len(names)


def test_a_row_shows_the_ratio_the_bar_and_whether_it_is_met() -> None:
    assert [row(CALLS), row(replace(CALLS, toolbus=0.00006, retried=True))] == [
        (
            "stdio, 64 in flight                0.400 ms     0.100 ms   0.250  0.167  0.050"
            "  MISSED; 2,500 -> 10,000 calls/s"
        ),
        (
            "stdio, 64 in flight                0.400 ms     0.060 ms   0.150  0.167  0.050"
            "  ok; 2,500 -> 16,667 calls/s; second try, 20 rounds"
        ),
    ]
    memory = Outcome(name="memory per tool", note="*", raw=3000, toolbus=1500, bar=None, rounds=1, unit="B")
    assert row(memory) == "memory per tool *                   3,000 B      1,500 B   0.500"


def test_a_bar_may_also_be_an_addition_or_a_rate() -> None:
    alone = Outcome(name="gateway, stdio", note="#", raw=0.0004, toolbus=0.0007, bar=None, rounds=20)
    more, rate = replace(alone, most_more=0.0006), replace(alone, least_per_second=2_000, per_second=True)
    held = replace(alone, raw=90e6, toolbus=300e6, most_more=200e6, unit="B")
    assert [row(outcome) for outcome in (more, replace(more, most_more=40e-6), rate, held)] == [
        "gateway, stdio #                   0.400 ms     0.700 ms   1.750 +0.6ms         ok; +300.0 us",
        "gateway, stdio #                   0.400 ms     0.700 ms   1.750  +40us         MISSED; +300.0 us",
        (
            "gateway, stdio #                   0.400 ms     0.700 ms   1.750 2000/s"
            "         MISSED; 2,500 -> 1,429 calls/s"
        ),
        "gateway, stdio #                    90.0 MB     300.0 MB   3.333 +200MB         MISSED; +210.0 MB",
    ]
    assert replace(rate, toolbus=0.0005).met


def test_a_bar_may_also_limit_the_time_or_the_memory_itself() -> None:
    alone = Outcome(name="gateway", raw=0.0001, toolbus=0.0002, bar=None, rounds=10, most=240e-6)
    held = replace(alone, raw=90e6, toolbus=110e6, most=100 * 2**20, unit="B")
    assert [row(alone), row(held)] == [
        "gateway                            0.100 ms     0.200 ms   2.000  240us         ok",
        "gateway                             90.0 MB     110.0 MB   1.222 100MiB         MISSED",
    ]


def test_gateways_have_a_table_of_their_own() -> None:
    one = Outcome(
        name="gateway, stdio",
        raw=0.0004,
        toolbus=0.0007,
        bar=None,
        rounds=20,
        peers={"direct": 0.0001, "mcp-proxy": 0.003},
        left_out={"FastMCP proxy": "RuntimeError: it did not start"},
        gateways=True,
    )
    many = replace(
        one, name="gateway, 32", toolbus=0.0004, per_second=True, peers={"direct": 0.0001}, left_out={}
    )
    assert list(gateway_rows([one, many])) == [
        "the same calls without a gateway, through toolbus and through others:",
        "                                              gateway, stdio                   gateway, 32",
        "direct                                              0.100 ms                10,000 calls/s",
        "toolbus                                             0.700 ms                 2,500 calls/s",
        "mcp-proxy                                           3.000 ms                             -",
        "left out of 'gateway, stdio': FastMCP proxy (RuntimeError: it did not start)",
    ]
    assert list(gateway_rows([])) == []


def test_other_clients_have_a_column_each_and_those_left_out_a_reason() -> None:
    assert list(peer_rows([CALLS])) == [
        f"the same calls by other clients, time / mcp {SDK}:",
        "                                toolbus  FastMCP client  OpenAI Agents  limit",
        "stdio, 64 in flight               0.250           1.500          2.000  0.050",
        "left out of 'stdio, 64 in flight': pydantic-ai (not installed: No module named 'pydantic_ai')",
    ]
    assert list(peer_rows([])) == []


def test_the_report_sets_the_lines_on_uvloop_apart() -> None:
    apart = replace(CALLS, name="stdio, 64 in flight, uvloop", loop="uvloop", bar=None, with_peers=False)
    printed = list(report(iter([CALLS, apart]), ["left out: something"]))
    assert printed[:6] == [
        HEAD,
        row(CALLS),
        "on uvloop instead of asyncio's own loop, without bars:",
        row(apart),
        "left out: something",
        f"the same calls by other clients, time / mcp {SDK}:",
    ]


def test_the_chart_has_a_bar_for_every_client_on_every_line() -> None:
    hand_made = replace(CALLS, name="a <b> & c", peers={}, limit=None)
    drawn = ElementTree.fromstring(draw([CALLS, hand_made], "today & <here>"))
    kinds = [found.get("class") for found in drawn.iter(f"{SVG}rect")]
    assert kinds == ["page", "toolbus", "raw", "peer", "peer", "limit", "toolbus", "raw"]
    texts = [found.text for found in drawn.iter(f"{SVG}text")]
    assert {"today & <here>", "a <b> & c", "FastMCP client", "1.50 (1,667/s)"} <= set(texts)
    light, dark = STYLE.split("@media (prefers-color-scheme: dark)")
    for kind in ("page", "toolbus", "raw", "peer", "limit"):
        assert f".{kind} {{" in light
        assert f".{kind} {{" in dark


def test_a_longer_time_is_a_longer_bar() -> None:
    drawn = ElementTree.fromstring(draw([CALLS], ""))
    lengths = [float(found.attrib["width"]) for found in drawn.iter(f"{SVG}rect")][1:]
    assert lengths == pytest.approx([23.75, 95, 142.5, 190, 4.75], abs=0.1)


def test_a_full_run_replaces_one_block_of_the_page_and_nothing_else() -> None:
    page = PAGE.read_text(encoding="utf-8")
    changed = with_report(page, "line one\nline two")
    assert "$ make bench\n```\n\n```text\nline one\nline two\n```\n" in changed
    assert with_report(changed, "again") == with_report(page, "again")
    before, _, after = page.partition("```text\n")
    assert changed.startswith(before)
    assert changed.endswith(after.partition("```\n")[2])
    with pytest.raises(ValueError, match="no text block"):
        with_report("nothing here", "line one")


def test_the_page_shows_the_chart() -> None:
    assert "](performance.svg)" in PAGE.read_text(encoding="utf-8")
    ElementTree.parse(CHART)


def fixed(*values: float) -> Round:
    """A round that always takes that."""

    async def run() -> list[float]:
        return list(values)

    return run


async def failing() -> list[float]:
    """The round of a client that cannot do it."""
    raise ConnectionError("refused\nand more")


def line(sides: Sides) -> Line:
    """A line with these sides."""

    @asynccontextmanager
    async def opened() -> AsyncGenerator[Sides]:
        yield sides

    return Line(name="made up", open=opened, rounds=3, bar=0.5)


async def test_a_peer_that_fails_is_left_out_with_its_reason() -> None:
    peers = {"good": fixed(6), "bad": failing}
    sides = Sides(raw=fixed(1, 2, 9), toolbus=fixed(1), peers=peers, left_out={"gone": "not installed"})
    outcome = await measured(line(sides), 3)
    assert (outcome.raw, outcome.toolbus, outcome.ratio, outcome.met) == (2, 1, 0.5, True)
    assert outcome.peers == {"good": 6}
    assert outcome.peer_ratios == {"good": 3}
    assert outcome.left_out == {"gone": "not installed", "bad": "ConnectionError: refused"}


async def test_toolbus_and_the_raw_client_are_never_left_out() -> None:
    with pytest.raises(ConnectionError):
        await measured(line(Sides(raw=fixed(1), toolbus=failing)), 3)


async def test_the_slower_of_two_baselines_counts() -> None:
    sides = Sides(raw=fixed(2), toolbus=fixed(3), second_raw=fixed(4))
    assert (await measured(line(sides), 3)).ratio == 0.75


@pytest.mark.parametrize("peer", OTHERS.values(), ids=list(OTHERS))
async def test_every_other_client_calls_the_server_in_the_modern_era(peer: Peer, tmp_path: Path) -> None:
    received = tmp_path / "received"
    server = shlex.join([STDIO["command"], *STDIO["args"]])
    recorded = {"command": "sh", "args": ["-c", f"tee {shlex.quote(str(received))} | {server}"]}
    async with peer.open({"bench": recorded}) as connected:
        assert await connected.call("bench", "echo", "hello") == "hello"
    methods = [json.loads(line)["method"] for line in received.read_text().splitlines()]
    assert "tools/call" in methods
    assert "initialize" not in methods


@pytest.mark.parametrize(
    "turning",
    [
        openai_own,
        openai_ours,
        langchain_own,
        langchain_ours,
        pydantic_own,
        pydantic_ours,
        agent_own,
        agent_ours,
    ],
)
async def test_a_turn_makes_a_call_that_succeeds(turning: Turning) -> None:
    async with turning() as run:
        assert await run() == "Done."


def test_a_turn_whose_call_fails_does_not_count() -> None:
    assert answer("hello") == "Done."
    assert answer("connection lost") == "The call failed: connection lost"


def called(name: str, number: int, text: str = "") -> bytes:
    """A call of a tool on the wire."""
    return json.dumps({"id": number, "params": {"name": name, "arguments": {"text": text}}}).encode()


def test_the_server_holds_calls_until_they_are_released() -> None:
    server = Holding(lambda data: str(json.loads(data)["id"]).encode())
    assert server.answers(called("hold", 1)) == []
    assert server.answers(called("held", 2, "2")) == []
    assert server.answers(called("echo", 3, "hold")) == [b"3"]
    assert server.answers(called("hold", 4)) == [b"2"]
    assert server.answers(called("release", 5)) == [b"1", b"4", b"5"]
    assert server.answers(called("release", 6)) == [b"6"]


def test_an_unknown_line_is_an_error_that_names_the_known_ones(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--lines", "nothing"])
    printed = capsys.readouterr().err
    assert "no such line; there are:" in printed
    assert "  HTTP, sequential, legacy" in printed
