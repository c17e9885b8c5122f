"""The lines of the comparison, each with its bar."""

from collections.abc import Sequence
from fnmatch import fnmatchcase

from bench.authorized import authorized
from bench.background import background_call
from bench.catalogs import catalog_printed, first_catalogs, tools_printed
from bench.cold import cold_call
from bench.gateway import cpu_per_call, http_behind, idle_servers, many_in_flight, one_in_flight, sessions
from bench.guarded import guarded
from bench.measure import Line, Loop, Opening
from bench.openings import (
    beside_limit,
    calls,
    first_listings,
    holding,
    imports,
    listing,
    started,
    tools_held,
    turns,
)
from bench.sides import Era
from bench.turns import (
    agent_ours,
    agent_own,
    langchain_ours,
    langchain_own,
    openai_ours,
    openai_own,
    pydantic_ours,
    pydantic_own,
)
from bench.work import Work, big, cpu_in_flight, in_flight, sequential

SDK = "2.3.0"
"""The version of the SDK that the bars are for: the ratio to another one says something else."""
MIB = 2**20


def lines(url: str) -> list[Line]:
    """Every comparison; `url` is where the HTTP server listens."""
    return [
        *call_lines(url),
        Line(
            name="HTTP, with a token / none",
            note="*****",
            open=authorized(url, sequential),
            rounds=20,
            bar=1.05,
        ),
        Line(
            name="HTTP, with DPoP / none",
            note="*****",
            open=authorized(url, sequential, with_key=True),
            rounds=20,
            bar=None,
        ),
        Line(
            name="lock, policy, audit / none",
            note="******",
            open=guarded(),
            rounds=20,
            bar=None,
            most_more=40e-6,
        ),
        *gateway_lines(url),
        Line(name="1,000 tools listed", note="*", open=listing(1_000), rounds=10, bar=0.8),
        Line(name="10,000 tools listed", note="*", open=listing(10_000), rounds=5, bar=0.35),
        memory_line("tool, of 1,000", tools_held(1_000), bar=0.5),
        memory_line("tool, of 10,000", tools_held(10_000), bar=0.5),
        memory_line("stdio link, of 50", holding("stdio links", 50)),
        memory_line("HTTP link, of 50", holding("HTTP links", 50, url)),
        memory_line("call, of 1,000", holding("calls", 1_000)),
        Line(name="first listing, 1 server", note="**", open=first_listings(), rounds=10, bar=1.35),
        Line(name="first catalog, 10 servers", note="****", open=first_catalogs(), rounds=5, bar=0.1),
        Line(name="catalog printed / mcp", note="****", open=catalog_printed(), rounds=10, bar=0.45),
        Line(name="toolbus tools / mcp", note="****", open=tools_printed(), rounds=10, bar=0.6),
        Line(name="call after up / --help", note="*******", open=background_call(), rounds=10, bar=1.4),
        Line(name="first call", note="********", open=cold_call(), rounds=10, bar=1.3),
        Line(
            name="first call, locked",
            note="********",
            open=cold_call(locked=True),
            rounds=10,
            bar=1.3,
        ),
        Line(name="start-up, 1 server", note="*", open=started(1), rounds=10, bar=1.1),
        Line(name="start-up, 10 servers", note="*", open=started(10), rounds=5, bar=1.1),
        Line(name="import toolbus / import mcp", open=imports(), rounds=10, bar=0.30),
        turn_line("OpenAI Agents", turns(openai_own, openai_ours)),
        turn_line("langchain.mcp", turns(langchain_own, langchain_ours)),
        turn_line("pydantic-ai", turns(pydantic_own, pydantic_ours)),
        Line(name="turn, Agent / pydantic-ai", open=turns(agent_own, agent_ours), rounds=20, bar=1.15),
        # Without bars, as nobody has to use it.
        call_line("stdio, sequential, uvloop", None, sequential, bar=None, loop="uvloop"),
        call_line("stdio, 64 in flight, uvloop", None, in_flight, bar=None, loop="uvloop"),
        call_line("HTTP, sequential, uvloop", url, sequential, bar=None, loop="uvloop"),
        call_line("HTTP, 64 in flight, uvloop", url, in_flight, bar=None, rounds=10, loop="uvloop"),
    ]


def call_lines(url: str) -> list[Line]:
    """Calls over the pipes of a process, and over streamable HTTP."""
    return [
        call_line("stdio, sequential", None, sequential, bar=0.40, with_peers=True),
        call_line("stdio, sequential, legacy", None, sequential, bar=0.40, era="legacy"),
        call_line("stdio, 64 in flight", None, in_flight, bar=1 / 6, with_peers=True),
        limit_line("stdio, 64 in flight / limit", None, bar=3.0),
        call_line("stdio, 1 MiB result", None, big(MIB), bar=1.0),
        call_line("stdio, 10 MiB result", None, big(10 * MIB), bar=1.0, rounds=5),
        call_line("HTTP, sequential", url, sequential, bar=0.30, with_peers=True),
        call_line("HTTP, sequential, legacy", url, sequential, bar=0.30, era="legacy"),
        call_line("HTTP, 64 in flight", url, in_flight, bar=1 / 5, rounds=10, with_peers=True),
        call_line("HTTP, 64 in flight, legacy", url, in_flight, bar=1 / 5, rounds=10, era="legacy"),
        limit_line("HTTP, 64 in flight / limit", url, bar=2.5),
        call_line("HTTP, 1 MiB result", url, big(MIB), bar=0.75),
        call_line("HTTP, 10 MiB result", url, big(10 * MIB), bar=0.75, rounds=10),
    ]


def gateway_lines(url: str) -> list[Line]:
    """Calls through `toolbus serve`, and its memory."""
    return [
        Line(
            name="gateway, stdio",
            note="#",
            open=one_in_flight(),
            rounds=20,
            bar=None,
            most_more=0.6e-3,
            gateways=True,
        ),
        Line(
            name="gateway, stdio, 32 in flight",
            note="#",
            open=many_in_flight(),
            rounds=20,
            bar=None,
            least_per_second=2_000,
            per_second=True,
            gateways=True,
        ),
        Line(name="gateway, HTTP", note="#", open=http_behind(url), rounds=20, bar=None, most_more=1.5e-3),
        Line(
            name="gateway, 1,000 sessions",
            note="#",
            open=sessions(1_000),
            rounds=1,
            bar=None,
            most_more=200e6,
            unit="B",
        ),
        Line(name="gateway, CPU per call", note="#", open=cpu_per_call(), rounds=10, bar=None, most=240e-6),
        Line(
            name="gateway, 100 servers",
            note="#",
            open=idle_servers(100),
            rounds=1,
            bar=None,
            most=100 * MIB,
            unit="B",
        ),
    ]


def call_line(
    name: str,
    url: str | None,
    work: Work,
    *,
    bar: float | None,
    rounds: int = 20,
    era: Era = "modern",
    with_peers: bool = False,
    loop: Loop = "asyncio",
) -> Line:
    """A line about calls, over stdio if there is no URL."""
    return Line(
        name=name,
        open=calls(url, work, era, with_peers=with_peers),
        rounds=rounds,
        bar=bar,
        loop=loop,
        per_second=work is in_flight,
        with_peers=with_peers,
    )


def limit_line(name: str, url: str | None, *, bar: float) -> Line:
    """A line about the CPU time of calls, next to a client that is written by hand."""
    return Line(name=name, note="@", open=beside_limit(url, cpu_in_flight), rounds=20, bar=bar)


def memory_line(name: str, opening: Opening, bar: float = 1.0) -> Line:
    """A line about the bytes held for each of many."""
    return Line(name=f"memory per {name}", open=opening, rounds=1, bar=bar, unit="B")


def turn_line(name: str, opening: Opening) -> Line:
    """A line about the turn of an agent of a framework."""
    return Line(name=f"turn, {name}", note="***", open=opening, rounds=20, bar=1.3)


def selected(known: Sequence[Line], patterns: Sequence[str]) -> list[Line]:
    """The lines whose names match one of the patterns, in any case; all of them if there is no pattern."""
    folded = [pattern.casefold() for pattern in patterns or ["*"]]
    return [line for line in known if any(fnmatchcase(line.name.casefold(), pattern) for pattern in folded)]
