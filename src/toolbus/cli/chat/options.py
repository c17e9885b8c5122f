"""The options of `toolbus chat`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

Approval: TypeAlias = Literal["ask", "writes", "never"]
"""Ask before every call, before calls to tools not marked read-only, or never."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatOptions:
    """The options of `toolbus chat`."""

    prompt: str | None = None
    model: str | None = None
    approve: Approval = "writes"
    out: Path | None = None
