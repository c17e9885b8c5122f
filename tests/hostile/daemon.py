"""A server that leaves a daemon behind: `python daemon.py HOW FOLDER [BEHAVIOUR ...]`, then as plain.py.

The number of the daemon's first process is in FOLDER/daemon; every process has FOLDER in its command line.
"""

import os
import runpy
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path


def wait() -> None:
    """Do nothing, for long."""
    time.sleep(600)


def ignore_signals() -> None:
    """Do nothing, and do not end when asked to."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    wait()


def clear_traces() -> None:
    """Become another program, without the environment."""
    os.execve("/bin/sleep", [sys.argv[2], "600"], {})


def move_on() -> None:
    """Be another process all the time."""
    while os.fork() == 0:
        time.sleep(0.02)
    os._exit(0)


DAEMONS: dict[str, Callable[[], None]] = {
    "waits": wait,
    "ignores signals": ignore_signals,
    "clears its traces": clear_traces,
    "moves on": move_on,
}


def start_daemon(how: str, file: Path) -> None:
    """Start it in a session of its own, without a parent, and without our pipes."""
    middle = os.fork()
    if middle:
        os.waitpid(middle, 0)
        return
    os.setsid()
    if os.fork():
        os._exit(0)
    os.chdir("/")
    os.closerange(0, 100)
    for _ in range(3):
        os.open(os.devnull, os.O_RDWR)
    file.write_text(str(os.getpid()))
    DAEMONS[how]()
    os._exit(0)


if __name__ == "__main__":
    written = Path(sys.argv[2], "daemon")
    start_daemon(sys.argv[1], written)
    while not (written.exists() and written.read_text()):
        time.sleep(0.005)
    sys.argv[1:] = sys.argv[3:]
    runpy.run_path(str(Path(__file__).parents[1] / "servers" / "plain.py"), run_name="__main__")
