"""The method of a comparison: the same round of work on every side, run in turn, and the medians."""

import gc
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from statistics import median
from typing import Literal, TypeAlias

Round: TypeAlias = Callable[[], Awaitable[list[float]]]
"""One round of work; returns what each piece of it took."""
Piece: TypeAlias = Callable[[], Awaitable[float]]
Unit: TypeAlias = Literal["s", "B"]
Loop: TypeAlias = Literal["asyncio", "uvloop"]

PEER_ROUNDS = 5
"""The rounds of a peer, spread over the other rounds: its figure decides nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sides:
    """The same round on every side."""

    raw: Round
    toolbus: Round
    limit: Round | None = None
    second_raw: Round | None = None
    """Another baseline; the slower of the two is used as raw."""
    peers: Mapping[str, Round] = field(default_factory=dict[str, Round])
    """Other clients, by name. One that fails is left out; it does not end the run."""
    left_out: Mapping[str, str] = field(default_factory=dict[str, str])
    """The reasons why clients are not among the peers, by name."""


Opening: TypeAlias = Callable[[], AbstractAsyncContextManager[Sides]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One comparison; toolbus may take `bar` times what the raw client takes."""

    name: str
    open: Opening
    rounds: int
    bar: float | None
    """None: measured, never missed."""
    most_more: float | None = None
    """The time that toolbus may take in addition to the raw client, in the unit, instead of a bar."""
    least_per_second: float | None = None
    """The calls per second that toolbus has to reach, instead of a bar."""
    most: float | None = None
    """The time or bytes that toolbus may take in all, instead of a bar."""
    unit: Unit = "s"
    loop: Loop = "asyncio"
    per_second: bool = False
    """Whether calls per second say more than the time of one."""
    with_peers: bool = False
    gateways: bool = False
    """Whether its peers are other gateways, which have a table of their own."""
    note: str = ""
    """The mark of its footnote."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The medians of all sides of a line."""

    name: str
    raw: float
    toolbus: float
    bar: float | None
    rounds: int
    limit: float | None = None
    peers: Mapping[str, float] = field(default_factory=dict[str, float])
    left_out: Mapping[str, str] = field(default_factory=dict[str, str])
    most_more: float | None = None
    least_per_second: float | None = None
    most: float | None = None
    unit: Unit = "s"
    loop: Loop = "asyncio"
    per_second: bool = False
    with_peers: bool = False
    gateways: bool = False
    note: str = ""
    retried: bool = False

    @property
    def ratio(self) -> float:
        return self.toolbus / self.raw

    @property
    def limit_ratio(self) -> float | None:
        return None if self.limit is None else self.limit / self.raw

    @property
    def peer_ratios(self) -> dict[str, float]:
        return {name: taken / self.raw for name, taken in self.peers.items()}

    @property
    def met(self) -> bool:
        if self.most is not None and self.toolbus > self.most:
            return False
        if self.most_more is not None and self.toolbus - self.raw > self.most_more:
            return False
        if self.least_per_second is not None and 1 / self.toolbus < self.least_per_second:
            return False
        return self.bar is None or self.ratio <= self.bar


async def measured(line: Line, rounds: int) -> Outcome:
    """Measure a line in that many rounds."""
    async with line.open() as sides:
        # What is held in a fresh interpreter does not need a warm one beside it.
        taken, failed = await _take_turns(sides, rounds, warm_up=line.unit == "s")
    medians = {name: median(times) for name, times in taken.items() if name not in failed}
    baseline = max(medians["raw"], medians.get("second raw", 0.0))
    return Outcome(
        name=line.name,
        raw=baseline,
        toolbus=medians["toolbus"],
        limit=medians.get("limit"),
        peers={name: medians[name] for name in sides.peers if name in medians},
        left_out={**sides.left_out, **failed},
        bar=line.bar,
        most_more=line.most_more,
        least_per_second=line.least_per_second,
        most=line.most,
        rounds=rounds,
        unit=line.unit,
        loop=line.loop,
        per_second=line.per_second,
        with_peers=line.with_peers,
        gateways=line.gateways,
        note=line.note,
    )


async def _take_turns(
    sides: Sides, rounds: int, *, warm_up: bool
) -> tuple[dict[str, list[float]], dict[str, str]]:
    """Run all sides in turn, so that other work of the machine hits all of them."""
    own = {"raw": sides.raw, "toolbus": sides.toolbus, "limit": sides.limit, "second raw": sides.second_raw}
    turns = {name: run for name, run in own.items() if run is not None} | dict(sides.peers)
    taken: dict[str, list[float]] = {name: [] for name in turns}
    failed: dict[str, str] = {}
    every = max(1, rounds // PEER_ROUNDS)
    for number in range(0 if warm_up else 1, rounds + 1):
        for name in list(turns) if number % 2 else reversed(list(turns)):
            if name in sides.peers and number % every:
                continue
            gc.collect()  # nobody pays for the garbage of the side before
            try:
                times = await turns[name]()
            except Exception as error:  # a peer's, of any kind
                if name not in sides.peers:
                    raise
                failed[name] = reason(error)
                del turns[name]
                continue
            if number:  # the first round of each warms up
                taken[name] += times
    return taken, failed


def single(piece: Piece) -> Round:
    """A round of one piece."""

    async def run() -> list[float]:
        return [await piece()]

    return run


def reason(error: Exception) -> str:
    """The reason why a client was left out, on one line."""
    if isinstance(error, ImportError):
        return f"not installed: {error}"
    return f"{type(error).__name__}: {error}".partition("\n")[0]
