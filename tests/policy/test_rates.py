"""The number of calls that a rule allows over time."""

from tests.inside.core import PROGRAM, Caller
from tests.inside.policy import Rates
from tests.policy.targets import rule


class Clock:
    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


def test_a_rule_without_rates_is_never_over() -> None:
    rates = Rates()
    assert {rates.over(rule(do="allow"), "policy[0]", PROGRAM) for _ in range(1_000)} == {None}


def test_at_most_so_many_calls_in_any_minute() -> None:
    clock = Clock()
    rates, limited = Rates(clock), rule(do="allow", per_minute=3)
    given: list[float] = []
    for _ in range(300):
        if rates.over(limited, "policy[0]", PROGRAM) is None:
            given.append(clock.now)
        clock.now += 1.7
    assert len(given) > 20
    assert all(after - before >= 60 for before, after in zip(given, given[3:], strict=False))


def test_the_reason_says_when_to_try_again() -> None:
    clock = Clock()
    rates, limited = Rates(clock), rule(do="allow", per_minute=1)
    assert rates.over(limited, "policy[2]", PROGRAM) is None
    clock.now += 47.5
    assert (
        rates.over(limited, "policy[2]", PROGRAM) == "policy[2] allows 1 call per minute; try again in 13 s"
    )
    clock.now += 12.5
    assert rates.over(limited, "policy[2]", PROGRAM) is None


def test_a_refused_call_does_not_count() -> None:
    clock = Clock()
    rates, limited = Rates(clock), rule(do="allow", per_minute=1, per_run=2)
    assert rates.over(limited, "policy[0]", PROGRAM) is None
    assert all(rates.over(limited, "policy[0]", PROGRAM) is not None for _ in range(5))
    clock.now += 60
    assert rates.over(limited, "policy[0]", PROGRAM) is None
    clock.now += 60
    assert rates.over(limited, "policy[0]", PROGRAM) == (
        "policy[0] allows 2 calls per run, and this run has used them up"
    )


def test_every_run_of_every_user_and_session_counts_for_itself() -> None:
    rates, limited = Rates(), rule(do="allow", per_run=1)
    callers = [
        PROGRAM,
        Caller(run="1"),
        Caller(run="2"),
        Caller(user="ann", run="1"),
        Caller(session="s", run="1"),
        Caller(user="ann"),
    ]
    assert {rates.over(limited, "policy[0]", caller) for caller in callers} == {None}
    assert None not in {rates.over(limited, "policy[0]", caller) for caller in callers}
    assert rates.over(limited, "policy[0]", Caller(face="langchain", run="1")) is not None


def test_every_rule_counts_for_itself() -> None:
    rates, limited = Rates(), rule(do="allow", per_run=1, per_minute=1)
    assert rates.over(limited, "policy[0]", PROGRAM) is None
    assert rates.over(limited, "policy[1]", PROGRAM) is None


def test_another_rate_keeps_the_calls_that_were_made() -> None:
    """The situation is the same after a reload of the config."""
    rates = Rates(Clock())
    for _ in range(5):
        assert rates.over(rule(do="allow", per_minute=5), "policy[0]", PROGRAM) is None
    assert rates.over(rule(do="allow", per_minute=2), "policy[0]", PROGRAM) is not None


def test_runs_without_end_are_not_remembered() -> None:
    """A bus that lives for months holds a bounded number of runs, the latest ones."""
    rates, limited = Rates(), rule(do="allow", per_run=1)
    for number in range(15_000):
        assert rates.over(limited, "policy[0]", Caller(run=str(number))) is None
    held = rates._runs  # pyright: ignore[reportPrivateUsage]  # nothing else shows what is held
    assert len(held) <= 10_000
    assert rates.over(limited, "policy[0]", Caller(run="14999")) is not None
