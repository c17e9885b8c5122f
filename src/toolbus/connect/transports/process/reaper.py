"""Kill the servers that are left if this process dies without cleaning up, where there is no guard.

Normally the transports clean up. After SIGKILL, SIGTERM, `os._exit` or a crash a shell does: it reads
the process groups to watch from a pipe, and kills those that are left when the pipe breaks. One shell
serves the whole process, from before the first server until the last bus has closed. A server announces
itself: it is started by a shell that holds the pipe until it has written its own number, so the pipe cannot
break before.
"""

import os
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress

from toolbus.connect.forks import detach_after_fork

LAST_DIGIT = 9
"""The last descriptor that every shell can redirect."""

SCRIPT = """
cd /
left=
while read -r sign group; do
  case $sign in
    +) left="$left $group" ;;
    -) kept=; for g in $left; do [ "$g" = "$group" ] || kept="$kept $g"; done; left=$kept ;;
  esac
done
[ -n "$left" ] || exit 0
for g in $left; do kill -TERM "-$g" 2>/dev/null; done
sleep 1
for g in $left; do kill -KILL "-$g" 2>/dev/null; done
"""


class Reaper:
    """Starts the shell, and sends it the process groups to watch."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._owner = 0
        self._shell = 0
        self._pipe = -1
        self._watched = 0
        """How many groups it has been told of, and not to forget."""

    def announcing(self, command: Sequence[str]) -> tuple[Sequence[str], tuple[int, ...]]:
        """The command for a process that announces its group itself, and the descriptors it inherits.

        The command alone if this process has too many files open: call `watch` once it is started.
        """
        if sys.platform == "win32":
            return command, ()
        with self._lock:
            self._ensure_running()
            if self._pipe > LAST_DIGIT:
                return command, ()
            self._watched += 1
            announce = f'echo "+ $$" >&{self._pipe}; exec {self._pipe}>&-; exec "$@"'
            return ("/bin/sh", "-c", announce, "sh", *command), (self._pipe,)

    def watch(self, group: int) -> None:
        """Kill this process group if this process dies first."""
        self._watched += 1
        self._send(f"+ {group}\n")

    def forget(self, group: int) -> None:
        """Stop watching a group that has ended; the system may reuse its number."""
        self._watched -= 1
        self._send(f"- {group}\n")

    def end(self) -> int:
        """Let the shell end if it has nothing to watch; returns the number of its process, 0 if none ends."""
        with self._lock:
            if self._pipe < 0 or self._owner != os.getpid() or self._watched:
                return 0
            os.close(self._pipe)
            self._pipe = -1
            return self._shell

    def forget_ended(self, pid: int) -> None:
        """Its process is gone: the number may be that of another child of this program soon."""
        with self._lock:
            if self._shell == pid:
                self._owner = 0

    def _send(self, line: str) -> None:
        if sys.platform == "win32":
            return
        with self._lock:
            self._ensure_running()
            # If the shell was killed just now, no call fails; the next group starts another shell.
            with suppress(OSError):
                os.write(self._pipe, line.encode())

    def fds(self) -> list[int]:
        """The descriptors that a fork must not keep."""
        self._lock = threading.Lock()  # another thread may have held it in the parent
        self._watched = 0
        return [] if self._pipe < 0 else [self._pipe]

    def _ensure_running(self) -> None:
        if not self._is_running():
            self._start()
            detach_after_fork(self)

    def _is_running(self) -> bool:
        # After a fork the shell belongs to the parent: its pipe would not break when this process dies.
        if self._owner != os.getpid() or self._pipe < 0:
            return False
        try:
            return os.waitpid(self._shell, os.WNOHANG) == (0, 0)
        except ChildProcessError:
            return False

    def _start(self) -> None:
        if self._pipe >= 0:
            os.close(self._pipe)
            self._pipe = -1
        read_end, self._pipe = os.pipe()
        devnull = os.open(os.devnull, os.O_WRONLY)
        try:
            self._shell = os.posix_spawn(
                "/bin/sh",
                ["sh", "-c", SCRIPT],
                {"PATH": os.defpath},  # without our environment, which may contain secrets
                file_actions=[
                    (os.POSIX_SPAWN_DUP2, read_end, 0),
                    (os.POSIX_SPAWN_DUP2, devnull, 1),
                    (os.POSIX_SPAWN_DUP2, devnull, 2),
                ],
                setsid=True,  # so that Ctrl+C in our terminal does not reach it
            )
        finally:
            os.close(read_end)
            os.close(devnull)
        self._owner = os.getpid()


reaper = Reaper()
