"""Stands in for a program that the warm process forks: hands it our streams and signals, and ends as it does.

Run it: `python -I -S -c 'import standin; standin.main()' SOCKET PROGRAM [WORD ...]`, with our folder on the
path. It has to start fast, so it imports only built-in modules: not `os`, `signal`, `socket` and `json`,
which would take twice as long as the rest. Killing it kills the program: the warm process sees the connection
go.
"""

import _socket
import marshal
import posix
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
    from collections.abc import Mapping, Sequence
else:
    import _signal as signal


def ask(
    connection: "_socket.socket",
    words: "Sequence[str]",
    folder: str,
    env: "Mapping[str, str]",
    streams: "Sequence[int]",
    *,
    in_terminal: bool = False,
) -> None:
    """Have a program run with these three streams, in the terminal that they are, if so."""
    request = {"words": list(words), "folder": folder, "env": dict(env), "in_terminal": in_terminal}
    body = marshal.dumps(request)
    fds = b"".join(stream.to_bytes(4, sys.byteorder) for stream in streams)
    connection.sendmsg([len(body).to_bytes(4, "big")], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, fds)])
    connection.sendall(body)


def received(connection: "_socket.socket") -> int:
    """The next number of the warm process: first the program's process, then its exit code."""
    answer = connection.recv(4, _socket.MSG_WAITALL)
    assert len(answer) == 4, "the warm process ended"
    return int.from_bytes(answer, "big", signed=True)


def _text(value: bytes) -> str:
    return value.decode(sys.getfilesystemencoding(), "surrogateescape")


def main() -> None:
    connection = _socket.socket(_socket.AF_UNIX)
    connection.connect(sys.argv[1])
    env = {_text(name): _text(value) for name, value in posix.environ.items()}
    ask(connection, sys.argv[2:], posix.getcwd(), env, (0, 1, 2))
    for stream in (0, 1, 2):
        posix.close(stream)  # or nobody would see that the program closed them
    program = received(connection)

    def pass_on(number: int, frame: object) -> None:
        try:  # noqa: SIM105  contextlib would take longer to import
            posix.kill(program, number)
        except ProcessLookupError:
            pass  # it has just ended, and its exit code is on the way

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, pass_on)
    code = received(connection)
    if code < 0:
        signal.signal(-code, signal.SIG_DFL) if code != -signal.SIGKILL else None
        posix.kill(posix.getpid(), -code)
    posix._exit(code)  # pyright: ignore[reportPrivateUsage]  # it is `os._exit`
