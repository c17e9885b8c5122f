"""A person's approval of a call: the question, the answer, and the proof that a call was approved."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from toolbus.core.text.canonical import digest_of
from toolbus.core.values.elicitation import Pending
from toolbus.core.values.records import JSON, ToolSpec

ApprovalAnswer: TypeAlias = bool | str
"""True or `once` allows this call, `session` the tool until the bus closes, `always` until the tool changes.

`never` denies the tool until it changes; False, or any other text as the reason, denies this call.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class AttributedAnswer:
    """An answer with the one who gave it, from a handler that asks several people."""

    answer: ApprovalAnswer
    by: str
    """Their name in the audit trail, instead of the approver of the handlers."""


LASTING = ("session", "always", "never")
"""The answers that apply to further calls."""


class ApprovalPending(Exception):
    """A call is suspended until a person approves it."""

    def __init__(self, pending: Pending) -> None:
        self.pending = pending
        super().__init__(str(pending))


@dataclass(frozen=True, slots=True, kw_only=True)
class Approval:
    """A person's approval of one call; it applies to no other."""

    call: str
    """The digest of the call."""
    by: str
    """The part that asked the person: an adapter, the command line, a function."""
    answer: ApprovalAnswer = "once"
    """The person's answer."""
    resumed: bool = False
    """Whether it answers the question of a suspended call; if it is about another call, nobody is asked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalRequest:
    """A call that waits for approval."""

    id: str
    name: str
    arguments: Mapping[str, JSON]
    """The arguments exactly as they will be sent; show them whole."""
    spec: ToolSpec | None
    """None for your own function."""
    digest: str | None = None
    """The digest of the tool's definition, as in the lockfile; an answer for another one has expired."""
    call: str | None = None
    """The digest of the call; None for your own function."""
    rule: str | None = None
    """The rule of the policy that asks, such as `policy[2]`; None if your program asks."""
    reason: str = ""
    """The reason that the rule gives."""
    user: str = ""
    """The user who calls (`bus.as_user`); ask nobody else."""
    session: str = ""
    """The session of the caller (`Caller.session`)."""

    @property
    def server(self) -> str | None:
        """The server that has the tool."""
        return None if self.spec is None else self.spec.origin.server

    @property
    def reads_only(self) -> bool:
        """Whether the tool is marked read-only, by a server with `trust_annotations: true`."""
        return self.spec is not None and self.spec.reads_only

    def approved(self, by: str, answer: ApprovalAnswer = "once") -> Approval | None:
        """The proof that a person approved this call; None for your own function, which needs none."""
        return None if self.call is None else Approval(call=self.call, by=by, answer=answer)


Approved: TypeAlias = ApprovalAnswer | AttributedAnswer
Approve: TypeAlias = Callable[[ApprovalRequest], Approved | Awaitable[Approved]]
"""Asks a person about one call; plain or async."""


def is_approval(answer: ApprovalAnswer) -> bool:
    """Whether the answer allows the call."""
    return answer is True or answer in ("once", "session", "always")


def call_digest(
    route: str, server: str, tool: str, arguments: Mapping[str, JSON], definition: str | None
) -> str:
    """The digest of one call: the same for the same tool, definition and arguments."""
    return digest_of([route, server, tool, definition, dict(arguments)])
