"""Which calls need a person's approval, for the adapters and for the agent.

`approve=` takes a mode or a function. An adapter's function says which tools need approval, and the framework
asks. The agent's function decides about each call itself.

What a server says about its own tools decides nothing, unless the config marks the server with `trust: true`.
"""

import hashlib
import inspect
import json
from collections.abc import Awaitable, Callable
from typing import Literal, TypeAlias, TypeVar

from toolbus.core.approval import ApprovalAnswer, ApprovalRequest, is_approval
from toolbus.core.records import ToolSpec

ApprovalMode: TypeAlias = Literal["never", "writes", "ask"]
"""Ask `never`, for every tool (`ask`), or for all but the read-only ones of trusted servers (`writes`)."""
Function = TypeVar("Function", bound=Callable[..., object])
T = TypeVar("T")
ApprovalRule: TypeAlias = ApprovalMode | Function
"""The value of `approve=`."""
NeedsApproval: TypeAlias = Callable[[ToolSpec], bool]
"""An adapter's function: whether calls of a tool need approval."""
Approver: TypeAlias = Callable[[ApprovalRequest], ApprovalAnswer | Awaitable[ApprovalAnswer]]
"""The agent's function, plain or async: decides about one call."""


def check_rule(rule: object) -> None:
    """Raise ValueError if the rule is neither a mode nor a function."""
    if not callable(rule) and rule not in ("never", "writes", "ask"):
        raise ValueError(f"approve must be 'never', 'writes', 'ask' or a function, not {rule!r}")


def needs_approval(spec: ToolSpec, rule: ApprovalRule[NeedsApproval]) -> bool:
    """Whether a person is asked before the tool is called."""
    check_rule(rule)
    return rule(spec) if callable(rule) else _asks(rule, spec)


async def denial(request: ApprovalRequest, rule: ApprovalRule[Approver], ask: Approver) -> str | None:
    """Why the call is denied, for the model; None if it is allowed. A mode leaves the decision to `ask`."""
    if not callable(rule) and not _asks(rule, request.spec):
        return None
    return denial_text(await decided(rule if callable(rule) else ask, request))


def denial_text(answer: ApprovalAnswer) -> str | None:
    """Why an answer denies the call, for the model; None if it allows it."""
    if is_approval(answer):
        return None
    reason = f": {answer}" if isinstance(answer, str) and answer not in ("", "never") else ""
    return f"The user did not allow this call{reason}. Do not try it again unless the user asks for it."


async def decided(
    decide: Callable[[T], ApprovalAnswer | Awaitable[ApprovalAnswer]], request: T
) -> ApprovalAnswer:
    """The decision of a plain or async function."""
    decision = decide(request)
    return await decision if inspect.isawaitable(decision) else decision


def definition_digest(spec: ToolSpec) -> str:
    """A digest of what a tool claims to be; an answer that was given for another digest has expired."""
    claims = {
        "origin": str(spec.origin),
        "route": spec.route,
        "name": spec.name,
        "title": spec.title,
        "description": spec.description,
        "schemas": [spec.input_schema, spec.server_schema, spec.output_schema],
        "annotations": spec.annotations,
        "trusted": spec.trusted,
    }
    return hashlib.sha256(json.dumps(claims, sort_keys=True).encode()).hexdigest()


def _asks(mode: ApprovalMode, spec: ToolSpec | None) -> bool:
    return mode == "ask" or (mode == "writes" and not _is_read_only(spec))


def _is_read_only(spec: ToolSpec | None) -> bool:
    return spec is not None and spec.reads_only
