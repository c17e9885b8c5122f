"""Decompress the body of a response piece by piece, so that a limit holds before memory is used."""

import zlib
from collections.abc import Iterator

PIECE = 1024 * 1024
ENCODINGS = ("gzip", "x-gzip", "deflate")
ACCEPT_ENCODING = "gzip, deflate"
_ANY_HEADER = 47
"""Lets zlib detect the header of gzip and zlib."""


class Inflater:
    """Decompresses one body."""

    def __init__(self) -> None:
        self._zlib = zlib.decompressobj(_ANY_HEADER)
        self._started = False

    def pieces(self, data: bytes) -> Iterator[bytes]:
        """The decompressed data, at most a MiB at a time; raises `zlib.error` if it is invalid."""
        if self._zlib.eof:
            return  # zlib would keep whatever follows the end
        piece = self._first(data) if not self._started else self._zlib.decompress(data, PIECE)
        while piece:
            yield piece
            piece = self._zlib.decompress(self._zlib.unconsumed_tail, PIECE)

    def _first(self, data: bytes) -> bytes:
        self._started = True
        try:
            return self._zlib.decompress(data, PIECE)
        except zlib.error:
            # Some servers send `deflate` without the header of zlib.
            self._zlib = zlib.decompressobj(-zlib.MAX_WBITS)
            return self._zlib.decompress(data, PIECE)
