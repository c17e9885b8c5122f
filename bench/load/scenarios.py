"""The measurements: processes and clients, growing costs, and one user who wants everything."""

import asyncio
import json
import subprocess
import sys
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from subprocess import PIPE
from typing import Any, Literal, TypeAlias

from bench.gateways import TEXT
from bench.http_load import lanes, request
from bench.load.gateway import Gateway, gateway
from bench.load.measure import LONGEST, Figure, loaded, measured
from bench.sides import ROOT, TOOLS, bus_entry, http_server

Kind: TypeAlias = Literal["servers", "tools", "users"]
CLIENTS = 10
"""The number of calling clients while servers, tools and users grow."""
GREEDY = 1000
ECHO = "bench_echo"


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The amount of measurements."""

    workers: Sequence[int] = (1, 2, 4)
    clients: Sequence[int] = (10, 100, 1000)
    sizes: Sequence[int] = (1, 10, 100, 1000)
    seconds: float = 4.0
    greedy: int = GREEDY


QUICK = Plan(workers=(1, 2), clients=(2, 10), sizes=(1, 10), seconds=0.3, greedy=40)


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One figure, and what it is of."""

    group: str
    """`processes`, `servers`, `tools`, `users` or `greedy`."""
    size: int
    """The size within the group."""
    clients: int
    figure: Figure
    start: float = 0.0
    """Seconds until the gateway was ready."""
    note: str = ""


def rows(plan: Plan, only: str = "") -> Iterator[Row]:
    """Every figure, as soon as it is ready; `only` selects one group."""
    if only in ("", "processes"):
        yield from by_processes(plan)
    for kind in ("servers", "tools", "users"):
        if only in ("", kind):
            yield from growing(kind, plan)
    if only in ("", "greedy"):
        yield from with_a_greedy_user(plan)


def by_processes(plan: Plan) -> Iterator[Row]:
    """Calls of a stdio server, of which each worker has one, by 50 users."""
    for workers in plan.workers:
        with gateway({"bench": bus_entry(None, "modern")}, workers=workers, users=50) as served:
            for clients in plan.clients:
                figure = asyncio.run(loaded(served, clients, plan.seconds, [ECHO]))
                start = served.start_seconds
                yield Row(group="processes", size=workers, clients=clients, figure=figure, start=start)


def growing(kind: Kind, plan: Plan) -> Iterator[Row]:
    """The same load on one process, with more and more of a kind, all of which are used in turn."""
    for size in plan.sizes if kind != "tools" else [max(size, TOOLS) for size in plan.sizes]:
        with _GROWN[kind](size) as (served, tools):
            figure = asyncio.run(loaded(served, CLIENTS, plan.seconds, tools))
            yield Row(group=kind, size=size, clients=CLIENTS, figure=figure, start=served.start_seconds)


@contextmanager
def _with_servers(size: int) -> Generator[tuple[Gateway, list[str]]]:
    with http_server() as url:
        servers = {f"s{number}": bus_entry(url, "modern") for number in range(size)}
        with gateway(servers) as served:
            yield served, [f"{alias}_echo" for alias in servers]


@contextmanager
def _with_tools(size: int) -> Generator[tuple[Gateway, list[str]]]:
    with http_server(size) as url, gateway({"bench": bus_entry(url, "modern")}) as served:
        yield served, [ECHO]


@contextmanager
def _with_users(size: int) -> Generator[tuple[Gateway, list[str]]]:
    with (
        http_server() as url,
        gateway({"bench": bus_entry(url, "modern")}, users=size, own_users=True) as served,
    ):
        yield served, [ECHO]


_GROWN: dict[Kind, Callable[[int], Any]] = {
    "servers": _with_servers,
    "tools": _with_tools,
    "users": _with_users,
}


def with_a_greedy_user(plan: Plan) -> Iterator[Row]:
    """One client of a user, alone and beside another user with many, with the limits that are the default."""
    with gateway({"bench": bus_entry(None, "modern")}, users=2, limits={}) as served:
        alone = asyncio.run(_single(served, plan.seconds))
        yield Row(group="greedy", size=0, clients=1, figure=alone, note="alone")
        with _crowd(served, plan.greedy) as crowd:
            beside = asyncio.run(_single(served, plan.seconds))
        note = f"beside {plan.greedy:,} of another"
        figure = replace(beside, refused=crowd["refused"])
        yield Row(group="greedy", size=plan.greedy, clients=1, figure=figure, note=note)


async def _single(served: Gateway, seconds: float) -> Figure:
    data = request(served.url, ECHO, TEXT, served.keys[0])
    async with asyncio.timeout(LONGEST + seconds), lanes(served.url, 1) as alone:
        return await measured(served, alone, [[data]], seconds)


@contextmanager
def _crowd(served: Gateway, clients: int) -> Generator[dict[str, int]]:
    """Clients of the other user that call all the time; the dict has their results after the block."""
    words = [sys.executable, "-m", "bench.load.crowd", served.url, served.keys[1], str(clients), ECHO]
    found: dict[str, int] = {}
    with subprocess.Popen(words, cwd=ROOT, stdin=PIPE, stdout=PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "connected\n"
            yield found
            printed, _ = process.communicate(timeout=LONGEST)
            found.update(json.loads(printed))
        finally:
            process.kill()
