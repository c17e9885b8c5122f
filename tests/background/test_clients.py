"""The clients of a background bus: permission, and numbers."""

import os
import signal
import socket
import struct
import subprocess
import sys
import tempfile
from collections.abc import Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests import warm
from tests.background.holding import background, called, everyday_entry, status
from tests.cli.running import environment, toolbus, write_config
from tests.inside.background import Messages, send
from tests.patience import PATIENCE, wait_until

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
        write_config(folder, {"every": everyday_entry()})
        yield folder


def _intrude(path: Path) -> str:
    code = INTRUDER % {"id": NOBODY}
    run = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code, str(path)],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
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
    with _own_bus(folder) as listening, ThreadPoolExecutor(1) as pool:
        call = pool.submit(toolbus, "call", "every_echo", "text=on", folder=folder)
        listening.accept()[0].close()
        run = call.result()
        assert (run.returncode, run.stdout, run.stderr) == (0, "on\n", "")


@contextmanager
def _own_bus(folder: Path) -> Generator[socket.socket]:
    """The place where the commands of a folder look for the background bus, which is this test."""
    with background(folder):
        (path,) = (folder.parent / ".state/toolbus/run").glob("*.sock")
    with socket.socket(socket.AF_UNIX) as listening:
        before = os.getcwd()
        os.chdir(path.parent)
        listening.bind(path.name)
        os.chdir(before)
        listening.listen()
        listening.settimeout(PATIENCE)
        yield listening
        path.unlink()


def test_ctrl_z_stops_a_command_when_the_bus_has_left_its_terminal(folder: Path) -> None:
    """Otherwise the bus might take input meant for the shell."""
    with _own_bus(folder) as listening:
        words = ["call", "every_echo", "text=on"]
        command = warm.start("toolbus", words, folder, environment(folder.parent), folder / "log")
        connection, _ = listening.accept()
        connection.settimeout(PATIENCE)
        messages = Messages()

        def received() -> dict[str, Any]:
            while not (found := next(iter(messages.feed(connection.recv(65536))), None)):
                pass
            return found

        with connection:
            assert "run" in received()
            send(connection, {"accepted": True})
            command.send_signal(signal.SIGTSTP)
            assert received() == {"signal": signal.SIGTSTP}
            send(connection, {"claim": True})
            assert received() == {"foreground": True}, "it has not stopped yet"
            send(connection, {"suspended": True})
            stat = Path(f"/proc/{command.pid}/stat")
            wait_until(lambda: ") T " in stat.read_text(), "it does not stop")
            command.send_signal(signal.SIGCONT)
            send(connection, {"exit": 7})
            assert command.wait(PATIENCE) == 7


IMPATIENT = """
from toolbus.cli import entry
from toolbus.background import client
client.ACCEPTED_WITHIN = 0.01
entry.main()
"""


def test_a_command_whose_bus_does_not_answer_yet_reports_it_and_waits(folder: Path) -> None:
    with _own_bus(folder) as listening:
        log = folder / "log"
        words = ["-c", IMPATIENT, "call", "every_echo", "text=on"]
        command = warm.start("python", words, folder, environment(folder.parent), log)
        connection, _ = listening.accept()
        with connection:
            wait_until(lambda: log.read_text().endswith("\n"), "it reports nothing")
            send(connection, {"accepted": True})
            send(connection, {"exit": 7})
            assert command.wait(PATIENCE) == 7
        assert log.read_text() == (
            f"toolbus: the background bus (pid {os.getpid()}) does not answer yet; Ctrl-C ends this command, "
            "--no-up runs it without the bus\n"
        )


def test_a_command_whose_bus_is_killed_is_not_run_again(folder: Path) -> None:
    with background(folder) as held, ThreadPoolExecutor(1) as pool:
        call = pool.submit(toolbus, "call", "every_hang", folder=folder)
        wait_until(lambda: called(folder, "every_hangs") == "1 0", "the call did not begin")
        os.kill(held.process.pid, signal.SIGKILL)
        run = call.result()
        assert (run.returncode, run.stdout) == (1, "")
        assert run.stderr.startswith(
            "toolbus: the background bus ended while the command ran; what it did is not known; start it"
        )
