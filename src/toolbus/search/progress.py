"""How far a search by meaning is."""

from dataclasses import dataclass


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
        """Whether a search goes by meaning, for all tools."""
        return bool(self.encoder) and not self.reason and self.encoded == self.total
