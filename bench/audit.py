"""The outcomes reported to callers, compared with the executions on the servers."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

from toolbus import CallTimeout, ConnectionLost, ServerDown

Told: TypeAlias = Literal["ok", "unknown", "not sent", "timeout", "wrong answer", "other"]


@dataclass(frozen=True, slots=True)
class Check:
    """A promise, and what speaks against it."""

    promise: str
    looked: int
    """The number of calls that were checked."""
    against: tuple[str, ...]

    def __str__(self) -> str:
        verdict = "FAILED" if self.against else "ok"
        examples = "".join(f"\n          {fact}" for fact in self.against[:5])
        broken = f", broken by {len(self.against):,}" if self.against else ""
        return f"{verdict:<8}{self.promise} ({self.looked:,}{broken}){examples}"


def told(error: Exception) -> Told:
    """The information about the call in an error."""
    match error:
        case ConnectionLost(sent=True):
            return "unknown"
        case ConnectionLost() | ServerDown():
            return "not sent"
        case CallTimeout():
            return "timeout"
        case _:
            return "other"


class Book:
    """The callers' side, kept in a file: a list in memory would look like a leak."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = path.open("w")
        self.totals: Counter[tuple[str, Told]] = Counter()
        self.oddities: list[str] = []

    def enter(self, number: int, server: str, tool: str, outcome: Told, fact: str = "") -> None:
        """Note what a call came to."""
        self._file.write(f"{number}\t{server}\t{tool}\t{outcome}\n")
        self.totals[tool, outcome] += 1
        if outcome in ("wrong answer", "other"):
            self.oddities.append(f"call {number} of {server}/{tool}: {fact}")

    def close(self) -> None:
        """No more calls."""
        self._file.close()

    def checks(self, ledgers: Iterable[Path]) -> list[Check]:
        """Every promise, held against the servers' own files."""
        done = executions(ledgers)
        looked: Counter[str] = Counter()
        against: defaultdict[str, list[str]] = defaultdict(list)
        with self._path.open() as book:
            for line in book:
                number, server, tool, outcome = line.rstrip("\n").split("\t")
                times = done.pop((server, tool, int(number)), 0)
                for promise, kept in promises(tool, outcome, times):
                    looked[promise] += 1
                    if not kept:
                        against[promise].append(f"call {number} of {server}: executed {times} times")
        checks = [Check(promise, looked[promise], tuple(against[promise])) for promise in PROMISES]
        calls = self.totals.total()
        strays = tuple(f"{server}: {tool} {number}" for server, tool, number in done)
        return [
            *checks,
            Check("every execution belongs to a call", calls, strays),
            Check(
                "every answer belongs to its call, every error is one of these", calls, tuple(self.oddities)
            ),
        ]


PROMISES = (
    "count, told ok: executed exactly once",
    "count, told not sent: never executed",
    "count, told unknown: executed at most once",
    "count, told timeout: executed at most once",
    "count, with any outcome: never executed twice",
    "read, told ok: executed",
)


def promises(tool: str, outcome: str, times: int) -> Iterator[tuple[str, bool]]:
    """The promises that concern a call, and whether they were kept."""
    if tool == "read":
        if outcome == "ok":
            yield PROMISES[5], times >= 1
        return
    match outcome:
        case "ok":
            yield PROMISES[0], times == 1
        case "not sent":
            yield PROMISES[1], times == 0
        case "unknown":
            yield PROMISES[2], times <= 1
        case "timeout":
            yield PROMISES[3], times <= 1
        case _:
            pass
    yield PROMISES[4], times <= 1


def executions(ledgers: Iterable[Path]) -> Counter[tuple[str, str, int]]:
    """The number of executions of each call, by server, tool and id."""
    done: Counter[tuple[str, str, int]] = Counter()
    for ledger in ledgers:
        with ledger.open() as lines:
            for line in lines:
                tool, number = line.split()
                done[ledger.name, tool, int(number)] += 1
    return done
