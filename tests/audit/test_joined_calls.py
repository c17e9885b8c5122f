"""A trail as one entry per call: its lines are joined, with any other lines between them."""

import json
from itertools import count
from pathlib import Path
from typing import Any

from tests.inside.audit import NO_END, AuditedCall, AuditQuery, audited_calls

EVERY = AuditQuery()


class _Trail:
    """A trail whose lines a test writes by hand."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "audit.jsonl"
        self._numbers = count(1)

    def add(self, event: str, call: str = "", **fields: Any) -> None:
        number = next(self._numbers)
        at = f"2026-11-16T15:{number // 60:02}:{number % 60:02}.000Z"
        line = {"seq": number, "time": at, "event": event, **({"id": call} if call else {}), **fields}
        with self.file.open("a") as file:
            print(json.dumps(line), file=file)

    def read(self, query: AuditQuery = EVERY, skip: int = 0, most: int = 50, lines: int = 10_000) -> Any:
        return audited_calls(self.file, query, skip=skip, most=most, lines=lines)

    def shown(self, query: AuditQuery = EVERY, **more: int) -> list[tuple[str, str, str]]:
        return [_shown(call) for call in self.read(query, **more).calls]


def _shown(call: AuditedCall) -> tuple[str, str, str]:
    return call.id, call.decision, call.outcome


def _overlapping(folder: Path) -> _Trail:
    trail = _Trail(folder)
    trail.add("started")
    trail.add("decided", "a", server="files", tool="read", decision="allow", by="default", user="ann")
    trail.add("decided", "b", server="files", tool="write", decision="deny", by="policy", rule="policy[0]")
    trail.add("decided", "c", server="shop", tool="buy", decision="allow", by="policy", rule="policy[1]")
    trail.add("ended", "c", server="shop", tool="buy", outcome="timed_out", ms=12.0, error="late")
    trail.add("ended", "a", server="files", tool="read", outcome="ok", ms=30.0)
    trail.add("ended", "d", tool="nobody_knows", outcome="unknown_tool")
    trail.add("decided", "e", server="files", tool="read", decision="allow", by="default")
    return trail


def test_decision_and_outcome_of_a_call_are_one_entry(tmp_path: Path) -> None:
    found = _overlapping(tmp_path).read()
    assert [_shown(call) for call in found.calls] == [
        ("e", "allow", NO_END),
        ("d", "", "unknown_tool"),
        ("a", "allow", "ok"),
        ("c", "allow", "timed_out"),
        ("b", "deny", ""),
        ("", "", ""),
    ]
    assert (found.has_older, found.was_cut) == (False, False)
    ended = found.calls[3]
    assert (ended.at, ended.get("error"), ended.get("rule")) == (
        "2026-11-16T15:00:04.000Z",
        "late",
        "policy[1]",
    )


def test_each_filter_sees_the_whole_call(tmp_path: Path) -> None:
    trail = _overlapping(tmp_path)

    def ids(**wanted: str) -> str:
        return "".join(call[0] for call in trail.shown(AuditQuery(**wanted)))

    assert ids(tool="files/*") == "eab"
    assert ids(tool="buy") == ids(server="shop") == ids(outcome="timed_out") == "c"
    assert ids(caller="ann") == "a"
    assert ids(decision="deny") == "b"
    assert ids(outcome="failed") == "dc"
    assert ids(outcome="failed", decision="allow") == "c"
    assert ids(outcome=NO_END) == "e"
    assert ids(since="2026-11-16T15:00:07") == "ed"
    assert ids(until="2026-11-16T15:00:03") == "ab"
    assert ids(until="2026-11-16") == "edacb"
    assert ids(since="2026-11-17") == ""


def test_pages_have_every_call_once(tmp_path: Path) -> None:
    trail = _Trail(tmp_path)
    for number in range(20):  # each ends after the next one has begun
        trail.add("decided", f"{number}", server="s", tool="t", decision="allow", by="default")
        if number:
            trail.add("ended", f"{number - 1}", server="s", tool="t", outcome="ok", ms=1.0)
    for most in (1, 3, 7):
        pages = [trail.shown(skip=skip, most=most) for skip in range(0, 21, most)]
        found = [int(call[0]) for page in pages for call in page]
        assert sorted(found) == list(range(20))
        # By what happened last: the end of a call, or the beginning of the next one.
        assert found == [18, 19, *range(17, -1, -1)]
    assert trail.read(skip=0, most=19).has_older
    assert not trail.read(skip=0, most=20).has_older


def test_a_search_that_is_cut_says_so_and_shows_what_it_found(tmp_path: Path) -> None:
    trail = _overlapping(tmp_path)
    found = trail.read(lines=4)
    assert found.was_cut
    # The decision of `c` is in a line that was not read.
    assert [_shown(call) for call in found.calls][-1] == ("c", "", "timed_out")
