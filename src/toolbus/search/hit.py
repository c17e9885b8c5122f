"""What a search finds."""

from dataclasses import dataclass, field

from toolbus.core.values.records import ToolSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit:
    """A tool that fits a query."""

    name: str
    score: float
    """How well it fits: 1 for its own name, less for anything else."""
    reason: str
    """Why it was found: by its name, by which words, or by its meaning."""
    alternatives: tuple[str, ...] = ()
    """Tools of other servers that do nearly the same."""
    spec: ToolSpec = field(repr=False)

    @property
    def why(self) -> str:
        """The reason."""
        return self.reason
