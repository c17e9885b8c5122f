"""The parts of the proof: claims with their measurements."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class PartReport:
    """The figures of a part."""

    text: str
    document: object
    held: bool = True
    """Whether the claim was true: a part without a claim that can fail is always true."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A claim with its measurement."""

    name: str
    page: str
    """The page below docs/proof that shows its figures."""
    title: str
    run: Callable[[bool], PartReport]
    """Takes whether to be quick."""


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Columns of text: the first to the left, the others to the right."""
    lines = [head, *rows]
    widths = [max(len(line[column]) for line in lines) for column in range(len(head))]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if column == 0 else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    )
