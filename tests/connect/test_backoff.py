"""The times of retries: sooner, later, and not all at once."""

from tests.inside.connect import Backoff, backoff


def test_pauses_grow_and_the_breaker_opens() -> None:
    tries = Backoff()
    assert tries.pause() == 0.0
    pauses: list[float] = []
    while not tries.open:
        tries.record_failure()
        pauses.append(tries.pause())
    bounds = [backoff.INITIAL_PAUSE * 2**n for n in range(backoff.BREAKER_THRESHOLD - 1)]
    for pause, longest in zip(pauses, bounds, strict=False):
        assert longest / 2 <= pause <= longest
    assert backoff.OPEN_PAUSE / 2 <= pauses[-1] <= backoff.OPEN_PAUSE


def test_a_link_that_held_is_forgiven_and_one_that_did_not_is_not() -> None:
    tries = Backoff(failures=3)
    tries.record_uptime(backoff.STABLE_AFTER - 1)
    assert tries.failures == 3
    tries.record_uptime(backoff.STABLE_AFTER)
    assert tries.failures == 0


def test_the_pause_of_an_open_breaker_has_an_end() -> None:
    tries = Backoff(failures=1000)
    assert tries.pause() <= backoff.MAX_OPEN_PAUSE


def test_a_link_without_a_process_is_tried_every_few_seconds_for_as_long_as_it_takes() -> None:
    pauses = [Backoff(failures=failures).pause(spawns=False) for failures in (5, 50, 500, 5_000_000)]
    assert all(0 < pause <= backoff.MAX_PAUSE for pause in pauses)
    assert backoff.MAX_PAUSE <= 5


def test_many_links_lost_together_do_not_come_back_together() -> None:
    assert len({Backoff(failures=4).pause() for _ in range(20)}) > 10
