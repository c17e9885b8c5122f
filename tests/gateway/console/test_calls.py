"""What a console remembers of calls: bounded, in order, and counted for the charts."""

import pytest

from tests.inside.console import LONGEST_TEXT, MOST_CALLS, STEP, CallLog, CallRecord, Counts, chart
from tests.inside.core import Failure, Operation, Reason, ToolResult, request_spec

OK = ToolResult()


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


def _start(log: CallLog, name: str = "read", route: str = "tools/call") -> CallRecord:
    record = log.start(Operation(spec=request_spec(route, "files", name), arguments={}))
    assert record is not None
    return record


def _call(log: CallLog, clock: Clock, seconds: float, reason: Reason | None = None, name: str = "x") -> None:
    record = _start(log, name)
    clock.now += seconds
    record.end(OK, None) if reason is None else record.end(None, Failure(reason, "why"))


def test_the_last_calls_are_remembered_and_no_more() -> None:
    log, clock = CallLog(), Clock()
    for number in range(MOST_CALLS + 5):
        _call(log, clock, 0, name=f"call {number}")
    assert [one.name for one in log.ended] == [f"call {number}" for number in range(MOST_CALLS + 4, 4, -1)]
    assert log.in_flight == []


def test_a_call_is_in_flight_until_it_ends() -> None:
    clock = Clock()
    log = CallLog(clock)
    first, second = _start(log, "first"), _start(log, "second")
    clock.now += 2
    assert [one.name for one in log.in_flight] == ["second", "first"]
    assert log.running_for(first) == 2
    first.end(None, Failure("timed_out", "timed out after 2 s"))
    assert (first.outcome, first.error, first.elapsed, first.is_error) == (
        "timed_out",
        "timed out after 2 s",
        2,
        True,
    )
    assert log.in_flight == [second]
    assert log.ended == [first]


def test_long_texts_are_cut() -> None:
    log = CallLog()
    record = _start(log, "n" * 100_000, "resources/read")
    record.end(None, Failure("server_failed", "e" * 100_000))
    assert len(record.name) == len(record.error or "") == LONGEST_TEXT


def test_what_a_server_asks_is_not_a_call() -> None:
    log = CallLog()
    asked = Operation(spec=request_spec("elicitation/create", "files", "x"), arguments={})
    assert log.start(asked) is None


def test_calls_are_counted_by_when_they_ended() -> None:
    clock = Clock()
    log = CallLog(clock)
    for _ in range(90):
        _call(log, clock, 0.01)
    clock.now = 1000.0 + 3 * STEP
    for _ in range(10):
        _call(log, clock, 1.0, "server_failed")
    _call(log, clock, 0, "refused")
    steps = log.steps()
    assert [(one.calls, one.errors) for one in steps[-5:]] == [(90, 0), (0, 0), (0, 0), (9, 9), (2, 2)]
    assert steps[-4] == Counts()
    whole = log.last(900)
    assert (whole.calls, whole.errors) == (101, 11)
    # To within the width of a bucket; what was refused took no server's time.
    assert whole.p50 == pytest.approx(0.01, rel=0.2)
    assert whole.p95 == pytest.approx(1.0, rel=0.2)
    assert log.last(5).calls == 6


def test_counts_go_back_fifteen_minutes_and_take_no_more_memory() -> None:
    clock = Clock()
    log = CallLog(clock)
    for _ in range(2000):
        _call(log, clock, 1.0)
    assert len(log.steps()) == 90
    assert sum(one.calls for one in log.steps()) in range(890, 902)
    assert len(log._seconds) == 901  # pyright: ignore[reportPrivateUsage]  the bound itself
    clock.now += 1000
    assert log.last(900) == Counts()
    assert log.steps() == [Counts()] * 90


def test_a_chart_says_in_words_what_its_lines_show() -> None:
    drawn = str(chart("Latency", "half took up to 3 ms", [[None, 1.0, 2.0, None, 4.0], [0.0] * 5], "4 ms"))
    assert "<title>Latency: half took up to 3 ms</title>" in drawn
    assert 'role="img"' in drawn
    assert drawn.count('stroke="currentColor"') == 4  # the base, two pieces, and the other line
    assert 'd="M75.0 63.0L150.0 47.0"' in drawn
    assert 'd="M300.0 15.0h1"' in drawn
    assert "<script" not in drawn


def test_a_chart_without_values_is_empty() -> None:
    assert ">0 per second<" not in str(chart("Calls", "none", [[0, 0]], "0 per second"))
    assert str(chart("Calls", "none", [[None, None]], "")).count("<path") == 1
