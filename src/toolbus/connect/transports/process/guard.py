"""The program above our servers on Linux: it starts them, and none of their descendants outlives us.

`main` runs in an interpreter of its own, without our package, and without slow imports: the first server
waits for it. It forks a keeper for each request on its channel. The keeper starts one server, and adopts
every orphaned descendant (PR_SET_CHILD_SUBREAPER), even one that called setsid. When the owner asks, closes
its socket or dies, the keeper ends them all, and then itself. The system reports the death of the owner
(pidfd), so that a fork of the owner, which has the same sockets, does not hide it.

A request is one byte and five descriptors: a file, the server's three streams, and the keeper's control
socket. The file has the marshalled `Launch`: program, args, env, folder, filter of system calls, wrappers. On
that socket, the keeper sends "started PID" or "failed ERRNO", and "exited CODE". It receives "term" and
"kill".
"""

# The modules below are those that need no others: `os`, `signal`, `socket` and `contextlib` would double the
# time until the first server starts.
# ruff: noqa: SIM105

import _socket
import marshal
import posix as os
import select
import sys
import time

_signal = __import__("_signal")
SUBREAPER = 36
"""PR_SET_CHILD_SUBREAPER of linux/prctl.h."""
EINVAL = 22
FDS, INT = 5, 4
"""The number of descriptors in a request, and the bytes of each."""
FILTER_FD = 3
TERM_SECONDS = 1.0
"""The time that the processes have to end after SIGTERM, once the owner is gone."""
KILL_SECONDS = 10.0
"""The time limit for killing the remaining processes; a process of another user stays."""
KILL_INTERVAL = 0.01


def main(owner: int, channel: int = 0) -> None:
    """Fork a keeper for each request, until the owner is gone and all keepers have ended."""
    _close_inherited()
    owner_end = os.pidfd_open(owner)
    if os.getppid() != owner:  # it died before we watched it; its number may be another process by now
        return
    adopt_orphans()
    requests, keepers, is_open = _socket.socket(fileno=channel), set[int](), True
    child_end = watch_children()
    while is_open or keepers:
        ready = wait_for([child_end, *([channel, owner_end] if is_open else ())])
        if child_end in ready:
            os.read(child_end, 1024)
            ended, _ = reap()
            keepers -= ended.keys()
            if any(ended.values()):  # a keeper was killed: what it kept is ours now
                kill(set(children_of(os.getpid())) - keepers)
        if owner_end in ready:
            is_open = False
        elif channel in ready:
            fds = _received(requests)
            is_open = bool(fds)
            if fds:
                keepers.add(_fork_keeper(owner_end, fds, [channel, child_end]))


def _fork_keeper(owner_end: int, fds: list[int], unused: list[int]) -> int:
    keeper = os.fork()
    if keeper == 0:
        code = 1
        try:
            for fd in unused:
                os.close(fd)
            Keeper(owner_end, *fds).run()
            code = 0
        finally:  # whatever it raised, this is its end; the guard ends what is left
            os._exit(code)  # pyright: ignore[reportPrivateUsage]  # `os` has it, too
    for fd in fds:
        os.close(fd)
    return keeper


class Keeper:
    """Starts one server, and stays until the last of its descendants has ended."""

    def __init__(self, owner_end: int, request: int, stdin: int, stdout: int, stderr: int, fd: int) -> None:
        self._owner_end = owner_end
        self._request = request
        self._streams = stdin, stdout, stderr
        self._control = _socket.socket(fileno=fd)
        self._control.setblocking(False)
        self._server = 0
        self._wrappers = 0
        self._has_exited = False
        self._is_watched = True
        """Whether the owner's end is still watched."""
        self._kill_at: float | None = None
        self._give_up_at: float | None = None

    def run(self) -> None:
        """Start the server, and return when none of its processes is left."""
        os.setsid()
        adopt_orphans()
        child_end = watch_children()
        if not self._start():
            return
        watched = [child_end, self._control.fileno(), self._owner_end]
        while True:
            ready = wait_for(watched if self._is_watched else [child_end], self._pause())
            if child_end in ready:
                os.read(child_end, 1024)
            ended, has_children = reap()
            if self._server in ended:
                self._has_exited = True
                self._report(f"exited {os.waitstatus_to_exitcode(ended[self._server])}")
            if not has_children:
                return
            self._obey(ready)
            now = time.monotonic()
            if self._give_up_at is not None and now > self._give_up_at:
                return
            if self._kill_at is not None and now >= self._kill_at:
                self._give_up_at = self._give_up_at or now + KILL_SECONDS
                self._signal(_signal.SIGKILL)

    def _start(self) -> bool:
        with open(self._request, "rb") as file:
            program, args, env, folder, syscall_filter, self._wrappers = marshal.load(file)
        streams = list(enumerate(self._streams))
        if syscall_filter:
            filter_end, write_end = os.pipe()
            os.write(write_end, syscall_filter)
            os.close(write_end)
            streams.append((FILTER_FD, filter_end))
        try:
            os.chdir(folder)
            self._server = os.posix_spawn(
                program,
                args,
                env,
                file_actions=[(os.POSIX_SPAWN_DUP2, fd, n) for n, fd in streams],
                setsid=True,
                setsigdef=[_signal.SIGPIPE, _signal.SIGXFSZ, _signal.SIGCHLD],
            )
        except (OSError, ValueError) as error:  # ValueError: a null byte, or "=" in a name
            self._report(f"failed {getattr(error, 'errno', EINVAL)}")
            return False
        os.chdir("/")
        for _, fd in streams:  # or nobody would notice that the server closes them
            os.close(fd)
        self._report(f"started {self._server}")
        return True

    def _pause(self) -> float | None:
        if self._kill_at is None:
            return None
        return KILL_INTERVAL if self._give_up_at else max(0.0, self._kill_at - time.monotonic())

    def _obey(self, ready: set[int]) -> None:
        order = b""
        if self._owner_end in ready:
            self._is_watched = False
        elif self._control.fileno() in ready:
            try:
                order = self._control.recv(16)
                self._is_watched = bool(order)
            except OSError:
                self._is_watched = False
        if order == b"kill":
            self._kill_at = 0.0
        elif order == b"term" or not self._is_watched:
            self._signal(_signal.SIGTERM)
        if not self._is_watched and self._kill_at is None:
            self._kill_at = time.monotonic() + TERM_SECONDS

    def _signal(self, sign: int) -> None:
        """Send a signal to all descendants; to the server's group if the system does not list them.

        Only SIGKILL to the processes around a server: they end with it, and it would end at once with them.
        """
        group = [] if self._has_exited else [-self._server]
        around = [] if sign == _signal.SIGKILL else self._around()
        found = descendants_of(os.getpid())
        signal_all([pid for pid in found if pid not in around] or found or group, sign)

    def _around(self) -> list[int]:
        around, generation = list[int](), [self._server]
        for _ in range(self._wrappers):
            around += generation
            generation = [child for pid in generation for child in children_of(pid)]
        return around

    def _report(self, text: str) -> None:
        try:
            self._control.send(text.encode())
        except OSError:
            pass  # the owner is gone, which is noticed elsewhere


def adopt_orphans() -> None:
    """Become the parent of every descendant that loses its own, if the system allows it."""
    try:
        import _ctypes  # not ctypes, whose import takes longer than all the rest

        program = _ctypes.dlopen(None, 0)  # pyright: ignore[reportArgumentType]  # None: what is loaded
        prctl = _ctypes.dlsym(program, "prctl")
        _ctypes.call_function(prctl, (SUBREAPER, 1, 0, 0, 0))
    except (ImportError, OSError):
        pass


def watch_children() -> int:
    """A descriptor that is readable when a child has ended."""
    read_end, write_end = os.pipe()
    os.set_blocking(write_end, False)
    _signal.set_wakeup_fd(write_end)
    _signal.signal(_signal.SIGCHLD, _ignore)
    return read_end


def _ignore(number: int, frame: object) -> None:
    """The descriptor above reports the signal, if it has a handler."""


def wait_for(fds: list[int], seconds: float | None = None) -> set[int]:
    """The descriptors that are readable."""
    poll = select.poll()
    for fd in fds:
        poll.register(fd, select.POLLIN)
    return {fd for fd, _ in poll.poll(None if seconds is None else seconds * 1000)}


def reap() -> tuple[dict[int, int], bool]:
    """The statuses of the children that have ended, by number, and whether any are left."""
    ended: dict[int, int] = {}
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return ended, False
        if pid == 0:
            return ended, True
        ended[pid] = status


def children_of(pid: int) -> list[int]:
    """The children of all its threads."""
    found: list[int] = []
    try:
        for task in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{task}/children") as file:
                found += map(int, file.read().split())
    except OSError:
        pass  # it ended meanwhile
    return found


def descendants_of(pid: int) -> list[int]:
    """Its children, their children, and so on."""
    found = children_of(pid)
    for child in found:
        found += children_of(child)
    return found


def kill(pids: set[int]) -> None:
    """Kill the processes and all their descendants."""
    for pid in pids:
        signal_all([pid, *descendants_of(pid)], _signal.SIGKILL)


def signal_all(pids: list[int], sign: int) -> None:
    """Send a signal to each process that still exists."""
    for pid in pids:
        try:
            os.kill(pid, sign)
        except OSError:
            pass  # it ended meanwhile, or it is not ours


def _received(channel: "_socket.socket") -> list[int]:
    """The descriptors of the next request; none at the end."""
    _, messages, _, _ = channel.recvmsg(1, _socket.CMSG_SPACE(FDS * INT), _socket.MSG_CMSG_CLOEXEC)
    data = b"".join(data for _, _, data in messages)
    return [int.from_bytes(data[at : at + INT], sys.byteorder) for at in range(0, len(data), INT)]


def _close_inherited() -> None:
    """Close what we inherited: it would keep files and sockets of the owner open."""
    for name in os.listdir("/proc/self/fd"):
        if int(name) > 2:
            try:
                os.close(int(name))
            except OSError:
                pass  # the descriptor of this very listing
