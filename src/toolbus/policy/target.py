"""What a policy is asked about, and what it decides."""

from dataclasses import dataclass
from typing import Literal, TypeAlias

from toolbus.config.policy import Action
from toolbus.core.fast_init import with_fast_init
from toolbus.core.records import ToolSpec

Kind: TypeAlias = Literal["tool", "resource", "prompt", "request"]
STRICTNESS: dict[Action, int] = {"allow": 0, "ask": 1, "deny": 2}


@with_fast_init
@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """What an operation uses: a tool, a resource or a prompt of a server; or what a server requests of us."""

    kind: Kind
    server: str
    name: str
    """The server's own name of the tool or prompt; a URI; `elicitation`, `sampling` or `roots`."""
    spec: ToolSpec | None = None
    """The tool, for its hints; without it, the tool counts as one without hints."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What a policy decides."""

    action: Action
    rule: int | None = None
    """The position of the rule in the policy; None if no rule matched."""
    reason: str = ""
    """The reason that the rule gives."""

    @property
    def label(self) -> str | None:
        """The rule, such as `policy[2]`; None if no rule matched."""
        return None if self.rule is None else label(self.rule)


UNMATCHED = Verdict(action="allow")
"""Without a rule, everything is allowed."""


def label(rule: int) -> str:
    """What a rule is called."""
    return f"policy[{rule}]"
