"""The format of a line: a JSON object in ASCII that ends with the digest of the line before and with its own.

`hash` is the SHA-256 of all that stands before it in the line. docs/audit.md has the exact definition.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

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
    """What a line says; None if it is not a JSON object."""
    try:
        found: object = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None  # pyright: ignore[reportUnknownVariableType]  # JSON


def is_incomplete(rest: bytes, seq: int) -> bool:
    """Whether the bytes after a whole line are what a killed process leaves: beginnings of line `seq`.

    There are several if a process was killed while it closed the incomplete line of another one.
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
