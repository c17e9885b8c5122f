"""What was asked of a chat on the command line."""

from dataclasses import dataclass
from pathlib import Path

from toolbus.adapters.approval import ApprovalMode


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """The options that only a chat has."""

    prompt: str | None = None
    model: str | None = None
    approve: ApprovalMode = "writes"
    out: Path | None = None
