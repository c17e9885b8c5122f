"""A trail is written whole, by any number of processes, and survives their accidents."""

import errno
import json
import os
import random
import resource
import signal
import threading
import time
from pathlib import Path

import pytest

from tests.audit.writing import Writers, only_chain, problems, write_lines
from tests.conftest import sampled
from tests.inside.audit import Chain, chains, position_of, verify
from tests.inside.config import Audit
from tests.inside.core import AuditFailed

PROCESSES, LINES = 4, 1000


def events(path: Path) -> list[dict[str, object]]:
    """All whole lines of a trail, file after file."""
    files = [file for chain in chains(path).values() for file in chain]
    lines = [line for file in files for line in file.read_bytes().split(b"\n")]
    return [json.loads(line) for line in lines if position_of(line) is not None]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "audit.jsonl"


@pytest.mark.parametrize("kills", sampled([7, 20], 7))
def test_a_process_that_is_killed_while_it_writes(path: Path, kills: int) -> None:
    """The chain stays valid, and the next process continues it."""
    chosen = random.Random(20)
    seen = 0
    with Writers(path) as writers:
        for number in range(kills):
            writer = writers.start(f"p{number}", size=300_000)
            dots = writer.wait_for(chosen.randint(1, 30))
            os.kill(writer.pid, signal.SIGKILL)
            dots += writer.wait()
            found = only_chain(path)
            assert found.problems == []
            assert found.lines >= seen + dots + 1, "every reported line exists"
            seen = found.lines
    write_lines(path, 1)
    assert problems(path) == []
    happened = [event["event"] for event in events(path)]
    assert happened.count("started") == kills + 1
    assert happened.count("recovered") == len(only_chain(path).notes)


def test_a_line_that_was_cut_at_any_byte(path: Path) -> None:
    """It is no damage, it stays as it is, and the chain goes on after it."""
    write_lines(path, 1)
    whole = path.read_bytes()
    start = whole.rindex(b"\n", 0, -1) + 1
    for end in range(start + 1, len(whole) - 1):
        path.write_bytes(whole[:end])
        found = only_chain(path)
        assert found.problems == [], whole[start:end]
        assert found.notes == ["audit.jsonl:2: incomplete: its process was killed, or is writing"]
        write_lines(path, 1)
        found = only_chain(path)
        assert found.problems == [], whole[start:end]
        assert found.notes == ["audit.jsonl:2: incomplete: its process was killed; line 3 records it"]
        assert path.read_bytes().startswith(whole[:end] + b"\n")


def test_a_whole_line_without_its_line_break_counts(path: Path) -> None:
    write_lines(path, 1)
    path.write_bytes(path.read_bytes()[:-1])
    assert (only_chain(path).end.seq, problems(path)) == (2, [])
    write_lines(path, 1)
    assert (only_chain(path).end.seq, problems(path)) == (4, [])


def test_a_process_that_is_killed_while_it_records_an_incomplete_line(path: Path) -> None:
    """Both incomplete lines stay, and the next process records them."""
    write_lines(path, 1)
    path.write_bytes(path.read_bytes()[:-100])
    before = path.read_bytes()
    write_lines(path, 1)
    whole = path.read_bytes()
    for end in range(len(before) + 1, whole.index(b"\n", len(before) + 1)):
        path.write_bytes(whole[:end])
        assert problems(path) == []
        write_lines(path, 1)
        assert problems(path) == []


def test_a_file_that_is_damaged_at_its_end(path: Path) -> None:
    """Nothing is written after it."""
    write_lines(path, 2)
    damaged = path.read_bytes().replace(b'"me-1"', b'"me-7"')
    path.write_bytes(damaged)
    with pytest.raises(
        AuditFailed, match=r"damaged at its end; run 'toolbus audit --verify', move audit.jsonl"
    ):
        write_lines(path, 1)
    assert path.read_bytes() == damaged


def test_concurrent_processes_lose_no_line(path: Path) -> None:
    with Writers(path) as writers:
        started = [writers.start(f"p{number}", LINES) for number in range(PROCESSES)]
        assert [writer.wait() for writer in started] == [LINES] * PROCESSES
    assert problems(path) == []
    ids = [event["id"] for event in events(path) if event["event"] == "decided"]
    assert sorted(map(str, ids)) == sorted(f"p{p}-{n}" for p in range(PROCESSES) for n in range(LINES))
    assert 1 <= len(chains(path)) <= PROCESSES


def test_processes_that_rotate_at_the_same_time_lose_no_line(path: Path) -> None:
    with Writers(path) as writers:
        started = [writers.start(f"p{number}", LINES, rotate=10_000) for number in range(PROCESSES)]
        assert [writer.wait() for writer in started] == [LINES] * PROCESSES
    assert problems(path) == []
    ids = [event["id"] for event in events(path) if event["event"] == "decided"]
    assert sorted(map(str, ids)) == sorted(f"p{p}-{n}" for p in range(PROCESSES) for n in range(LINES))


def test_threads_write_one_chain(path: Path) -> None:
    chain = Chain(Audit(file=str(path)))

    def write() -> None:
        for _ in range(200):
            chain.append("decided", ',"by":"test"')

    threads = [threading.Thread(target=write) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    chain.close()
    assert problems(path) == []
    assert only_chain(path).end.seq == 801


def test_two_writers_in_one_process_have_a_file_each(path: Path) -> None:
    first, second = Chain(Audit(file=str(path))), Chain(Audit(file=str(path)))
    for chain in (first, second, first):
        chain.append("decided", "")
    assert [report.lines for report in verify(path)] == [3, 2]
    first.close()
    write_lines(path, 1)
    assert [report.end.seq for report in verify(path)] == [5, 2]
    assert problems(path) == []
    second.close()


def test_the_next_run_continues_the_chain(path: Path) -> None:
    write_lines(path, 3)
    write_lines(path, 3)
    found = only_chain(path)
    assert (found.first, found.end.seq, found.lines, found.notes) == (1, 8, 8, [])


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks")
def test_a_fork_writes_a_file_of_its_own(path: Path) -> None:
    chain = Chain(Audit(file=str(path)))
    chain.append("decided", ',"by":"parent"')
    child = os.fork()
    if child == 0:
        try:
            chain.append("decided", ',"by":"child"')
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    chain.append("decided", ',"by":"parent"')
    chain.close()
    assert problems(path) == []
    deciders = [
        [json.loads(line).get("by") for line in file.read_text().splitlines()][1:] for file in chains(path)
    ]
    assert deciders == [["parent", "parent"], ["child"]]


def test_rotation_carries_the_chain_on(path: Path) -> None:
    write_lines(path, 200, rotate=10_000)
    found = only_chain(path)
    assert found.problems == []
    assert found.notes == []
    assert len(found.files) > 3
    assert found.files[-1] == path
    assert found.end.seq == found.lines == 200 + len(found.files)
    assert all(10_000 <= file.stat().st_size < 10_500 for file in found.files[:-1])


def test_files_beyond_keep_are_removed_and_that_is_recorded(path: Path) -> None:
    write_lines(path, 400, rotate=10_000, keep=2)
    found = only_chain(path)
    assert found.problems == []
    assert len(found.files) == 3
    assert found.first is not None
    assert found.first > 1
    assert found.notes == [
        f"{found.files[0].name}: begins with line {found.first}, after a removed file (as its settings say)"
    ]
    removed = [event for event in events(path) if event["event"] == "removed"]
    assert removed[-1]["reason"] == "keep: 2"


def test_files_older_than_days_are_removed(path: Path) -> None:
    write_lines(path, 100, rotate=10_000)
    oldest = only_chain(path).files[0]
    then = time.time() - 8 * 86_400
    os.utime(oldest, (then, then))
    chain = Chain(Audit(file=str(path), days=7))
    chain.append("decided", "")
    chain.close()
    assert not oldest.exists()
    assert problems(path) == []
    (removed,) = [event for event in events(path) if event["event"] == "removed"]
    assert (removed["file"], removed["reason"]) == (oldest.name, "days: 7")


def test_a_full_file_that_somebody_archived_is_no_damage(path: Path) -> None:
    write_lines(path, 100, rotate=10_000)
    oldest, second, *_ = only_chain(path).files
    oldest.unlink()
    found = only_chain(path)
    assert found.problems == []
    assert found.notes == [
        (
            f"{second.name}: begins with line {found.first}, after a removed file "
            "(it is not recorded who removed it)"
        )
    ]


def test_a_file_that_is_removed_while_it_is_written(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Within a second the trail goes on in a new file, which says that one is missing."""
    chain = Chain(Audit(file=str(path)))
    chain.append("decided", "")
    path.unlink()
    later = time.time_ns() + 2_000_000_000
    monkeypatch.setattr(time, "time_ns", lambda: later)
    chain.append("decided", "")
    chain.close()
    found = only_chain(path)
    assert (found.first, found.end.seq, found.problems) == (3, 4, [])
    assert "begins with line 3, after a removed file" in found.notes[0]


def test_a_disk_that_is_full(path: Path) -> None:
    """The line is refused, and none of it is left."""
    chain = Chain(Audit(file=str(path)))
    chain.append("decided", "")
    size = path.stat().st_size
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size + 100, hard))
    try:
        for _ in range(2):
            with pytest.raises(AuditFailed, match="cannot be written: File too large; raise the limit"):
                chain.append("decided", "")
            assert path.stat().st_size == size
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    chain.append("decided", "")
    chain.close()
    assert problems(path) == []
    assert only_chain(path).end.seq == 3


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no such device")
def test_a_device_is_not_a_file(tmp_path: Path) -> None:
    link = tmp_path / "audit.jsonl"
    link.symlink_to("/dev/full")
    with pytest.raises(AuditFailed, match=r"name the file itself in audit.file, not a link to it"):
        write_lines(link, 1)


def test_a_folder_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error names the file and the next step."""
    blocked = tmp_path / "blocked"
    blocked.write_text("this is a file")
    with pytest.raises(AuditFailed, match=r"make it writable, or name another one in audit.file") as raised:
        write_lines(blocked / "logs" / "audit.jsonl", 1)
    assert raised.value.path.startswith(str(blocked))
    assert isinstance(raised.value.__cause__, OSError)
    assert raised.value.__cause__.errno in (errno.ENOTDIR, errno.EEXIST)


def test_the_file_is_for_its_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "logs" / "audit.jsonl"
    write_lines(path, 1)
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700
