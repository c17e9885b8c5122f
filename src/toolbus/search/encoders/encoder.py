"""What an encoder is, and why there may be none."""

from collections.abc import Sequence
from typing import Any, Protocol, TypeAlias

Vectors: TypeAlias = Any
"""A row for each text: a matrix of numpy, or lists of numbers."""


class Encoder(Protocol):
    """Turns texts into vectors of one length."""

    @property
    def name(self) -> str:
        """For people."""
        ...

    @property
    def kept_as(self) -> str:
        """What its vectors are kept under, another one for every model; empty if they are not kept."""
        ...

    @property
    def local(self) -> bool:
        """Whether a query is encoded in milliseconds, so that a search may wait for it."""
        ...

    def encode(self, texts: Sequence[str]) -> Vectors:
        """A vector for each text; called from any thread. `EncodingFailed` if there are none."""
        ...


class EncodingFailed(Exception):
    """Vectors cannot be made; `str()` is the reason, without secrets."""

    def __init__(self, reason: str, *, retry: bool = True) -> None:
        super().__init__(reason)
        self.retry = retry
        """Whether it may work later."""
