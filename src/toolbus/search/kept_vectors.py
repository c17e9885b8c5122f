"""Vectors that were computed before, in a file of the user's state folder for each encoder.

They are found by a digest of the text, so a changed definition is encoded anew and everything else is not.
"""

import hashlib
import io
import logging
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any

import numpy

from toolbus.state import files

MOST = 50_000
"""Vectors that are kept; those that were not used for longest are dropped."""
logger = logging.getLogger("toolbus")


def digest(text: str) -> bytes:
    """What a text is found by."""
    return hashlib.sha256(text.encode("utf-8", "replace")).digest()[:16]


class KeptVectors:
    """The vectors of one encoder."""

    def __init__(self, encoder: str) -> None:
        self._file = f"search/{re.sub(r'[^A-Za-z0-9.-]', '_', encoder)[:80]}-{digest(encoder).hex()[:8]}.npz"
        self._vectors: dict[bytes, Any] = {}
        self._unsaved = False
        self._read()

    def find(self, texts: Iterable[str]) -> dict[str, Any]:
        """The vectors of those texts that were encoded before."""
        found: dict[str, Any] = {}
        for text in texts:
            key = digest(text)
            if (vector := self._vectors.pop(key, None)) is not None:
                self._vectors[key] = found[text] = vector  # at the end: it was used last
        return found

    def add(self, vectors: Mapping[str, Any]) -> None:
        """Remember these, too."""
        for text, vector in vectors.items():
            self._vectors[digest(text)] = numpy.asarray(vector, numpy.float16)
            self._unsaved = True
        for key in list(self._vectors)[: max(0, len(self._vectors) - MOST)]:
            del self._vectors[key]

    def save(self) -> None:
        """Write the file, with what another process added meanwhile; without it, they are computed again."""
        if not self._unsaved:
            return
        own, self._vectors = self._vectors, {}
        self._read()
        self._vectors |= own
        known = list(self._vectors.items())[-MOST:]
        content = io.BytesIO()
        numpy.savez(
            content,
            keys=numpy.frombuffer(b"".join(key for key, _ in known), numpy.uint8).reshape(-1, 16),
            vectors=numpy.stack([vector for _, vector in known]),
        )
        try:
            files.write(self._file, content.getvalue())
        except OSError as error:
            logger.warning("vectors are not kept for the next start: %s", error.strerror)
        self._unsaved = False

    def _read(self) -> None:
        with suppress(OSError, ValueError, KeyError, EOFError):  # unreadable or damaged: computed again
            content = files.read(self._file)
            if content is not None:
                stored = numpy.load(io.BytesIO(content), allow_pickle=False)
                keys, vectors = stored["keys"], stored["vectors"]
                if len(keys) == len(vectors):
                    self._vectors = {key.tobytes(): vector for key, vector in zip(keys, vectors, strict=True)}
