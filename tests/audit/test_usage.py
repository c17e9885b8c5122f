"""`toolbus audit usage`: what a trail says about the use of tools, and what to do about it."""

import json
import resource
import shlex
import time
from pathlib import Path
from typing import Any

import pytest

from tests.cli.running import Done, environment, scripted, toolbus, write_config
from tests.inside.audit import (
    OTHERS,
    Durations,
    History,
    HistoryCall,
    HistoryWriter,
    UsageCounts,
    UsedCall,
    calls_in,
    history_file,
)

TOOLS = [
    {"name": name, "description": f"Does {name}. " + "word " * 50}
    for name in ("get", "put", "list_a", "list_b", "list_c")
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "home" / "work"
    made.mkdir(parents=True)
    return made


def line(time: str, event: str = "ended", **more: Any) -> str:
    return json.dumps({"seq": 1, "time": time, "event": event, "route": "tools/call", **more}) + "\n"


def usage(folder: Path, *words: str) -> dict[str, Any]:
    run = toolbus("audit", "usage", "--json", *words, folder=folder)
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout)


def project(folder: Path, **settings: Any) -> None:
    """A config with two servers, of which only one is ever called."""
    shop = scripted(folder, "shop", tools=TOOLS, fails=["put"])
    idle = scripted(folder, "idle", tools=TOOLS[:1])
    write_config(folder, {"shop": shop, "idle": idle}, audit="audit.jsonl", **settings)
    assert toolbus("tools", folder=folder).returncode == 0


def call(folder: Path, *words: str) -> Done:
    return toolbus("call", *words, folder=folder)


def test_calls_of_every_process_are_counted_and_what_nobody_calls_is_named(folder: Path) -> None:
    project(folder)
    call(folder, "shop_get")
    call(folder, "shop_get")
    found = usage(folder)
    assert found["calls"] == 2
    [get] = found["tools"]
    assert (get["server"], get["tool"], get["calls"], get["errors"]) == ("shop", "get", 2, 0)
    assert get["result_bytes"] == 4
    assert 0 < get["p50_ms"] <= get["p95_ms"]
    never = [(one["server"], one["tool"]) for one in found["never_called"]]
    assert sorted(never) == [
        ("idle", "get"),
        *(("shop", name) for name in ("list_a", "list_b", "list_c", "put")),
    ]
    by_server = {one["server"]: one for one in found["advice"]}
    assert by_server["idle"]["commands"] == ["toolbus disable idle"]
    assert by_server["shop"]["exclude"] == ["list_*", "put"]
    saved = sum(one["definition_tokens"] for one in found["never_called"] if one["server"] == "shop")
    assert by_server["shop"]["tokens"] == saved > 0


def test_the_advice_can_be_pasted_and_then_it_is_gone(folder: Path) -> None:
    project(folder)
    call(folder, "shop_get")
    before = usage(folder)
    for advice in before["advice"]:
        for command in advice["commands"]:
            assert toolbus(*shlex.split(command)[1:], folder=folder).returncode == 0
    toolbus("trust", "--yes", folder=folder)
    toolbus("tools", folder=folder)
    after = usage(folder)
    assert (after["never_called"], after["advice"]) == ([], [])
    saved = sum(one["tokens"] for one in before["advice"])
    assert before["definition_tokens"] - after["definition_tokens"] == saved


def test_a_person_reads_the_same(folder: Path) -> None:
    project(folder)
    call(folder, "shop_get")
    run = toolbus("audit", "usage", folder=folder)
    lines = run.stdout.splitlines()
    assert lines[0].split() == ["tool", "calls", "errors", "p50", "p95", "mean", "result", "definition"]
    assert lines[1].split()[:3] == ["shop/get", "1", "0"]
    assert lines[2].startswith("1 call, 0 errors, about 0 tokens of results")
    assert any(one.startswith("never called: 5 tools, about ") for one in lines)
    assert '  exclude: ["list_*", put]' in lines
    assert "  toolbus disable idle" in lines


TRAIL = [
    line("2026-11-01T10:00:00.000000Z", server="a", tool="x", outcome="ok", ms=10.0, bytes=40),
    line("2026-11-02T10:00:00.000000Z", server="a", tool="x", outcome="tool_error", ms=30.0),
    line("2026-11-02T10:00:01.000000Z", "decided", server="a", tool="x", decision="deny"),
    line("2026-11-02T10:00:02.000000Z", "decided", server="a", tool="x", decision="allow"),
    line(
        "2026-11-02T10:00:03.000000Z", server="b", tool="f://1", route="resources/read", outcome="ok", ms=1.0
    ),
    line(
        "2026-11-02T10:00:04.000000Z", server="b", tool="f://2", route="resources/read", outcome="ok", ms=1.0
    ),
    line("2026-11-02T10:00:05.000000Z", server="b", route="elicitation/create", outcome="accept", ms=9000.0),
    line("2026-11-02T10:00:06.000000Z", tool="nothing", outcome="unknown_tool"),
    line("2026-11-03T10:00:00.000000Z", "started", process=1),
    "not a line\n",
]


def counted(found: dict[str, Any]) -> dict[str, tuple[int, ...]]:
    return {
        f"{one['server']}/{one['tool']}": (one["calls"], one["errors"], one["refused"])
        for one in found["tools"]
    }


def test_refused_failed_and_unknown_calls_are_told_apart(folder: Path) -> None:
    (folder / "t.jsonl").write_text("".join(TRAIL))
    found = usage(folder, "t.jsonl")
    assert counted(found) == {"a/x": (2, 1, 1), "b/resources/read": (2, 0, 0), "/nothing": (1, 1, 0)}
    assert found["definition_tokens"] is None
    assert usage(folder, "t.jsonl", "--server", "b")["calls"] == 2
    assert counted(usage(folder, "t.jsonl", "--until", "2026-11-02"))["a/x"] == (1, 0, 0)
    assert counted(usage(folder, "t.jsonl", "--since", "2026-11-02", "--server", "a"))["a/x"] == (1, 1, 1)


@pytest.mark.parametrize("words", [["usage"], [], ["--verify"]])
def test_a_file_that_is_no_trail_is_an_error(words: list[str], folder: Path) -> None:
    """A damaged line does not make a trail another file."""
    (folder / "notes.md").write_text("# Notes\n\n- event: tea\n")
    run = toolbus("audit", *words, "notes.md", folder=folder)
    step = "name the file that 'audit' in a config names, or a copy of it"
    assert (run.returncode, run.stdout) == (2, "")
    assert run.stderr == f"toolbus: notes.md is not an audit log; {step}\n"
    (folder / "empty.jsonl").write_text("")
    (folder / "t.jsonl").write_text("".join(["not a line\n", *TRAIL]))
    for name in ("empty.jsonl", "t.jsonl"):
        assert "is not an audit log" not in toolbus("audit", *words, name, folder=folder).stderr


def test_full_files_and_those_of_other_processes_are_counted(folder: Path) -> None:
    for name, row in zip(("t.jsonl", "t.jsonl.7", "t.2.jsonl", "t.2.jsonl.9"), TRAIL[:2] * 2, strict=True):
        (folder / name).write_text(row)
    assert counted(usage(folder, "t.jsonl")) == {"a/x": (4, 2, 0)}


def test_without_a_trail_it_says_how_to_turn_one_on(folder: Path) -> None:
    write_config(folder, {})
    run = toolbus("audit", "usage", folder=folder)
    assert (run.returncode, run.stdout) == (2, "")
    assert "nothing is recorded; add 'audit: audit.jsonl' to toolbus.yaml" in run.stderr
    write_config(folder, {}, audit=True)
    assert "nothing is recorded yet in audit.jsonl" in toolbus("audit", "usage", folder=folder).stderr
    assert toolbus("audit", "usage", "nowhere.jsonl", folder=folder).returncode == 1


def test_an_empty_answer_says_what_was_looked_for(folder: Path) -> None:
    (folder / "notes.txt").write_text(line("2026-11-03T10:00:00.000000Z", "started", process=1))
    for words, told in (
        (["notes.txt"], "no calls in notes.txt"),
        (["notes.txt", "--since", "2d"], "no calls in that time in notes.txt"),
        (["notes.txt", "--server", "shop"], "no calls of server 'shop' in notes.txt"),
    ):
        done = toolbus("audit", "usage", *words, folder=folder)
        assert told in done.stdout + done.stderr


@pytest.mark.parametrize("option", ["--since", "--until"])
def test_a_wrong_time_is_an_error_that_shows_right_ones(option: str, folder: Path) -> None:
    write_config(folder, {}, audit=True)
    run = toolbus("audit", "usage", option, "soon", folder=folder)
    assert run.returncode == 2
    assert f"{option} soon: not a time; write such as 30m, 2h, 7d" in run.stderr


def test_the_old_command_lines_still_work(folder: Path) -> None:
    (folder / "t.jsonl").write_text("".join(TRAIL))
    for words in (
        ["t.jsonl"],
        ["t.jsonl", "--tail"],
        ["--tail", "3", "t.jsonl"],
        ["--tail=2", "t.jsonl", "--json"],
    ):
        assert toolbus("audit", *words, folder=folder).returncode == 0
    assert (
        len(json.loads(toolbus("audit", "t.jsonl", "--tail", "2", "--json", folder=folder).stdout)["events"])
        == 2
    )
    assert toolbus("audit", "--since", "2026-11-02", "usage", "t.jsonl", folder=folder).returncode == 0


def test_percentiles_are_right_to_within_two_percent() -> None:
    durations = Durations()
    for number in range(1, 1001):
        durations.add(float(number))
    assert durations.percentile(0.5) == pytest.approx(500, rel=0.02)
    assert durations.percentile(0.95) == pytest.approx(950, rel=0.02)
    assert Durations().percentile(0.5) is None


def test_the_memory_does_not_grow_with_the_trail(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    with path.open("w") as file:
        for number in range(200_000):
            tool = f"tool{number % 20_000}"
            file.write(
                line(
                    "2026-11-01T10:00:00.000000Z", server="a", tool=tool, outcome="ok", ms=number % 977 + 0.5
                )
            )
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    found = UsageCounts()
    for one in calls_in(path, None, None):
        found.add(one)
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert found.total == 200_000
    assert len(found.tools) <= 5_001
    assert found.tools["", OTHERS].calls > 100_000
    assert grown < 60_000  # KiB; the file has twice as much


def test_what_is_counted_does_not_depend_on_the_order() -> None:
    calls = [UsedCall("a", "x", ms=float(n), bytes=n) for n in range(50)] + [
        UsedCall("b", "y", outcome="timed_out")
    ]

    def told(order: list[UsedCall]) -> list[Any]:
        found = UsageCounts()
        for one in order:
            found.add(one)
        return [
            (one.server, one.calls, one.errors, one.bytes, one.durations.percentile(0.95))
            for one in found.most_used
        ]

    assert told(calls) == told(list(reversed(calls)))


def test_without_a_trail_the_history_of_the_console_is_counted(folder: Path) -> None:
    file = write_config(folder, {})
    seen = environment(folder.parent)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", seen["XDG_STATE_HOME"])
        writer = HistoryWriter(history_file(file), History())
        now = time.time()
        about: Any = {"route": "tools/call", "server": "shop", "name": "shop_buy", "tool": "buy", "at": now}
        for number, outcome in enumerate(("ok", "timed_out", "refused")):
            call = HistoryCall(id=str(number), ended=now, outcome=outcome, seconds=0.5, size=40, **about)
            writer.put_call(lambda call=call: call)
        writer.close()
    found = usage(folder)
    assert counted(found) == {"shop/buy": (2, 1, 1)}
    [buy] = found["tools"]
    assert (buy["result_tokens"], buy["p50_ms"]) == (20, pytest.approx(500, rel=0.02))
    assert found["source"].endswith(".db")
    assert usage(folder, "--until", "1d")["calls"] == 0


def test_times_and_sizes_are_those_of_calls_that_were_made() -> None:
    counts = UsageCounts()
    counts.add(UsedCall("a", "x", ms=100.0, bytes=80))
    for _ in range(5):
        counts.add(UsedCall("a", "x", outcome="refused", ms=0.1, bytes=400, is_over_quota=True))
    one = counts.tools["a", "x"]
    assert (one.calls, one.errors, one.refused, one.over_quota, one.tokens) == (1, 0, 5, 5, 20)
    assert one.durations.percentile(0.5) == pytest.approx(100, rel=0.02)
