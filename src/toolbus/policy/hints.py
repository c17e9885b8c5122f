"""What a tool's hints count for.

Those of a trusted server count as given. An untrusted server might say anything, so its tools count as
destructive, writing and open-world whatever it says, and `read-only` and `idempotent` are only its word.
"""

from typing import Literal, TypeAlias

from toolbus.config.settings.policy import Hint
from toolbus.core.values.originals import EMPTY
from toolbus.core.values.records import JSONObject, ToolSpec, marks_read_only

Holds: TypeAlias = Literal["yes", "word", "no"]
"""`word`: only by the word of a server that is not trusted."""


def holds(hint: Hint, spec: ToolSpec | None) -> Holds:
    """Whether a hint is true of a tool."""
    if spec is None:
        return _claimed(hint, EMPTY)
    return _stated(hint, spec.annotations) if spec.trusted else _claimed(hint, spec.annotations)


def _stated(hint: Hint, annotations: JSONObject) -> Holds:
    """By a trusted server; the defaults are those of the protocol."""
    reads_only = marks_read_only(annotations)
    match hint:
        case "read-only":
            found = reads_only
        case "writes":
            found = not reads_only
        case "destructive":
            found = not reads_only and annotations.get("destructiveHint") is not False
        case "idempotent":
            found = annotations.get("idempotentHint") is True
        case "open-world":
            found = annotations.get("openWorldHint") is not False
    return "yes" if found else "no"


def _claimed(hint: Hint, annotations: JSONObject) -> Holds:
    """By an untrusted server."""
    match hint:
        case "destructive" | "writes" | "open-world":
            return "yes"
        # A claim counts even beside one that contradicts it: it can only make the policy stricter.
        case "read-only":
            return "word" if annotations.get("readOnlyHint") is True else "no"
        case "idempotent":
            return "word" if annotations.get("idempotentHint") is True else "no"
