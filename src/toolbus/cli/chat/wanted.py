"""What was asked of a chat on the command line."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

Approval: TypeAlias = Literal["ask", "writes", "never"]
"""Ask before every call, before all that are not marked read-only, or never."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """The options that only a chat has."""

    prompt: str | None = None
    model: str | None = None
    approve: Approval = "writes"
    out: Path | None = None
