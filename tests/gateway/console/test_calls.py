"""The console's memory of calls: bounded, in order, and counted for the charts."""

import time

import pytest

from tests.inside.audit import CallFilter, HistoryCall
from tests.inside.console import (
    CRASHES,
    LONGEST_TEXT,
    MOST_CALLS,
    RANGES,
    CallLog,
    CallRecord,
    Chart,
    Counts,
    ServerStates,
    chart,
    state_strip,
)
from tests.inside.core import Failure, Operation, Reason, StateChanged, Text, ToolResult, request_spec

OK = ToolResult()
STEP = RANGES["15m"].step


class Clock:
    now = 10_000.0

    def __call__(self) -> float:
        return self.now


def _start(log: CallLog, name: str = "read", route: str = "tools/call", server: str = "files") -> CallRecord:
    record = log.start(Operation(spec=request_spec(route, server, name), arguments={}))
    assert record is not None
    return record


def _call(
    log: CallLog, clock: Clock, seconds: float, reason: Reason | None = None, server: str = "files"
) -> None:
    record = _start(log, server=server)
    clock.now += seconds
    record.end(OK, None) if reason is None else record.end(None, Failure(reason, "why"))


def test_the_last_calls_are_remembered_and_no_more() -> None:
    log = CallLog()
    for number in range(MOST_CALLS + 5):
        _start(log, f"call {number}").end(OK, None)
    expected = [f"call {number}" for number in range(MOST_CALLS + 4, 4, -1)]
    assert [one.name for one in log.ended] == expected
    assert log.in_flight == []


def test_a_call_is_in_flight_until_it_ends_and_found_by_its_id_all_the_time() -> None:
    clock = Clock()
    log = CallLog(clock)
    first, second = _start(log, "first"), _start(log, "second")
    clock.now += 2
    assert [one.name for one in log.in_flight] == ["second", "first"]
    assert log.running_for(first) == 2
    assert log.get(first.id) is first
    first.end(None, Failure("timed_out", "timed out after 2 s"))
    assert (first.outcome, first.error, first.elapsed, first.is_error) == (
        "timed_out",
        "timed out after 2 s",
        2,
        True,
    )
    assert (log.in_flight, log.ended, log.get(first.id)) == ([second], [first], first)


def test_ids_of_two_processes_differ() -> None:
    one, other = CallLog(), CallLog()
    record = _start(one)
    assert one.get(record.id) is record
    assert other.get(record.id) is other.get("x-²") is other.get("") is None


def test_long_texts_are_cut() -> None:
    log = CallLog()
    record = _start(log, "n" * 100_000, "resources/read")
    record.end(None, Failure("server_failed", "e" * 100_000))
    assert len(record.name) == len(record.error or "") == LONGEST_TEXT


def test_what_a_tool_reports_as_its_error_is_its_error_text() -> None:
    record = _start(CallLog())
    record.end(ToolResult(content=(Text(text="no such file"),), is_error=True), Failure("tool_error"))
    assert (record.error, record.size) == ("no such file", 12)


def test_what_a_server_asks_is_not_a_call() -> None:
    log = CallLog()
    asked = Operation(spec=request_spec("elicitation/create", "files", "x"), arguments={})
    assert log.start(asked) is None


def test_calls_are_counted_by_when_they_ended_for_each_server_and_all() -> None:
    clock = Clock()
    log = CallLog(clock)
    for _ in range(90):
        _call(log, clock, 0.01)
    clock.now = 10_000.0 + 3 * STEP
    for _ in range(10):
        _call(log, clock, 1.0, "server_failed", "web")
    _call(log, clock, 0, "refused")
    steps = log.counts.steps()
    assert [(one.calls, one.errors) for one in steps[-5:]] == [(90, 0), (0, 0), (0, 0), (9, 9), (2, 2)]
    assert steps[-4] == Counts()
    whole, web = log.counts.last(900), log.counts.last(900, "web")
    assert (whole.calls, whole.errors, web.calls, web.errors) == (101, 11, 10, 10)
    # To within the width of a bucket; what was refused took no server's time.
    assert whole.p50 == pytest.approx(0.01, rel=0.2)
    assert whole.p95 == web.p50 == pytest.approx(1.0, rel=0.2)
    assert log.counts.last(STEP).calls == 2
    assert log.counts.last(900, "nobody") == Counts()


def test_counts_go_back_a_day_and_take_no_more_memory() -> None:
    clock = Clock()
    log = CallLog(clock)
    for _ in range(500):
        _call(log, clock, 600.0)
    assert [len(log.counts.steps(key)) for key in ("15m", "1h", "24h")] == [90, 60, 96]
    assert sum(one.calls for one in log.counts.steps("24h")) in range(143, 146)
    clock.now += 2 * RANGES["24h"].seconds
    assert log.counts.steps("24h") == [Counts()] * 96


def test_a_chart_says_in_words_what_its_lines_show_and_has_axes() -> None:
    shown = Chart("Latency", "half took 3 ms", [[None, 1.0, 2.0, None, 4.0], [0.0] * 5], "{:g} ms".format)
    drawn = str(chart(shown, RANGES["15m"]))
    assert "<title>Latency: half took 3 ms</title>" in drawn
    assert 'role="img"' in drawn
    assert all(f">{text}<" in drawn for text in ("0", "2.5 ms", "5 ms", "-15 min", "-5 min 0 s", "now")) or (
        all(f">{text}<" in drawn for text in ("0", "2.5 ms", "5 ms", "-15 min", "-5 min", "now"))
    )
    assert drawn.count('class="line"') == 3  # two pieces, and the other line
    assert "<script" not in drawn


def test_a_chart_without_values_has_no_numbers() -> None:
    shown = Chart("Calls", "none", [[None, None]], "never {}".format)
    assert "never" not in str(chart(shown, RANGES["1h"]))


# States


def _changed(state: str, previous: str, at: float, error: str | None = "exited") -> StateChanged:
    return StateChanged(server="s", state=state, previous=previous, error=error, at=at)  # pyright: ignore[reportArgumentType]  states


def test_three_crashes_within_ten_minutes_are_a_loop_although_the_server_is_ready() -> None:
    now = Clock()
    states = ServerStates(now)
    states.begin("s", "ready", now() - 3000)
    for number in range(CRASHES):
        assert not states.is_crash_looping("s")
        states.note(_changed("retrying", "ready", now() - 100 + number))
        states.note(_changed("ready", "retrying", now() - 99 + number, None))
    assert states.is_crash_looping("s")
    assert [one.error for one in states.crashes("s")] == ["exited"] * CRASHES
    now.now += 700
    assert not states.is_crash_looping("s")


def test_a_restart_by_hand_is_no_crash() -> None:
    states = ServerStates(time.time)
    for _ in range(5):
        states.note(_changed("retrying", "ready", time.time(), None))
    assert (states.crashes("s"), states.is_crash_looping("s")) == ([], False)


def test_a_strip_has_the_shares_of_a_day_in_words() -> None:
    now = Clock()
    now.now = 200_000.0
    states = ServerStates(now)
    states.begin("s", "ready", now() - 43_200)
    states.note(_changed("failed", "ready", now() - 21_600))
    drawn = str(state_strip(states, "s"))
    assert "<title>s, last 24 hours: not known 50%, ready 25%, failed 25%; 1 crash</title>" in drawn
    assert [drawn.count(f'class="{tone}"') for tone in ("good", "bad", "quiet")] == [1, 1, 1]
    assert "not known 100%" in str(state_strip(states, "nobody"))


# Filters


def test_a_filter_matches_as_its_pattern_says() -> None:
    call = HistoryCall(
        id="a-1", at=1.0, ended=2.0, route="tools/call", server="files", tool="read_file",
        name="files_read_file", user="ann", face="gateway", outcome="timed_out",
    )  # fmt: skip
    fits = [{}, {"tool": "READ"}, {"tool": "files/*"}, {"tool": "*_file"}, {"caller": "ann"}]
    fits += [{"outcome": "failed"}, {"outcome": "timed_out"}, {"since": 2.0, "until": 3.0}]
    misses = [{"tool": "read*"}, {"tool": "read_f.le"}, {"caller": "bob"}, {"outcome": "ok"}]
    misses += [{"since": 2.1}, {"until": 2.0}, {"server": "file"}]
    assert [one for one in fits if not CallFilter(**one).matches(call)] == []  # pyright: ignore[reportArgumentType]  of any field
    assert [one for one in misses if CallFilter(**one).matches(call)] == []  # pyright: ignore[reportArgumentType]  of any field
