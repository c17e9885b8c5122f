"""The result of a conversion: the provider's dict, and a report of everything that it lost."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from toolbus.core.values.records import JSON, ToolSpec
from toolbus.schema.normalize import LossKind
from toolbus.schema.values import is_array, is_object

Dialect: TypeAlias = Literal["openai", "openai-strict", "openai-responses", "anthropic", "google", "mcp"]
"""The formats of tool definitions, by provider."""
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


def escaped(name: str) -> str:
    """A name as a step of a pointer; a property named `*` differs from the `*` for any item."""
    if name.isidentifier():
        return name
    return name.replace("~", "~0").replace("/", "~1").replace("*", "~2")


def original_arguments(definition: Definition, arguments: Mapping[str, JSON]) -> dict[str, JSON]:
    """The arguments under the server's names, without nulls that only mean "not given"."""
    if not _changes_arguments(definition):
        return dict(arguments)
    steps = {step for pointer in definition.absent for step in _prefixes(pointer)}
    steps.update(step for pointer in definition.renamed_within for step in _prefixes(pointer))
    return _restored(definition, steps, dict(arguments), "")


def restored(spec: ToolSpec, arguments: Mapping[str, JSON]) -> Mapping[str, JSON]:
    """The original arguments, for any dialect of the tool."""
    for definition in spec.definitions.values():
        if _changes_arguments(definition):
            arguments = original_arguments(definition, arguments)
    return arguments


def _changes_arguments(definition: Definition) -> bool:
    return bool(definition.renamed or definition.renamed_within or definition.absent)


def _prefixes(pointer: str) -> list[str]:
    parts = pointer.split("/")
    return ["/".join(parts[:count]) for count in range(2, len(parts) + 1)]


def _restored(definition: Definition, steps: set[str], value: JSON, at: str) -> JSON:
    if is_array(value):
        return [_restored(definition, steps, item, f"{at}/*") for item in value]
    if not is_object(value):
        return value
    names = definition.renamed_within.get(at, {}) if at else definition.renamed
    result: dict[str, JSON] = {}
    for name, inner in value.items():
        below = f"{at}/{escaped(name)}"
        if inner is None and below in definition.absent:
            continue
        # A property that the definition does not name follows the path of undeclared ones.
        path = below if below in steps else f"{at}/*"
        result[names.get(name, name)] = _restored(definition, steps, inner, path)
    return result
