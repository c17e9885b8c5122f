"""The report of a run as text: the table, the other clients, and the notes."""

import os
import platform
from collections.abc import Iterable, Iterator, Sequence
from datetime import date
from importlib.metadata import PackageNotFoundError, version

from bench.compare.peers import OTHERS
from bench.gateways import mcp_proxy_version
from bench.measure import Outcome

NOTES = """\
p50 per call, listing, start, import or turn; ratio = toolbus / raw, smaller is better, and at most the bar.
limit = the time of a client written by hand, without any validation / raw: no client can go much below it.
memory = bytes that Python holds for each, each side alone in an interpreter; calls over stdio, all in flight.
* until tools, resources, templates and prompts are listed, on both sides; raw: that many clients at once.
  Tools are listed over HTTP from a server that is up.
** a whole interpreter that imports toolbus, starts a stdio server, prints its tools and ends; raw: the slower
  of a whole interpreter that imports mcp, and the start of the server until its first answer.
*** a run of an agent with one call; raw: the framework's own MCP integration, its connection held and its
  tools cached.
**** from a lockfile of ten stdio servers. First catalog: from the import to the catalog; raw: toolbus without
  the lockfile, which starts them. The others: CPU time of a whole interpreter that prints it, and that of
  'import mcp'.
***** toolbus on both sides: with a valid OAuth token of 43 characters, or one that is bound to a key, so
  that each request carries a proof (DPoP); raw: without credentials.
@ CPU time of the client per call; raw: a client that is written by hand.
****** toolbus on both sides, the path of a call alone: with a lockfile, a policy of eleven rules and an audit
  trail; raw: with none of them. CPU time.
# through 'toolbus serve' with an API key, by a raw load generator; raw: the server without a gateway, and for
  one call at a time over stdio also the HTTP front of the gateway alone. Sessions: the memory of the gateway
  with one idle legacy session, and with 1,000 more, each with an open stream. CPU: the time of the gateway's
  process for each of 32 calls in flight; raw: of the HTTP front alone. Servers: the resident memory of the
  gateway with 100 idle stdio servers; raw: with one.
******* 'toolbus call' of a tool that does nothing, after 'toolbus up'; raw: 'toolbus call --help'.
******** the same call without 'toolbus up', without and with a lockfile; raw: a whole interpreter that
  imports mcp, and then the start of the server until its first answer."""
NAME = 30
SDK = f"mcp {version('mcp')}"
HEAD = f"{f'raw: {SDK}':<{NAME}}{'raw':>13}{'toolbus':>13}{'ratio':>8}{'bar':>7}{'limit':>7}"
GATEWAY = 30
"""The width of a column of the gateways."""
UVLOOP = "on uvloop instead of asyncio's own loop, without bars:"
PACKAGES = {"toolbus": "toolbus", "mcp": "mcp", "uvloop": "uvloop"} | {
    peer.name: peer.package for peer in OTHERS.values()
}


def versions() -> dict[str, str]:
    """The versions of everything that is compared and installed."""
    found = {"Python": platform.python_version()}
    for name, package in PACKAGES.items():
        try:
            found[name] = version(package)
        except PackageNotFoundError:
            continue
    if (proxy := mcp_proxy_version()) is not None:
        found["mcp-proxy"] = proxy
    return found


def caption() -> str:
    """The date and the versions of a run, on one line."""
    shown = ", ".join(f"{name} {number}" for name, number in versions().items())
    return f"{date.today().isoformat()}, {os.cpu_count()} cores: {shown}"


def report(outcomes: Iterable[Outcome], skipped: Sequence[str]) -> Iterator[str]:
    """The lines of the report, each as soon as its outcome is ready; `skipped` lists unmeasured parts."""
    yield HEAD
    done: list[Outcome] = []
    for outcome in outcomes:
        if outcome.loop == "uvloop" and not any(before.loop == "uvloop" for before in done):
            yield UVLOOP
        done.append(outcome)
        yield row(outcome)
    yield from skipped
    yield from peer_rows([outcome for outcome in done if outcome.with_peers])
    yield from gateway_rows([outcome for outcome in done if outcome.gateways])
    yield from NOTES.splitlines()


def row(outcome: Outcome) -> str:
    """One line of the table."""
    name = f"{outcome.name} {outcome.note}".rstrip()
    raw, toolbus = (f"{shown(outcome, value):>13}" for value in (outcome.raw, outcome.toolbus))
    limit = "" if outcome.limit_ratio is None else f"{outcome.limit_ratio:.3f}"
    figures = f"{raw}{toolbus}{outcome.ratio:8.3f}{bar(outcome):>7}{limit:>7}"
    return f"{name:<{NAME}}{figures}  {remarks(outcome)}".rstrip()


def bar(outcome: Outcome) -> str:
    """The bar of a line: a ratio, an addition, or calls per second; empty if it has none."""
    if outcome.least_per_second is not None:
        return f"{outcome.least_per_second:g}/s"
    if outcome.most is not None:
        return f"{outcome.most / 2**20:g}MiB" if outcome.unit == "B" else f"{outcome.most * 1e6:g}us"
    if outcome.most_more is None:
        return "" if outcome.bar is None else f"{outcome.bar:.3f}"
    if outcome.unit == "B":
        return f"+{outcome.most_more / 1e6:g}MB"
    is_short = outcome.most_more < 1e-4
    return f"+{outcome.most_more * 1e6:g}us" if is_short else f"+{outcome.most_more * 1e3:g}ms"


def shown(outcome: Outcome, value: float) -> str:
    """A value with its unit."""
    if outcome.unit == "s":
        return f"{value * 1000:,.3f} ms"
    return f"{value:,.0f} B" if value < 1e6 else f"{value / 1e6:,.1f} MB"


def remarks(outcome: Outcome) -> str:
    """The verdict of a line, and what else there is to say about it."""
    verdict = "" if not bar(outcome) else "ok" if outcome.met else "MISSED"
    scale, unit = (1e6, "us") if outcome.unit == "s" else (1e-6, "MB")
    more = f"{(outcome.toolbus - outcome.raw) * scale:+.1f} {unit}" if outcome.most_more is not None else ""
    rates = f"{1 / outcome.raw:,.0f} -> {1 / outcome.toolbus:,.0f} calls/s" if outcome.per_second else ""
    again = f"second try, {outcome.rounds} rounds" if outcome.retried else ""
    return "; ".join(remark for remark in (verdict, more, rates, again) if remark)


def peer_rows(outcomes: Sequence[Outcome]) -> Iterator[str]:
    """The other clients on the lines where they were measured, and the reasons of those left out."""
    names = [name for name in OTHERS if any(name in outcome.peers for outcome in outcomes)]
    if names:
        columns = ["toolbus", *names, "limit"]
        yield f"the same calls by other clients, time / {SDK}:"
        yield f"{'':<{NAME}}" + "".join(f"{column:>{len(column) + 2}}" for column in columns)
        for outcome in outcomes:
            ratios = {"toolbus": outcome.ratio, **outcome.peer_ratios, "limit": outcome.limit_ratio}
            cells = (f"{number(ratios.get(column)):>{len(column) + 2}}" for column in columns)
            yield f"{outcome.name:<{NAME}}" + "".join(cells)
    yield from left_out_rows(outcomes)


def gateway_rows(outcomes: Sequence[Outcome]) -> Iterator[str]:
    """The ways to a server, with and without a gateway, and the reasons of those left out."""
    if outcomes:
        yield "the same calls without a gateway, through toolbus and through others:"
        yield f"{'':<{NAME}}" + "".join(f"{outcome.name:>{GATEWAY}}" for outcome in outcomes)
        names = dict.fromkeys(name for outcome in outcomes for name in outcome.peers)
        for name in sorted(["toolbus", *names], key=lambda name: (name != "direct", name != "toolbus")):
            cells = (f"{rate(outcome, name):>{GATEWAY}}" for outcome in outcomes)
            yield f"{name:<{NAME}}" + "".join(cells)
    yield from left_out_rows(outcomes)


def rate(outcome: Outcome, name: str) -> str:
    """The time of a call through a gateway, or its calls per second; a dash if there is none."""
    taken = outcome.toolbus if name == "toolbus" else outcome.peers.get(name)
    if taken is None:
        return "-"
    return f"{1 / taken:,.0f} calls/s" if outcome.per_second else shown(outcome, taken)


def left_out_rows(outcomes: Sequence[Outcome]) -> Iterator[str]:
    """The clients that were left out, with the reasons."""
    for outcome in outcomes:
        for name, why in outcome.left_out.items():
            yield f"left out of {outcome.name!r}: {name} ({why})"


def number(ratio: float | None) -> str:
    """A ratio, or a dash if there is none."""
    return "-" if ratio is None else f"{ratio:.3f}"
