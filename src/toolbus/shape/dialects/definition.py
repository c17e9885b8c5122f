"""The result of a conversion: the provider's dict, and a report of everything that it lost."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from toolbus.core.values.records import JSON
from toolbus.schema.normalize import LossKind

Dialect: TypeAlias = Literal["openai", "openai-strict", "openai-responses", "anthropic", "google", "mcp"]
Kind: TypeAlias = LossKind
Grade: TypeAlias = Literal["unchanged", "lossless", "widened", "permissive"]
GRADES: tuple[Grade, ...] = ("unchanged", "lossless", "widened", "permissive")
"""The grades from best to worst."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Loss:
    """One difference from the server's schema.

    `lossless`: rewritten with the same meaning. `widened`: the provider does not enforce it. `permissive`:
    nothing could be expressed there, so any value is accepted.
    """

    path: str
    what: str
    kind: Kind


@dataclass(frozen=True, slots=True, kw_only=True)
class Definition:
    """A tool in one provider's format. It is shared between callers: do not change it."""

    value: dict[str, JSON]
    losses: tuple[Loss, ...] = ()
    renamed: Mapping[str, str] = field(default_factory=dict[str, str])
    """Renamed arguments: the provider's name -> the server's name."""
    renamed_within: Mapping[str, Mapping[str, str]] = field(default_factory=dict[str, Mapping[str, str]])
    """The same for nested objects, by pointer; `*` stands for any item or undeclared property."""
    absent: frozenset[str] = frozenset()
    """Pointers to optional arguments of strict mode, where `null` from the model means "not given"."""

    @property
    def grade(self) -> Grade:
        """The worst kind of loss."""
        worst: Grade = "unchanged"
        for loss in self.losses:
            if GRADES.index(loss.kind) > GRADES.index(worst):
                worst = loss.kind
        return worst


class Inexact(Exception):
    """An exact conversion found something that it could only widen."""

    def __init__(self, loss: Loss) -> None:
        self.loss = loss
        super().__init__(f"{loss.path or '/'}: {loss.what}")


class Report:
    """Collects the losses of one conversion; an exact one stops at the first real loss."""

    __slots__ = ("absent", "exact", "losses", "nulls", "renamed")

    def __init__(self, *, exact: bool = False) -> None:
        self.exact = exact
        self.losses: list[Loss] = []
        self.renamed: dict[str, dict[str, str]] = {}
        self.absent: set[str] = set()
        self.nulls: set[str] = set()
        """Pointers to properties whose own schema accepts null, where null is a value."""

    def note(self, kind: Kind, path: str, what: str) -> None:
        """Record a loss; `Inexact` if none is allowed."""
        loss = Loss(path=path, what=what, kind=kind)
        if self.exact and kind != "lossless":
            raise Inexact(loss)
        self.losses.append(loss)

    def widened_since(self, mark: int) -> bool:
        """Whether anything was really lost after the first `mark` losses."""
        return any(loss.kind != "lossless" for loss in self.losses[mark:])
