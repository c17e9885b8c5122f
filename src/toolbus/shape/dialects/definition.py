"""What a conversion gives: the provider's dict, and an honest report of what it no longer says."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from toolbus.core.records import JSON

Dialect: TypeAlias = Literal["openai", "openai-strict", "openai-responses", "anthropic", "google", "mcp"]
Kind: TypeAlias = Literal["lossless", "widened", "permissive"]
Grade: TypeAlias = Literal["unchanged", "lossless", "widened", "permissive"]
GRADES: tuple[Grade, ...] = ("unchanged", "lossless", "widened", "permissive")
"""From best to worst."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Loss:
    """One step away from the server's own schema.

    `lossless`: said in other words. `widened`: the provider will not hold the model to it. `permissive`:
    nothing of that place could be said, so that it takes any value.
    """

    path: str
    what: str
    kind: Kind


@dataclass(frozen=True, slots=True, kw_only=True)
class Definition:
    """A tool as one provider takes it. It is shared between callers: not to be changed."""

    value: dict[str, JSON]
    losses: tuple[Loss, ...] = ()
    renamed: Mapping[str, str] = field(default_factory=dict[str, str])
    """Arguments that the provider knows under another name: its name -> the server's name."""
    renamed_within: Mapping[str, Mapping[str, str]] = field(default_factory=dict[str, Mapping[str, str]])
    """The same for objects inside, by pointer; `*` stands for any item or undeclared property."""
    absent: frozenset[str] = frozenset()
    """Pointers to optional arguments of strict mode, where `null` from the model means that it gives none."""

    @property
    def grade(self) -> Grade:
        """The worst that happened."""
        worst: Grade = "unchanged"
        for loss in self.losses:
            if GRADES.index(loss.kind) > GRADES.index(worst):
                worst = loss.kind
        return worst


class Inexact(Exception):
    """An exact conversion met something that it could only widen."""

    def __init__(self, loss: Loss) -> None:
        self.loss = loss
        super().__init__(f"{loss.path or '/'}: {loss.what}")


class Report:
    """The losses of one conversion while it runs; an exact one stops at the first real loss."""

    __slots__ = ("absent", "exact", "losses", "nulls", "renamed")

    def __init__(self, *, exact: bool = False) -> None:
        self.exact = exact
        self.losses: list[Loss] = []
        self.renamed: dict[str, dict[str, str]] = {}
        self.absent: set[str] = set()
        self.nulls: set[str] = set()
        """Pointers to properties whose own schema takes null, so that null there is a value."""

    def note(self, kind: Kind, path: str, what: str) -> None:
        """Put a loss on record; raises `Inexact` where none is allowed."""
        loss = Loss(path=path, what=what, kind=kind)
        if self.exact and kind != "lossless":
            raise Inexact(loss)
        self.losses.append(loss)

    def widened_since(self, mark: int) -> bool:
        """Whether anything was lost after the first `mark` losses."""
        return any(loss.kind != "lossless" for loss in self.losses[mark:])
