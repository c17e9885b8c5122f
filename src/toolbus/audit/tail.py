"""Where the chain of a file ends: its last whole line, and what a killed process left after it."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from toolbus.audit.lines import Position, is_incomplete, position_of

_BLOCK = 65_536


class Damaged(ValueError):
    """The end of a file is neither a whole line nor the beginning of one; nobody may continue there."""


@dataclass(frozen=True, slots=True)
class Tail:
    """The end of a file."""

    end: Position
    rest: bytes
    """The incomplete line after it, if any."""
    size: int
    is_open: bool = False
    """Whether the last whole line has no line break yet."""


def read_tail(fd: int, before: Callable[[], Position]) -> Tail:
    """The end of an open file; `before` returns where the chain ended before this file. Or `Damaged`."""
    size = os.fstat(fd).st_size
    length = _BLOCK
    while True:
        start = max(0, size - length)
        data = read_at(fd, start, size - start)
        if (open_line := position_of(data[data.rfind(b"\n") + 1 :])) is not None:
            return Tail(open_line, b"", size, is_open=True)
        found = _last_whole_line(data, is_beginning=start == 0)
        if found is not None or start == 0:
            break
        length *= 4
    end, rest = found or (before(), data)
    if not is_incomplete(rest, end.seq + 1):
        raise Damaged
    return Tail(end, rest, size)


def last_position(path: Path) -> Position:
    """Where the chain of a full file ends; `Damaged` if that cannot be told."""
    fd = os.open(path, os.O_RDONLY | getattr(os, "O_BINARY", 0))
    try:
        return read_tail(fd, Position).end
    finally:
        os.close(fd)


def read_at(fd: int, start: int, length: int) -> bytes:
    """The bytes at a place of an open file."""
    os.lseek(fd, start, os.SEEK_SET)
    parts: list[bytes] = []
    while length > 0 and (part := os.read(fd, length)):
        parts.append(part)
        length -= len(part)
    return b"".join(parts)


def _last_whole_line(data: bytes, *, is_beginning: bool) -> tuple[Position, bytes] | None:
    """The last line whose digest is right, and the bytes after it."""
    end = data.rfind(b"\n")
    while end >= 0:
        start = data.rfind(b"\n", 0, end) + 1
        if start == 0 and not is_beginning:
            return None  # its beginning is not in these bytes
        if (position := position_of(data[start:end])) is not None:
            return position, data[end + 1 :]
        end = start - 1
    return None
