"""The history of calls as `toolbus audit usage` and the console read it, and its setting."""

import time
from pathlib import Path

import pytest

from tests.inside.audit import (
    CallFilter,
    HistoryCall,
    HistoryWriter,
    history_file,
    read_call,
    read_calls,
    recorded_calls,
    recorded_states,
)
from tests.inside.config import History
from tests.inside.core import CallPhase
from toolbus import ConfigError
from toolbus.config import load_config

NOW = time.time()


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The history of a config."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    return history_file(tmp_path / "toolbus.yaml")


def _call(number: int, **more: object) -> HistoryCall:
    given: dict[str, object] = {
        "id": f"p-{number}",
        "at": NOW + number,
        "ended": NOW + number + 1,
        "route": "tools/call",
        "server": f"s{number % 3}",
        "tool": "read_100%",
        "name": f"s{number % 3}_read_100%",
        "outcome": "ok" if number % 4 else "timed_out",
        "server_seconds": 0.25,
        "phases": (CallPhase("server", 0.0, 0.25),),
        "arguments": "{}",
    }
    return HistoryCall(**{**given, **more})  # pyright: ignore[reportArgumentType]  of any field


def _write(file: Path, *calls: HistoryCall, setting: History | None = None) -> None:
    writer = HistoryWriter(file, setting or History())
    for call in calls:
        writer.put_call(lambda call=call: call)
    writer.put_state(NOW, "s0", "ready", "")
    writer.close()


def test_what_is_read_is_what_was_written(file: Path) -> None:
    calls = [_call(number) for number in range(1_203)]
    assert list(recorded_calls(file)) == []
    _write(file, *calls[:600])
    _write(file, *calls[600:])
    newest_first = list(recorded_calls(file))
    assert [call.id for call in newest_first] == [call.id for call in reversed(calls)]
    assert newest_first[0] == _call(1_202, arguments=None)
    assert read_call(file, "p-7") == calls[7]
    assert read_call(file, "p-9999") is None
    assert [(one.server, one.state) for one in recorded_states(file, NOW)] == [("s0", "ready")] * 2


@pytest.mark.parametrize(
    "wanted",
    [
        CallFilter(server="s1"),
        CallFilter(tool="100%"),
        CallFilter(tool="S2/*"),
        CallFilter(tool="read_1_0"),
        CallFilter(outcome="failed"),
        CallFilter(outcome="timed_out", caller="ann"),
        CallFilter(since=NOW + 10, until=NOW + 20),
        CallFilter(caller="gate*"),
    ],
)
def test_the_file_and_memory_agree_about_what_matches(file: Path, wanted: CallFilter) -> None:
    calls = [_call(number, user="ann" * (number % 2), face="gateway" * (number % 5)) for number in range(60)]
    _write(file, *calls)
    found = read_calls(file, wanted, limit=100)
    assert sorted(call.id for call in found) == sorted(call.id for call in calls if wanted.matches(call))


def test_old_calls_are_deleted(file: Path) -> None:
    _write(file, _call(1, ended=NOW - 3 * 86_400), _call(2))
    _write(file, _call(3), setting=History(days=2))
    assert [call.id for call in recorded_calls(file)] == ["p-3", "p-2"]


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("true", History()),
        ("calls", History(keep="calls")),
        ("everything", History(keep="everything")),
        ("{days: 30, size: 2MB}", History(days=30, size=2_000_000)),
        ("false", None),
    ],
)
def test_the_setting_has_short_forms(tmp_path: Path, written: str, meant: History | None) -> None:
    config = tmp_path / "toolbus.yaml"
    config.write_text(f"servers: {{}}\nhistory: {written}\n")
    assert load_config(config).history == meant


@pytest.mark.parametrize(
    ("written", "problem"),
    [
        ("{keep: all}", "history.keep: expected calls or everything"),
        ("{size: 10KB}", "history.size: expected a size from 1MB to 1GB"),
        ("some", "history.keep: expected calls or everything"),
        ("7", "history: expected true, false, calls, everything or a mapping"),
    ],
)
def test_a_mistake_in_the_setting_is_explained(tmp_path: Path, written: str, problem: str) -> None:
    config = tmp_path / "toolbus.yaml"
    config.write_text(f"servers: {{}}\nhistory: {written}\n")
    with pytest.raises(ConfigError, match=problem):
        load_config(config)
