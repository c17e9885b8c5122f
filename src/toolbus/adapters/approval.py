"""Which calls a person has to agree to, for frameworks that can ask."""

from collections.abc import Callable
from typing import Literal, TypeAlias

from toolbus.core.records import ToolSpec

Approve: TypeAlias = Literal["never", "writes", "ask"] | Callable[[ToolSpec], bool]
"""Ask `never`, for all that is not marked read-only (`writes`), for all (`ask`), or as a function says."""


def checked(approve: Approve) -> Approve:
    """The same; ValueError for what is none of them, before a run finds out."""
    if not callable(approve) and approve not in ("never", "writes", "ask"):
        raise ValueError(f"approve is 'never', 'writes', 'ask' or a function, not {approve!r}")
    return approve


def asks(spec: ToolSpec, approve: Approve) -> bool:
    """Whether a person is asked before the tool is run."""
    if callable(approve):
        return approve(spec)
    match approve:
        case "never":
            return False
        case "writes":
            return spec.annotations.get("readOnlyHint") is not True
        case "ask":
            return True
        case _:
            checked(approve)
            raise AssertionError
