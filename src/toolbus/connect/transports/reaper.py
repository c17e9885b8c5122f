"""Sees to it that no server outlives us, even if we are killed.

Our own clean-up runs whenever there is time for it. When there is none (SIGKILL, SIGTERM, `os._exit`,
a crash) a shell does the rest: it holds the other end of a pipe from us, is told of every process
group, and ends those that are left when the pipe breaks. One shell serves the whole process; it is
started with the first server and ends with us.
"""

import os
import sys
import threading
from contextlib import suppress

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
    """The shell, and the way to tell it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._owner = 0
        self._shell = 0
        self._pipe = -1

    def watch(self, group: int) -> None:
        """End this process group if we die without having done so."""
        self._tell(f"+ {group}\n")

    def forget(self, group: int) -> None:
        """The group is gone; its number may soon be someone else's."""
        self._tell(f"- {group}\n")

    def _tell(self, line: str) -> None:
        if sys.platform == "win32":
            return
        with self._lock:
            if not self._is_ours():
                self._start()
            # A reaper that was killed just now is no reason to fail a call; the next group starts another.
            with suppress(OSError):
                os.write(self._pipe, line.encode())

    def _is_ours(self) -> bool:
        # After a fork the shell is our parent's: its pipe would not break when we die.
        if self._owner != os.getpid():
            return False
        try:
            return os.waitpid(self._shell, os.WNOHANG) == (0, 0)
        except ChildProcessError:
            return False

    def _start(self) -> None:
        # Only what is ours: after a fork the number may mean another file by now.
        if self._owner == os.getpid() and self._pipe >= 0:
            os.close(self._pipe)
            self._pipe = -1
        theirs, self._pipe = os.pipe()
        nowhere = os.open(os.devnull, os.O_WRONLY)
        try:
            self._shell = os.posix_spawn(
                "/bin/sh",
                ["sh", "-c", SCRIPT],
                {"PATH": os.defpath},  # nothing of ours, and no secret, is kept by it
                file_actions=[
                    (os.POSIX_SPAWN_DUP2, theirs, 0),
                    (os.POSIX_SPAWN_DUP2, nowhere, 1),
                    (os.POSIX_SPAWN_DUP2, nowhere, 2),
                ],
                setsid=True,  # away from our terminal: an interrupt there is for us alone
            )
        finally:
            os.close(theirs)
            os.close(nowhere)
        self._owner = os.getpid()


reaper = Reaper()
