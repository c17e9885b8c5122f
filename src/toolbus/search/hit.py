"""The results of a search, and the progress of the search by meaning."""

from dataclasses import dataclass, field

from toolbus.core.values.records import ToolSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchHit:
    """A tool that fits a query."""

    name: str
    score: float
    """The quality of the match: 1 for its own name, less for anything else."""
    reason: str
    """The reason why it was found: its name, the matching words, or its meaning."""
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
    """The number of tools with a vector in the catalog that was searched last."""
    total: int = 0
    """The number of all tools in that catalog."""
    reason: str = ""
    """The reason why tools are searched by words alone, if they are."""

    @property
    def ready(self) -> bool:
        return bool(self.encoder) and not self.reason and self.encoded == self.total
