"""The format of a trail: its files, its lines, and where the chain of a file ends.

Each process that runs at the same time has a file: `audit.jsonl` belongs to the first, `audit.2.jsonl` to
the second. A full file gets the number of its last line: `audit.jsonl.4711`. A line is a JSON object in
ASCII, and ends with two digests: the digest of the line before, and its own `hash`. The hash is the SHA-256
of the text before it in the line. The exact definition is in docs/audit.md.
"""

import json
import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

# Files

MOST_SLOTS = 1000
"""The maximum number of processes that write a trail at the same time."""


def slot_path(path: Path, slot: int) -> Path:
    """The file of a slot; the first one is 1."""
    return path if slot == 1 else path.with_name(f"{path.stem}.{slot}{path.suffix}")


def full_path(path: Path, seq: int) -> Path:
    """The name of a full file of a slot, by the number of its last line."""
    return path.with_name(f"{path.name}.{seq}")


def full_files(path: Path) -> list[Path]:
    """The full files of a slot, oldest first."""
    pattern = re.compile(re.escape(path.name) + r"\.(\d+)")
    found = ((int(match[1]), name) for name in _names(path.parent) if (match := pattern.fullmatch(name)))
    return [path.with_name(name) for _, name in sorted(found)]


def chains(path: Path) -> dict[Path, list[Path]]:
    """The files of each slot, oldest first, by the path of the slot; slots without any are left out."""
    pattern = re.compile(re.escape(path.stem) + r"(?:\.(\d+))?" + re.escape(path.suffix) + r"(?:\.\d+)?")
    slots = {int(match[1] or 1) for name in _names(path.parent) if (match := pattern.fullmatch(name))}
    found = ((slot_path(path, slot), list(_files(slot_path(path, slot)))) for slot in sorted(slots))
    return {slot: files for slot, files in found if files}


def trail_of(path: Path, slot: Path, name: str) -> str | None:
    """The name of the trail that has `name` as the file of this slot; None if it belongs to another slot.

    It is the name of `path`, unless the files were renamed since.
    """
    if slot == path:
        other = re.escape(path.stem) + r"\.\d+" + re.escape(path.suffix)
        return None if re.fullmatch(other, name) else name
    number = slot.name.removeprefix(path.stem).removesuffix(path.suffix)
    found = re.fullmatch(rf"(.*){re.escape(number)}(\.[^.]*)?", name, re.DOTALL)
    return None if found is None else f"{found[1]}{found[2] or ''}"


def _files(slot: Path) -> Iterator[Path]:
    yield from full_files(slot)
    if os.path.lexists(slot):
        yield slot


def _names(folder: Path) -> list[str]:
    try:
        return os.listdir(folder)
    except FileNotFoundError:
        return []


# Lines

BEGINNING = "0" * 64
"""The `prev` of the first line of a chain."""
_SEAL = re.compile(rb',"hash":"([0-9a-f]{64})"\}\Z')
_SEAL_LENGTH = len(',"hash":""}') + 64
_HEAD = re.compile(rb'\{"seq":([1-9]\d*),"time":"')
_PREV = re.compile(rb',"prev":"([0-9a-f]{64})"\Z')
_PREV_LENGTH = len(',"prev":""') + 64
# What may be left of a word, a number or an escape when the end of a line is missing.
_CUT_WORD = re.compile(r"(?:tr?u?|fa?l?s?|nu?l?|-|\.|[eE][+-]?)\Z")
_CUT_ESCAPE = re.compile(r"\\(?:u[0-9a-fA-F]{0,4})?\Z")


@dataclass(frozen=True, slots=True)
class Position:
    """A place in a chain: the number and the digest of its last line."""

    seq: int = 0
    hash: str = BEGINNING


def position_of(line: bytes) -> Position | None:
    """The place of a whole line without its line break; None unless its digest is right."""
    seal, head = _SEAL.search(line, max(0, len(line) - _SEAL_LENGTH)), _HEAD.match(line)
    if seal is None or head is None:
        return None
    digest = sha256(line[:-_SEAL_LENGTH]).hexdigest()
    return Position(int(head[1]), digest) if digest.encode() == seal[1] else None


def prev_of(line: bytes) -> str | None:
    """The digest of the line before, as a whole line quotes it."""
    end = len(line) - _SEAL_LENGTH
    found = _PREV.search(line, max(0, end - _PREV_LENGTH), max(0, end))
    return None if found is None else found[1].decode()


def fields_of(line: bytes) -> Mapping[str, Any] | None:
    """The members of a line; None if it is not a JSON object."""
    try:
        found: object = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None  # pyright: ignore[reportUnknownVariableType]  # JSON


def is_trail(path: Path) -> bool:
    """Whether the beginning of a file has a line of a trail, or is empty."""
    with path.open("rb") as file:
        data = file.read(_BLOCK)
    lines = (line for line in data.split(b"\n") if line)
    return not data or any(position_of(line) or "event" in (fields_of(line) or ()) for line in lines)


def is_incomplete(rest: bytes, seq: int) -> bool:
    """Whether the bytes after a whole line may come from a killed process: beginnings of line `seq`.

    A process that is killed while it closes another's incomplete line leaves several beginnings.
    """
    *closed, last = rest.split(b"\n")
    return all(_is_beginning(piece, seq) for piece in (*closed, *([last] if last else ())))


def _is_beginning(piece: bytes, seq: int) -> bool:
    """Whether the piece is the beginning of a line with this number, at most without its line break."""
    head = b'{"seq":%d,"time":"' % seq
    if not piece or piece[: len(head)] != head[: len(piece)]:
        return False
    if (position := position_of(piece)) is not None:
        return position.seq == seq
    seal = piece.rfind(b',"hash":"')
    if seal >= 0 and not re.fullmatch(
        rb"[0-9a-f]{0,64}", piece[seal + len(b',"hash":"') :].removesuffix(b'"')
    ):
        return False
    return _is_cut(piece)


def _is_cut(piece: bytes) -> bool:
    """Whether the piece is the beginning of a JSON object, and no more."""
    if not piece.isascii():
        return False
    text = piece.decode("ascii")
    try:
        json.loads(text)
    except RecursionError:
        return True
    except json.JSONDecodeError as error:
        if error.msg.startswith("Unterminated string") or error.pos >= len(text):
            return True
        if "escape" in error.msg:
            return error.pos >= len(text) - len("\\u1234") and _CUT_ESCAPE.search(text) is not None
        return _CUT_WORD.match(text, error.pos) is not None
    return False


# The end of a file

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
    """The end of the chain in a full file; `Damaged` if it cannot be found."""
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
