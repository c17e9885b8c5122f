"""Stands in for a program that the warm process forks: hands it our streams and signals, and ends as it does.

Run it: `python -I -S standin.py SOCKET PROGRAM [WORD ...]`. It imports little, because its start is what
this saves. Whoever kills it kills the program: the warm process sees the connection go.
"""

import json
import os
import signal
import socket
import sys
from collections.abc import Mapping, Sequence


def ask(
    connection: socket.socket,
    words: Sequence[str],
    folder: str,
    env: Mapping[str, str],
    streams: Sequence[int],
    *,
    in_terminal: bool = False,
) -> None:
    """Have a program run with these three streams, in the terminal that they are, if so."""
    request = {"words": list(words), "folder": folder, "env": dict(env), "in_terminal": in_terminal}
    body = json.dumps(request).encode()
    socket.send_fds(connection, [len(body).to_bytes(4, "big")], list(streams))
    connection.sendall(body)


def received(connection: socket.socket) -> int:
    """The next number of the warm process: first the program's process, then its exit code."""
    answer = connection.recv(4, socket.MSG_WAITALL)
    assert len(answer) == 4, "the warm process ended"
    return int.from_bytes(answer, "big", signed=True)


def main() -> None:
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(sys.argv[1])
    ask(connection, sys.argv[2:], os.getcwd(), os.environ, (0, 1, 2))
    for stream in (0, 1, 2):
        os.close(stream)  # or nobody would see that the program closed them
    program = received(connection)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda number, frame: os.kill(program, number))
    code = received(connection)
    if code < 0:
        signal.signal(-code, signal.SIG_DFL) if code != -signal.SIGKILL else None
        os.kill(os.getpid(), -code)
    os._exit(code)


if __name__ == "__main__":
    main()
