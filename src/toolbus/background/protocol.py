"""Messages between a command and the background bus: JSON after its length, and passed descriptors.

The client begins with one of
    {"run": [words], "version", "cwd", "environ", "encodings"}, with its three streams
    {"ask": "status" | "stop"}
and forwards {"signal": number}.
After Ctrl-Z, it stops when it gets {"suspended": true}.
The bus sends that when it does not read from the terminal.
The bus answers a command with {"accepted": true}.
Its last answer is one of
    {"exit": code} | {"refused": reason}
    {"status": {...}} | {"stopping": pid}

Before that, it may send requests, here with their answers:

- {"claim": true}, before it reads from the terminal: {"foreground": true}
- {"read": prompt}: {"line": text}, {"line": null} at the end of the input, {"undecodable": true}, or
  {"interrupted": number} of a signal
"""

import json
import os
import socket
import struct
import sys
from collections.abc import Iterator, Sequence
from typing import Any

MAX_BYTES = 16 << 20
"""Of one message; a command line may be long."""
_LENGTH = struct.Struct(">I")


class ProtocolViolation(Exception):
    """The other side does not keep to the protocol, or is another user."""


def send(connection: socket.socket, message: dict[str, Any], streams: Sequence[int] = ()) -> None:
    """Send a message, with open streams."""
    body = json.dumps(message).encode()
    if streams:
        socket.send_fds(connection, [_LENGTH.pack(len(body))], streams)
        connection.sendall(body)
    else:
        connection.sendall(_LENGTH.pack(len(body)) + body)


class Messages:
    """The messages in bytes that come in pieces."""

    def __init__(self) -> None:
        self._data = bytearray()

    def feed(self, data: bytes) -> Iterator[dict[str, Any]]:
        """Every message that is complete now; `ProtocolViolation` if one is too large or malformed."""
        self._data += data
        while len(self._data) >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(self._data)
            if length > MAX_BYTES:
                raise ProtocolViolation("a message is too large")
            end = _LENGTH.size + length
            if len(self._data) < end:
                return
            body = bytes(self._data[_LENGTH.size : end])
            del self._data[:end]
            try:
                message = json.loads(body)
            except (ValueError, RecursionError):
                raise ProtocolViolation("a message is not JSON") from None
            if not isinstance(message, dict):
                raise ProtocolViolation("a message is not an object")
            yield message


def check_peer(connection: socket.socket) -> None:
    """Raise `ProtocolViolation` unless the other side runs as the same user."""
    if _peer_user(connection) != os.geteuid():
        raise ProtocolViolation("the other side is another user")


def process_of(connection: socket.socket) -> str:
    """The process on the other side, in brackets; empty where that is not known."""
    return f" (pid {_credentials(connection)[0]})" if sys.platform == "linux" else ""


def _peer_user(connection: socket.socket) -> int:
    if sys.platform == "linux":
        return _credentials(connection)[1]
    # macOS and the BSDs: struct xucred, whose second member is the user; its level is 0.
    local_peer_credentials = 1
    _, user = struct.unpack_from("II", connection.getsockopt(0, local_peer_credentials, 128))
    return user


def _credentials(connection: socket.socket) -> tuple[int, int]:
    """Process and user on the other side, on Linux."""
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    process, user, _ = struct.unpack("3i", credentials)
    return process, user
