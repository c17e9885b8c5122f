"""What a search finds, and how far a search by meaning is."""

from dataclasses import dataclass, field

from toolbus.core.values.records import ToolSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchHit:
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


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchState:
    """By which encoder tools are searched, and how many of them it has read."""

    encoder: str = ""
    """Its name; empty if tools are searched by words alone."""
    encoded: int = 0
    """Tools of the catalog that was searched last whose vectors are there."""
    total: int = 0
    """All tools of it."""
    reason: str = ""
    """Why tools are searched by words alone, if they are."""

    @property
    def ready(self) -> bool:
        return bool(self.encoder) and not self.reason and self.encoded == self.total
