"""Who may be a client of a background bus, and how many at once."""

import os
import select
import signal
import socket
import struct
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest

from tests import warm
from tests.background.holding import EVERYDAY, background, called, eventually, status
from tests.cli.running import SECONDS, environment, toolbus, write_config

pytestmark = pytest.mark.timeout(600)
NOBODY = 65534
COUNT = 100
# Another user: can it connect, and does it get an answer?
INTRUDER = """
import os, socket, sys
os.setgid(%(id)d)
os.setuid(%(id)d)
connection = socket.socket(socket.AF_UNIX)
connection.settimeout(30)
try:
    connection.connect(sys.argv[1])
    body = b'{"ask": "status"}'
    connection.sendall(len(body).to_bytes(4, "big") + body)
    print("answer", connection.recv(100))
except OSError as error:
    print("refused", type(error).__name__)
"""


@pytest.fixture
def open_home() -> Iterator[Path]:
    """A folder in a home that others can look into."""
    with tempfile.TemporaryDirectory() as home:
        os.chmod(home, 0o755)
        folder = Path(home) / "work"
        folder.mkdir()
        write_config(folder, {"every": EVERYDAY})
        yield folder


def _intrude(path: Path) -> str:
    code = INTRUDER % {"id": NOBODY}
    run = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code, str(path)],
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=True,
    )
    return run.stdout.strip()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_another_user_cannot_connect(open_home: Path) -> None:
    runtime = open_home.parent / "runtime"
    runtime.mkdir(mode=0o755)
    with background(open_home, env={"XDG_RUNTIME_DIR": str(runtime)}) as held:
        (path,) = (runtime / "toolbus").glob("*.sock")
        assert _intrude(path) == "refused PermissionError"
        # Even if somebody opened it to the world, the other user gets no answer.
        path.parent.chmod(0o755)
        path.chmod(0o666)
        assert _intrude(path) in ("answer b''", "refused ConnectionResetError", "refused BrokenPipeError")
        held.until("a client was refused: the other side is another user")
        run = toolbus(
            "call", "every_echo", "text=me", folder=open_home, env={"XDG_RUNTIME_DIR": str(runtime)}
        )
        assert run.stdout == "me\n"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_a_client_does_not_talk_to_the_bus_of_another_user(open_home: Path) -> None:
    """Somebody who could put a socket there would see arguments, and use our streams."""
    folder = open_home.parent / ".state" / "toolbus" / "run"
    with background(open_home):
        (path,) = folder.glob("*.sock")
    listen = (
        "import os, socket, sys\n"
        "listening = socket.socket(socket.AF_UNIX)\n"
        "listening.bind(sys.argv[1])\n"
        f"os.setuid({NOBODY})\n"
        "listening.listen()\n"
        "print('listening', flush=True)\n"
        "print(listening.accept()[0].recv(1000), flush=True)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", listen, str(path)], stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "listening\n"
        run = toolbus("call", "every_echo", "text=secret", folder=open_home)
        assert (run.returncode, run.stdout) == (0, "secret\n")
        assert "the other side is another user; this command runs without the background bus" in run.stderr
        assert other.stdout.readline() == "b''\n"


def test_a_hundred_calls_at_once(folder: Path) -> None:
    with background(folder), ThreadPoolExecutor(COUNT) as pool:
        process = called(folder, "every_process")
        calls = {
            number: pool.submit(toolbus, "call", "every_echo", f"text={number}", folder=folder)
            for number in range(COUNT)
        }
        for number, call in calls.items():
            run = call.result()
            assert (run.returncode, run.stdout, run.stderr) == (0, f"{number}\n", "")
        assert called(folder, "every_process") == process
        facts = status(folder)
        assert (facts["calls"], facts["commands"]) == (COUNT + 2, 0)


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"\xff\xff\xff\xff",
        struct.pack(">I", 3) + b"[1]",
        struct.pack(">I", 3) + b"{{{",
        struct.pack(">I", 12) + b'{"run": "x"}',
        struct.pack(">I", 15) + b'{"run": ["-h"]}',
        struct.pack(">I", 2) + b"{}",
        struct.pack(">I", 200_000) + b'{"run": ["' + b"[" * 190_000,
    ],
    ids=range(8),
)
def test_a_client_that_does_not_keep_to_the_protocol_ends_alone(folder: Path, sent: bytes) -> None:
    with background(folder):
        (path,) = (folder.parent / ".state/toolbus/run").glob("*.sock")
        with socket.socket(socket.AF_UNIX) as connection:
            _connect(connection, path)
            connection.settimeout(SECONDS)
            connection.sendall(sent)
            if len(sent) < 100:
                connection.shutdown(socket.SHUT_WR)
                with suppress(ConnectionResetError):
                    assert connection.recv(1000) == b""
        assert called(folder, "every_echo", "text=on") == "on"


def _connect(connection: socket.socket, path: Path) -> None:
    before = os.getcwd()
    os.chdir(path.parent)  # its path may be too long
    try:
        connection.connect(path.name)
    finally:
        os.chdir(before)


def test_a_second_ctrl_c_ends_the_client_at_once(folder: Path) -> None:
    """Also if the bus does not react any more."""
    with background(folder) as held:
        nothing = os.open(os.devnull, os.O_RDWR)
        call = warm.Running(
            "toolbus", ["call", "every_hang"], folder, environment(folder.parent), (nothing, nothing, nothing)
        )
        os.close(nothing)
        eventually(lambda: status(folder)["commands"] == 1, "the call did not begin")
        os.kill(held.process.pid, signal.SIGSTOP)
        try:
            os.kill(call.pid, signal.SIGINT)
            eventually(lambda: _was_taken(call.pid), "the first one was not taken")
            os.kill(call.pid, signal.SIGINT)
            assert call.wait(SECONDS) == 130
        finally:
            os.kill(held.process.pid, signal.SIGCONT)


def test_a_bus_that_does_not_answer_is_named_and_does_not_run_what_was_given_up(folder: Path) -> None:
    with background(folder) as held:
        nothing, (reader, writer) = os.open(os.devnull, os.O_RDWR), os.pipe()
        os.kill(held.process.pid, signal.SIGSTOP)
        try:
            streams = (nothing, nothing, writer)
            call = warm.Running(
                "toolbus", ["call", "every_hang"], folder, environment(folder.parent), streams
            )
            os.close(nothing)
            os.close(writer)
            ready, _, _ = select.select([reader], [], [], SECONDS)
            assert ready, "nothing was said"
            said = os.read(reader, 1000).decode()
            os.kill(call.pid, signal.SIGINT)
            assert call.wait(SECONDS) == 130
        finally:
            os.kill(held.process.pid, signal.SIGCONT)
            os.close(reader)
        assert said == (
            f"toolbus: the background bus (pid {held.process.pid}) does not answer yet; Ctrl-C ends this "
            "command, --no-up runs it without the bus\n"
        )
        assert called(folder, "every_hangs") == "0 0"


def _was_taken(pid: int) -> bool:
    """Whether a process waits again, and no signal is pending."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    facts = dict(line.split(":\t", 1) for line in lines)
    return facts["State"].startswith("S") and int(facts["ShdPnd"], 16) == 0


def test_a_command_that_the_bus_did_not_accept_runs_by_itself(folder: Path) -> None:
    """As when the bus is just about to stop."""
    with background(folder):
        (path,) = (folder.parent / ".state/toolbus/run").glob("*.sock")
    with socket.socket(socket.AF_UNIX) as listening, ThreadPoolExecutor(1) as pool:
        before = os.getcwd()
        os.chdir(path.parent)
        listening.bind(path.name)
        os.chdir(before)
        listening.listen()
        listening.settimeout(SECONDS)
        call = pool.submit(toolbus, "call", "every_echo", "text=on", folder=folder)
        listening.accept()[0].close()
        run = call.result()
        assert (run.returncode, run.stdout, run.stderr) == (0, "on\n", "")
        path.unlink()


def test_a_command_whose_bus_is_killed_is_not_run_again(folder: Path) -> None:
    with background(folder) as held, ThreadPoolExecutor(1) as pool:
        call = pool.submit(toolbus, "call", "every_hang", folder=folder)
        eventually(lambda: called(folder, "every_hangs") == "1 0", "the call did not begin")
        os.kill(held.process.pid, signal.SIGKILL)
        run = call.result()
        assert (run.returncode, run.stdout) == (1, "")
        assert run.stderr.startswith(
            "toolbus: the background bus ended while the command ran; what it did is not known; start it"
        )
