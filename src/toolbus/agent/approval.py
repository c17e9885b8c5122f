"""Who is asked before a tool is run."""

import inspect
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

from toolbus.core.records import JSON, ToolSpec

Word: TypeAlias = bool | str
"""True lets a call run; False, or a reason, does not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A call that waits for a word."""

    id: str
    name: str
    arguments: Mapping[str, JSON]
    spec: ToolSpec | None
    """None for a function of yours."""

    @property
    def server(self) -> str | None:
        """Where the tool is."""
        return None if self.spec is None else self.spec.origin.server

    @property
    def reads_only(self) -> bool:
        """Whether the tool is marked so. The mark is the server's own word."""
        return self.spec is not None and self.spec.annotations.get("readOnlyHint") is True


Validator: TypeAlias = Callable[[Request], Word | Awaitable[Word]]
Approve: TypeAlias = Literal["never", "writes", "ask"] | Validator
"""Ask `never`, for all that is not marked read-only (`writes`), always (`ask`), or a function of yours."""


def checked(approve: Approve) -> Approve:
    """The same; ValueError for what is no way to approve."""
    if not callable(approve) and approve not in ("never", "writes", "ask"):
        raise ValueError(f"approve is 'never', 'writes', 'ask' or a function, not {approve!r}")
    return approve


async def refusal(request: Request, approve: Approve, ask: Validator) -> str | None:
    """Why the call must not be made, for the model; None if it may."""
    match approve:
        case "never":
            return None
        case "writes" if request.reads_only:
            return None
        case "writes" | "ask":
            word = ask(request)
        case _:
            word = approve(request)
    said = await word if inspect.isawaitable(word) else word
    if said is True:
        return None
    reason = f": {said}" if isinstance(said, str) and said else ""
    return f"The user did not allow this call{reason}. Do not try it again unless the user asks for it."
