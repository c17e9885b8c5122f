"""The outage test of replicas, `make replicas`: what it notices, and a small run of it."""

import json
from collections import Counter
from typing import Any

import pytest

from tests import warm
from tests.gateway.replicas.balancer import HAPROXY, MISSING
from tests.gateway.replicas.rig.__main__ import document, table
from tests.gateway.replicas.rig.accounts import Expected, account, kind_of
from tests.gateway.replicas.rig.scenarios import play

JSON = dict[str, Any]
EXPECTED = Expected(silence=15, excused=[(10.0, 20.0)], eras=("legacy",), gone={"old": (10.0, 99.0)})


def made(token: str, client: int = 1, *, began: float = 1.0, at: float = 2.0, **more: Any) -> list[JSON]:
    """The records of a call that was answered; `more` has the differences."""
    facts = {"client": client, "what": "call", "token": token, "tool": "write", "session": "s" * (client % 2)}
    ended = {"event": "ended", "began": began, "at": at, "status": 200, "text": token}
    return [{**facts, "event": "began", "at": began}, {**facts, **ended, **more}]


@pytest.mark.parametrize(
    ("found", "written", "broken"),
    [
        pytest.param(made("a"), {"a": 1}, [], id="all is well"),
        pytest.param(made("a"), {"a": 3}, ["2 effects were repeated"], id="repeated"),
        pytest.param(made("a"), {}, ["1 calls were answered without an effect"], id="no effect"),
        pytest.param(made("a")[:1], {"a": 1}, ["1 calls were never answered"], id="no answer"),
        pytest.param([], {"a": 1}, ["1 effects had no call"], id="no call"),
        pytest.param(
            made("a", status=404, text="there is no such session", began=11, at=12),
            {},
            ["1 sessions were lost"],
            id="session",
        ),
        pytest.param(
            made("a", began=1, at=17),
            {"a": 1},
            ["a client waited 16.0 s for an answer, which may take 15 s"],
            id="silence",
        ),
        pytest.param(
            made("a", text="b"),
            {"a": 1},
            ["1 calls got the answer of another one, such as call a write: 200 b"],
            id="mixed up",
        ),
        pytest.param(
            made("a", status=503, text="<h1>503 Service"),
            {},
            ["1 operations failed that must not, such as call a write: 503 of the balancer"],
            id="outside of the outage",
        ),
        pytest.param(
            made("a", status=0, text="ConnectionResetError()", at=12), {"a": 1}, [], id="in the outage"
        ),
        pytest.param(
            made("a", client=2, status=0, text="ConnectionResetError()", at=12),
            {},
            ["1 operations failed that must not, such as call a write: connection reset"],
            id="an era that the outage does not concern",
        ),
        pytest.param(made("a", status=500, text="Unknown tool: old", tool="old", at=12), {}, [], id="gone"),
        pytest.param(
            made("a", status=500, text="Unknown tool: old", tool="old"),
            {},
            ["1 operations failed that must not, such as call a old: unknown tool"],
            id="gone too early",
        ),
    ],
)
def test_the_report_notices_what_must_not_be(
    found: list[JSON], written: dict[str, int], broken: list[str]
) -> None:
    assert account(found, Counter(written), EXPECTED).broken == broken


def test_a_stream_of_a_session_that_its_client_has_ended_is_not_a_lost_session() -> None:
    refused = {"event": "ended", "client": 1, "began": 1.0, "at": 2.0, "status": 404, "text": ""}
    stream = {**refused, "what": "stream", "session": "s"}
    assert account([stream], Counter(), EXPECTED).lost_sessions == 1
    closed = {**refused, "what": "close", "session": "s", "status": 200}
    assert account([stream, closed], Counter(), EXPECTED).lost_sessions == 0


def test_failures_are_counted_by_kind_and_silence_by_the_longest() -> None:
    unknown = "whether the request took effect is not known: check before you repeat it"
    found = [
        *made("a", status=502, text=unknown, began=11, at=14),
        *made("b", status=0, text="TimeoutError('timed out')", began=11, at=18),
        *made("c", status=503, text="the database of this gateway does not respond", began=12, at=13),
        *made("d", status=500, text="replica 0123456789ab took 17 s", began=12, at=13),
        *made("e", began=19, at=20),
    ]
    report = account(found, Counter(["a", "e"]), EXPECTED)
    assert report.failed == {
        "in flight at a replica that ended or froze": 1,
        "no answer until the client gave up": 1,
        "503 of the store": 1,
        "500 replica N took N s": 1,
    }
    assert (report.calls, report.unanswered_effects, report.silence, report.broken) == (5, 1, 7, [])
    assert kind_of({"status": 0, "text": "RemoteDisconnected()"}) == "connection reset"


def test_reports_are_printed_side_by_side_and_as_json() -> None:
    failed = account(made("a", status=503, text="<h1>503 Service"), Counter("bb"), EXPECTED)
    found = {"kill": account(made("a"), Counter("a"), EXPECTED), "freeze": failed}
    lines = list(table(found))
    assert lines[0].split() == ["kill", "freeze"]
    assert "failed requests                          0        1" in lines
    assert "  503 of the balancer                    0        1" in lines
    assert "freeze: 1 effects were repeated" in lines
    read = json.loads(document(found))
    assert read["freeze"]["failed"] == {"503 of the balancer": 1}
    assert (read["kill"]["broken"], read["freeze"]["broken"]) == ([], failed.broken)


@pytest.mark.anyio
@pytest.mark.skipif(HAPROXY is None, reason=MISSING)
async def test_a_short_freeze_repeats_nothing_and_loses_no_session() -> None:
    """Real gateways, HAProxy and Postgres, and clients in processes of their own."""
    report = await play("freeze", clients=6, seconds=2, launch=warm.start)
    assert (report.repeated, report.missing_effects, report.lost_sessions) == (0, 0, 0)
    assert report.sessions >= 3
    assert report.calls > 6
    # A busy machine may be slow; nothing else is forgiven.
    assert [words for words in report.broken if not words.startswith("a client waited")] == []
