"""The calls that need a person's approval, for the adapters and for the agent.

The policy of the bus asks about calls, and `approve=` may ask about more. `approve=` takes a mode or a
function. An adapter's function says which tools need approval, and the framework asks. The agent's function
decides about each call itself. An answer to the policy is handed over with the call, and the guard of the
bus takes it for exactly that call.

A server's own annotations are ignored, unless the config marks the server with `trust_annotations: true`. The
config's own `hints` about a tool are always used.
"""

import hashlib
import inspect
import json
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from typing import Literal, TypeAlias, TypeVar

from toolbus.bus.catalog.exposure import CALL, CALL_READ, CALLS, RUN_CODE
from toolbus.bus.catalog.tool import Tool
from toolbus.bus.inner import calls_of, view_of
from toolbus.core.ask.approval import Approval, ApprovalAnswer, ApprovalRequest, is_approval
from toolbus.core.values.records import JSON, ToolSpec

ApprovalMode: TypeAlias = Literal["never", "writes", "ask"]
"""Ask `never`, for every tool (`ask`), or for all but the read-only ones of trusted servers (`writes`)."""
MAX_ASKED = 10_000
"""Questions to remember."""
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


def needs_approval(
    tool: Tool, rule: ApprovalRule[NeedsApproval], arguments: Mapping[str, JSON] | None = None
) -> bool:
    """Whether a person is asked before the tool is called; with `arguments`, before that call.

    Without `arguments`, the target of `call_tool` is unknown: approval is then needed unless the rule is
    `never`. A call of `call_read_tool` only reads.
    """
    check_rule(rule)
    called = tool if arguments is None else target_of(tool, arguments)[0]
    if called.spec.route in (CALL, RUN_CODE):
        return rule != "never"
    if called.spec.route == CALL_READ and callable(rule):
        return True  # it may be about the tool that is not known yet
    return rule(called.spec) if callable(rule) else _asks(rule, called.spec)


def target_of(tool: Tool, arguments: Mapping[str, JSON]) -> tuple[Tool, Mapping[str, JSON]]:
    """The tool and arguments of a call that is made through `call_tool`; the given ones of any other."""
    if tool.spec.route not in CALLS:
        return tool, arguments
    view = view_of(tool)
    inner = calls_of(view).listed_inner(arguments)
    return (tool, arguments) if inner is None else (Tool(inner[0], view), inner[1])


def request_of_call(
    call: str, name: str, arguments: Mapping[str, JSON], tool: Tool | None
) -> ApprovalRequest:
    """The request to a person before a call; `tool` is None for a function of the user."""
    if tool is None:
        return ApprovalRequest(id=call, name=name, arguments=arguments, spec=None)
    tool, arguments = target_of(tool, arguments)
    return ApprovalRequest(
        id=call, name=tool.name, arguments=arguments, spec=tool.spec, digest=tool_digest(tool)
    )


async def denial(request: ApprovalRequest, rule: ApprovalRule[Approver], ask: Approver) -> str | None:
    """The reason for denying a call, for the model; None if it is allowed. Modes leave it to `ask`."""
    if not callable(rule) and not _asks(rule, request.spec):
        return None
    return denial_text(await decided(rule if callable(rule) else ask, request))


def denial_text(answer: ApprovalAnswer) -> str | None:
    """The text about a denied call, for the model; None if the answer allows it."""
    if is_approval(answer):
        return None
    reason = f": {answer}" if isinstance(answer, str) and answer not in ("", "never") else ""
    return f"The user did not allow this call{reason}. Do not try it again unless the user asks for it."


async def decided(
    decide: Callable[[T], ApprovalAnswer | Awaitable[ApprovalAnswer]], request: T
) -> ApprovalAnswer:
    decision = decide(request)
    return await decision if inspect.isawaitable(decision) else decision


def tool_digest(tool: Tool) -> str:
    """The digest of a tool's definition, as in the lockfile; of the bus's own tools, as they are shown."""
    return calls_of(view_of(tool)).definition_digest(tool.spec) or definition_digest(tool.spec)


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


def approval_request(tool: Tool, arguments: Mapping[str, JSON], *, run: str = "") -> ApprovalRequest | None:
    """The policy's request for approval of a call, with the arguments as they would be sent."""
    return calls_of(view_of(tool)).approval_needed(tool.spec, arguments, run=run)


def approval_of(
    tool: Tool,
    arguments: Mapping[str, JSON],
    by: str | None,
    *,
    asked: ApprovalRequest | None = None,
    answer: ApprovalAnswer = "once",
) -> Approval | None:
    """The approval to hand over with a call that a person approved in a framework; None if none is needed.

    Pass the arguments that the person approved, even if the person changed them. `asked` is what the person
    was asked, if that is known: if the tool has changed since, the approval is not for this call.
    """
    request = None if by is None else approval_request(tool, arguments)
    if request is None or by is None:
        return None
    has_changed = asked is not None and asked.digest != request.digest
    return (asked if asked is not None and has_changed else request).approved(by, answer)


class AskedCalls:
    """The requests for approval that frameworks made in this process, by call id; old ones are dropped."""

    def __init__(self) -> None:
        self._requests: OrderedDict[str, ApprovalRequest] = OrderedDict()

    def ask(
        self, call: str | None, tool: Tool, arguments: Mapping[str, JSON], *, again: bool = False
    ) -> ApprovalRequest | None:
        """Remember the policy's request about a call, and return it; `again` if it may be made twice."""
        request = approval_request(tool, arguments)
        if request is not None and call and not (again and self.find(call, tool)):
            self._requests[call] = request
            if len(self._requests) > MAX_ASKED:
                self._requests.popitem(last=False)
        return request

    def find(self, call: str | None, tool: Tool) -> ApprovalRequest | None:
        request = None if call is None else self._requests.get(call)
        is_same = request is not None and request.spec is not None and request.spec.origin == tool.origin
        # Its question is about the tool that it calls; the digest of the call tells them apart.
        is_same = is_same or tool.spec.route in CALLS
        return request if is_same else None


def may_ask(tool: Tool) -> bool:
    """Whether the policy asks about some calls of a tool; for frameworks that have to know before a call."""
    return calls_of(view_of(tool)).may_ask(tool.spec)


def is_allowed(tool: Tool, arguments: Mapping[str, JSON]) -> bool:
    """Whether a rule of the policy allows the call, or a person did in answer to one."""
    return calls_of(view_of(tool)).is_allowed(tool.spec, arguments)


def approval_metadata(request: ApprovalRequest | None) -> dict[str, JSON]:
    """The question of the policy, for the person whom a framework asks."""
    if request is None:
        return {}
    return {"rule": request.rule, "reason": request.reason, "arguments": dict(request.arguments)}


def _asks(mode: ApprovalMode, spec: ToolSpec | None) -> bool:
    return mode == "ask" or (mode == "writes" and not _is_read_only(spec))


def _is_read_only(spec: ToolSpec | None) -> bool:
    return spec is not None and spec.reads_only
