"""However a command ends, it ends soon, with the right exit code, and no process of its remains."""

import signal
import subprocess
import time
from collections.abc import Generator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests import warm
from tests.cli.running import TOOLBUS, Fifo, environment, living_at, scripted, toolbus, write_config
from tests.conftest import plain, sampled
from tests.patience import PATIENCE, wait_until
from tests.processes import alive

SIGNALS = {signal.SIGINT: 130, signal.SIGTERM: 143, signal.SIGHUP: 129}

MOMENTS: dict[str, tuple[list[str], list[str]]] = {
    "start": (["tools"], ["started"]),
    "call": (["call", "own_hang"], ["started", "called"]),
    "watch": (["watch"], ["started"]),
    "demo": (["demo", "--out", "made"], []),
}
# The demo takes long, and ends by the same code.
CASES = [
    (moment, sign) for moment in MOMENTS for sign in SIGNALS if (moment, sign) != ("demo", signal.SIGHUP)
]
SAMPLE = [
    ("start", signal.SIGINT),
    ("call", signal.SIGTERM),
    ("watch", signal.SIGHUP),
    ("demo", signal.SIGINT),
]
PRINTS = {"watch": "connecting -> ready", "demo": "broken"}
"""The output of each command that shows it is ready for the signal."""


@dataclass(frozen=True)
class Ended:
    """The end of a command that was sent a signal."""

    code: int
    err: str


Ends = Mapping[tuple[str, signal.Signals], Ended]


@contextmanager
def running(words: Sequence[str], folder: Path, *, is_cold: bool) -> Generator[subprocess.Popen[str]]:
    """A command under way; killed if it is still there afterwards."""
    with subprocess.Popen(
        [TOOLBUS if is_cold else warm.toolbus(), *words],
        cwd=folder,
        env=environment(folder.parent),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


@contextmanager
def under_way(home: Path, moment: str, *, is_cold: bool = True) -> Generator[subprocess.Popen[str]]:
    """A command that has come to that moment, with a server that ignores all requests to end."""
    words, marks = MOMENTS[moment]
    folder = home / "work"
    folder.mkdir(parents=True)
    with Fifo(folder / "marker") as marker:
        script: dict[str, Any] = {"tools": [{"name": "hang"}], "hangs": ["hang"], "stays": True}
        own = scripted(folder, "own", **script, marker=marker.path, waits=moment == "start")
        write_config(folder, {"own": own})
        with running(words, folder, is_cold=is_cold) as process:
            assert [marker.line() for _ in marks] == marks
            assert process.stdout is not None
            if moment in PRINTS:
                assert any(PRINTS[moment] in line for line in process.stdout)
            assert living_at(home) > {process.pid}
            yield process


def wait_gone(home: Path) -> None:
    """Wait until none of the processes is left: a busy machine takes a moment for one that was killed."""
    wait_until(lambda: not any(map(alive, living_at(home))), "processes are left")


def interrupted(home: Path, moment: str, sign: signal.Signals) -> Ended:
    with under_way(home, moment, is_cold=moment == "call") as process:
        process.send_signal(sign)
        _, err = process.communicate(timeout=PATIENCE)
        wait_gone(home)
        return Ended(process.returncode, err)


@pytest.fixture(scope="module")
def ends(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Ends:
    folder = tmp_path_factory.mktemp("ends")
    with ThreadPoolExecutor(3) as pool:
        runs = {
            (moment, sign): pool.submit(interrupted, folder / f"{moment}-{sign.name}", moment, sign)
            for moment, sign in (CASES if request.config.getoption("--full") else SAMPLE)
        }
        return {case: run.result() for case, run in runs.items()}


@pytest.mark.parametrize("case", sampled(CASES, *SAMPLE), ids=lambda case: f"{case[0]}-{case[1].name}")
def test_a_signal_ends_the_command_and_all_it_started(ends: Ends, case: tuple[str, signal.Signals]) -> None:
    end = ends[case]
    assert (end.code, end.err) == (SIGNALS[case[1]], "")


def test_one_who_does_not_stop_pressing_ctrl_c_leaves_nothing_either(tmp_path: Path) -> None:
    with under_way(tmp_path, "call") as process:
        deadline = time.monotonic() + PATIENCE
        while process.poll() is None and time.monotonic() < deadline:
            process.send_signal(signal.SIGINT)
            with suppress(subprocess.TimeoutExpired):
                process.wait(0.1)
        _, err = process.communicate(timeout=PATIENCE)
        wait_gone(tmp_path)
        assert process.returncode in (130, -signal.SIGINT)  # a shell says 130 to both
        assert err == ""


def test_nothing_remains_when_toolbus_is_killed(tmp_path: Path) -> None:
    with under_way(tmp_path, "watch") as process:
        process.kill()
        assert process.wait(PATIENCE) == -signal.SIGKILL
        wait_gone(tmp_path)


def test_nothing_remains_after_success_and_failure(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    stays = scripted(tmp_path, "stays", tools=[{"name": "x"}], stays=True)
    silent = scripted(tmp_path, "silent", waits=True, stays=True) | {"timeouts": {"connect": 0.5}}
    write_config(tmp_path / "work", {"stays": stays, "silent": silent, "child": plain("leave_child")})
    for words, code in ((["call", "child_echo"], 0), (["check"], 1)):
        run = toolbus(*words, folder=tmp_path / "work")
        assert (run.returncode, run.stderr) == (code, "")
        wait_gone(tmp_path)
