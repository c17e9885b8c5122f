"""Encoders: functions from texts to vectors, near each other when the texts mean the same."""

from collections.abc import Sequence
from typing import Any, Protocol, TypeAlias

Vectors: TypeAlias = Any
"""A matrix with a row for each text: numpy's, or lists of numbers."""


class Encoder(Protocol):
    """Turns texts into vectors of one length."""

    @property
    def name(self) -> str:
        """What its vectors are kept under; another one for every model."""
        ...

    def encode(self, texts: Sequence[str]) -> Vectors:
        """A vector for each text; called in a thread."""
        ...
