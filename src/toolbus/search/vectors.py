"""The vectors of tools: kept between programs, and compared with a query.

They are found by a digest of the text, so only a changed definition is encoded again.
"""

import io
import logging
import re
from collections.abc import Mapping, Sequence
from typing import Any, cast
from zipfile import BadZipFile

import numpy

from toolbus.search.words import digest
from toolbus.state import files


def as_unit(vectors: Any) -> Any:
    """The rows, each with length 1; rows of zeros stay, and so do values that are not numbers."""
    rows = numpy.asarray(vectors, numpy.float32)
    lengths = numpy.linalg.norm(rows, axis=-1, keepdims=True)
    return rows / numpy.maximum(lengths, 1e-12)


MOST = 50_000
"""Vectors that are kept; those that were not used for longest are dropped."""
logger = logging.getLogger("toolbus")


class KeptVectors:
    """The vectors of one encoder."""

    def __init__(self, kept_as: str) -> None:
        """With an empty name they are not stored."""
        self._file = f"search/{_file_name(kept_as)}.npz" if kept_as else ""
        self._vectors: dict[bytes, Any] = self._read()
        self._unsaved = False

    def __len__(self) -> int:
        return len(self._vectors)

    def find(self, key: bytes) -> Any:
        """The vector of a text by its digest, or None."""
        return self._vectors.get(key)

    def touch(self, keys: Sequence[bytes]) -> None:
        """These are in use: they are dropped last."""
        for key in keys:
            if (vector := self._vectors.pop(key, None)) is not None:
                self._vectors[key] = vector

    def add(self, keys: Sequence[bytes], vectors: Any) -> None:
        """Also remember these; ValueError if there is not a vector for each."""
        rows = numpy.asarray(vectors, numpy.float16)
        if rows.ndim != 2 or len(rows) != len(keys) or not numpy.isfinite(rows).all():
            raise ValueError("not one vector of numbers for each text")
        if self._vectors and len(next(iter(self._vectors.values()))) != rows.shape[1]:
            self._vectors = {}  # another model under the same name
        self._vectors.update(zip(keys, rows, strict=True))
        self._unsaved = True
        for key in list(self._vectors)[: max(0, len(self._vectors) - MOST)]:
            del self._vectors[key]

    def save(self) -> None:
        """Write the file, with what another process added meanwhile; without it, they are computed again."""
        if not self._unsaved or not self._file:
            return
        self._unsaved = False
        length = len(next(iter(self._vectors.values())))
        others = {key: one for key, one in self._read().items() if len(one) == length}
        known = list({**others, **self._vectors}.items())[-MOST:]
        content = io.BytesIO()
        keys = numpy.frombuffer(b"".join(key for key, _ in known), numpy.uint8).reshape(-1, 16)
        numpy.savez(content, keys=keys, vectors=numpy.stack([vector for _, vector in known]))
        try:
            files.write(self._file, content.getvalue())
        except OSError as error:
            logger.warning("vectors are not kept for the next start: %s", error.strerror)

    def _read(self) -> dict[bytes, Any]:
        try:
            content = files.read(self._file) if self._file else None
            if content is None:
                return {}
            stored = numpy.load(io.BytesIO(content), allow_pickle=False)
            keys, vectors = stored["keys"], stored["vectors"]
            if keys.dtype != numpy.uint8 or vectors.dtype != numpy.float16 or vectors.ndim != 2:
                return {}
            return {key.tobytes(): vector for key, vector in zip(keys, vectors, strict=True)}
        except (OSError, ValueError, KeyError, EOFError, BadZipFile):
            return {}  # unreadable or damaged: computed again, and written over


def _file_name(kept_as: str) -> str:
    return f"{re.sub(r'[^A-Za-z0-9.-]', '_', kept_as)[:60]}-{digest(kept_as).hex()[:8]}"


_WORDS, _NAME = 0.5, 0.2
"""The weights of words, and of the name's meaning, beside the meaning of the whole."""
_LEAST = 0.1
"""The minimum similarity of a tool that shares no word with the query."""


class ToolVectors:
    """The vectors of the tools of one index; those that are not there yet are estimated from the words."""

    def __init__(self, wholes: Sequence[Any], names: Sequence[Any]) -> None:
        """The vectors of each tool's whole text and name, or None; at least one is given."""
        self._known = numpy.array([one is not None for one in wholes])
        length = len(next(one for one in wholes if one is not None))
        empty = numpy.zeros(length, numpy.float32)
        self._wholes = as_unit(numpy.stack([empty if one is None else one for one in wholes]))
        self._names = as_unit(numpy.stack([empty if one is None else one for one in names]))

    def knows(self, number: int) -> bool:
        return bool(self._known[number])

    def ranked(self, query: Any, words: Mapping[int, float], most: int) -> dict[int, float]:
        """The best tools for the vector of a query, at most so many; `words` are scores from 0 to 1."""
        near: Any = self._wholes @ query
        by_words: Any = numpy.zeros(len(self._wholes), numpy.float32)
        by_words[list(words)] = list(words.values())
        near = cast("Any", numpy.where(self._known, near, by_words * near.max()))
        scores: Any = (near + _NAME * (self._names @ query) + _WORDS * by_words) / (1 + _NAME + _WORDS)
        scores[(near < _LEAST) & (by_words == 0)] = -1
        best = numpy.argsort(-scores, kind="stable")[:most]
        return {int(number): float(scores[number]) for number in best if scores[number] > -1}

    def between(self, one: int, other: int) -> float:
        return float(self._wholes[one] @ self._wholes[other])
