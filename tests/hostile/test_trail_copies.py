"""Files that somebody puts beside an audit trail, so that it counts calls that were never made."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.audit.writing import problems, write_lines
from tests.cli.running import toolbus
from tests.inside.audit import Chain
from tests.inside.config import Audit
from tests.inside.console import TrailCheck


def two_chains(path: Path) -> None:
    """Write a trail of two processes."""
    path.parent.mkdir(exist_ok=True)
    first, second = (Chain(Audit(file=str(path))) for _ in range(2))
    for chain in (first, second, first):
        chain.append("decided", ',"id":"me","by":"test"')
    first.close()
    second.close()


def _copy(folder: Path) -> None:
    shutil.copy(folder / "audit.jsonl", folder / "audit.3.jsonl")


def _link(folder: Path) -> None:
    (folder / "audit.3.jsonl").symlink_to("audit.jsonl")


def _beginning(folder: Path) -> None:
    lines = (folder / "audit.jsonl").read_bytes().splitlines(keepends=True)
    (folder / "audit.3.jsonl").write_bytes(b"".join(lines[:2]))


def _full(folder: Path) -> None:
    shutil.copy(folder / "audit.2.jsonl", folder / "audit.3.jsonl.2")


def _swap(folder: Path) -> None:
    (folder / "audit.2.jsonl").rename(folder / "audit.jsonl")


def _stranger(folder: Path) -> None:
    write_lines(folder / "other.jsonl", 2)
    (folder / "other.jsonl").rename(folder / "audit.3.jsonl")


COPY = "audit.3.jsonl:1: a copy of audit.jsonl, which has the same line"
PLANTED: dict[str, tuple[Callable[[Path], None], list[str]]] = {
    "a copy": (_copy, [COPY]),
    "a link": (_link, [COPY]),
    "the first lines": (_beginning, [COPY]),
    "a full file": (_full, ["audit.3.jsonl.2:1: a copy of audit.2.jsonl, which has the same line"]),
    "another chain in its place": (
        _swap,
        ["audit.jsonl:1: it does not belong here: it was written to audit.2.jsonl"],
    ),
    "a chain of another trail": (
        _stranger,
        ["audit.3.jsonl:1: it does not belong here: it was written to other.jsonl"],
    ),
}


@pytest.mark.parametrize("what", PLANTED)
def test_a_file_that_was_put_beside_a_trail(tmp_path: Path, what: str) -> None:
    """It is reported as a fault, not as one more intact chain."""
    plant, expected = PLANTED[what]
    two_chains(tmp_path / "audit.jsonl")
    assert problems(tmp_path / "audit.jsonl") == []
    plant(tmp_path)
    assert problems(tmp_path / "audit.jsonl") == expected


@pytest.mark.anyio
async def test_a_copy_that_is_to_pass_a_check(tmp_path: Path) -> None:
    """Neither `toolbus audit --verify` nor the console calls the trail intact."""
    folder = tmp_path / "logs"
    two_chains(folder / "audit.jsonl")
    _copy(folder)
    done = toolbus("audit", "audit.jsonl", "--verify", "--json", folder=folder)
    assert (done.returncode, json.loads(done.stdout)["intact"]) == (1, False)
    check = TrailCheck(lambda: None)
    await check.run(folder / "audit.jsonl")
    assert (check.is_intact, COPY in check.found) == (False, True)


def test_a_trail_that_was_moved_as_a_whole(tmp_path: Path) -> None:
    """It is still one, under any name, and may go on under the new one."""
    two_chains(tmp_path / "audit.jsonl")
    for file in ("", ".2"):
        (tmp_path / f"audit{file}.jsonl").rename(tmp_path / f"moved{file}.jsonl")
    assert problems(tmp_path / "moved.jsonl") == []
    write_lines(tmp_path / "moved.jsonl", 90, rotate=10_000)
    assert problems(tmp_path / "moved.jsonl") == []
    assert len(list(tmp_path.glob("moved.jsonl.*"))) > 1
