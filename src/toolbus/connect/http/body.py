"""Decompress the body of a response piece by piece, so that a limit holds before memory is used."""

import zlib
from collections.abc import Iterator

PIECE = 1024 * 1024
ENCODINGS = ("gzip", "x-gzip", "deflate")
ACCEPT_ENCODING = "gzip, deflate"
MAX_MEMBERS = 1_000
"""The most members of gzip in one piece of data: more of them only keep the loop busy."""
_GZIP, _ZLIB, _RAW = 31, 15, -15
"""What zlib calls the formats."""


class Inflater:
    """Decompresses one body: gzip with any number of members, or deflate with or without its header."""

    def __init__(self) -> None:
        self._format = 0
        self._member = zlib.decompressobj()
        """What decompresses the current member."""
        self._has_begun = False
        """Whether a member has begun, and not ended."""
        self._held = b""
        """The first byte of a member, which does not tell its format yet."""

    @property
    def is_complete(self) -> bool:
        """Whether the body may end here."""
        return not self._has_begun and not self._held

    def pieces(self, data: bytes) -> Iterator[bytes]:
        """The decompressed data, at most a MiB at a time; raises `zlib.error` if it is invalid."""
        data, self._held = self._held + data, b""
        for _ in range(MAX_MEMBERS):
            if not self._has_begun:
                data = self._begin(data)
            if not self._has_begun:
                return
            piece = self._member.decompress(data, PIECE)
            while piece:
                yield piece
                piece = self._member.decompress(self._member.unconsumed_tail, PIECE)
            if not self._member.eof:
                return
            data, self._has_begun = self._member.unused_data, False
        raise zlib.error("it consists of too many small parts")

    def _begin(self, data: bytes) -> bytes:
        """Begin a member, if the data has one; returns the data that it begins with."""
        if self._format:
            data = data.lstrip(b"\0")  # gzip may be padded
        if len(data) < 2:
            self._held = data
            return b""
        if not self._format:
            self._format = _format(data)
        elif self._format != _GZIP:
            raise zlib.error("data follows its end")
        self._member, self._has_begun = zlib.decompressobj(self._format), True
        return data


def _format(data: bytes) -> int:
    if data[:2] == b"\x1f\x8b":
        return _GZIP
    # Some servers send `deflate` without the header of zlib.
    return _ZLIB if data[0] & 15 == 8 and int.from_bytes(data[:2]) % 31 == 0 else _RAW
