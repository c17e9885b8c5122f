"""The options of `toolbus chat`."""

from dataclasses import dataclass
from pathlib import Path

from toolbus.adapters.approval import ApprovalMode


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatOptions:
    """The options of `toolbus chat`."""

    prompt: str | None = None
    model: str | None = None
    approve: ApprovalMode = "writes"
    out: Path | None = None
