"""The guard of a bus: the one place that enforces its policy, for every face and every kind of operation.

It sees an operation exactly as it will be sent. It decides, asks a person if necessary, counts the calls that
a rule allows, and records the decision before anything is sent. If anything goes wrong, nothing is sent.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol, TypeAlias

from toolbus.config.settings.policy import Action
from toolbus.core.ask.approval import Approval, ApprovalPending, ApprovalRequest, call_digest
from toolbus.core.ask.interactions import asking
from toolbus.core.operation.operation import Decision, Observer, Operation, Trail
from toolbus.core.operation.tracing import add_event
from toolbus.core.values.elicitation import ELICITATION, QUESTION, Pending
from toolbus.core.values.errors import CallDenied
from toolbus.core.values.records import JSON
from toolbus.policy.answers import AnswerKey
from toolbus.policy.approvals import ApprovalOutcome, Approvals
from toolbus.policy.counts import CountedDecisions, RuleCounts
from toolbus.policy.layers import Layer, LayerDecision, layers_of, removal, rulings
from toolbus.policy.rules import PolicyTarget, Verdict

NOBODY = (
    "asks a person, and nobody can be asked here; pass Interactions(approve=...), use a terminal or "
    'on_input="suspend", or change the rule'
)
MUTE = "asks a person, and this client does not support forms; use one that does, or change the rule"
CHANGED = "the call is not the one that was approved: its arguments or the tool changed since"
ANSWERS = ("once", "session", "always", "never", "no")
"""The possible answers of a person to the question of a suspended call."""


class Subjects(Protocol):
    """The targets of operations."""

    def target(self, operation: Operation, /) -> PolicyTarget | None:
        """The target of an operation; None if nobody decides about it."""
        ...

    def definition(self, target: PolicyTarget, /) -> str | None:
        """The digest of the definition of a tool or a prompt, as in the lockfile."""
        ...


class AuditLog(Trail, Observer, Protocol):
    """A trail that also follows every operation to its end."""

    def close(self) -> None:
        """Release its file; a later line opens it again."""
        ...


@dataclass(slots=True, kw_only=True)
class ActiveRules:
    """The rules and the trail that a guard uses now."""

    layer: Layer
    """The policy of the bus."""
    trail: AuditLog | None = None
    counts: RuleCounts | None = None
    """Counts the decisions, if somebody looks at them."""
    recorder: Trail | None = field(init=False)
    """Is told of each decision: the trail, the counts, both, or nobody."""

    def __post_init__(self) -> None:
        self.recorder = self.trail if self.counts is None else CountedDecisions(self.counts, self.trail)


class Current(Protocol):
    """The holder of the active rules; a reload replaces them."""

    now: ActiveRules


@dataclass(slots=True)
class _Case:
    """One operation, its target, and what the policies decide about it."""

    operation: Operation
    target: PolicyTarget
    rulings: list[LayerDecision]
    definition: str | None

    @property
    def what(self) -> str:
        return described(self.operation.spec.name, self.target)

    def keys(self) -> list[AnswerKey]:
        """The keys for lasting answers: one for each rule that asks."""
        target = self.target
        if target.kind == "tool" and self.definition is None:
            return []  # an answer could not expire
        return [
            AnswerKey(
                user=self.operation.caller.user,
                kind=target.kind,
                target=f"{target.server}/{target.name}",
                definition=self.definition,
                rule=ruling.layer.digest(ruling.verdict),
            )
            for ruling in self.rulings
            if ruling.action == "ask"
        ]


class Foreseen(NamedTuple):
    """The decision that an operation would get."""

    target: PolicyTarget
    rulings: list[LayerDecision]
    """Of the bus and its views, the strictest first."""
    settled: ApprovalOutcome | None
    """The lasting answer of a person to the rule that asks."""

    @property
    def action(self) -> Action:
        if self.settled is not None:
            return "allow" if self.settled.allowed else "deny"
        return self.rulings[0].action


_Allowed: TypeAlias = tuple[PolicyTarget, Verdict, Decision]
_MOST_ALLOWED = 2_000
"""The maximum number of tools whose allowed calls are remembered with their decision."""


class PolicyGuard:
    """Enforces the policy of a bus, and the policies of its views."""

    def __init__(self, current: Current, subjects: Subjects, asking: Approvals) -> None:
        """`current` has the policy and the trail of the current config."""
        self._current = current
        self._subjects = subjects
        self._asking = asking
        self._allowed: dict[int, _Allowed] = {}

    def admits(self, operation: Operation) -> bool:
        """Whether an operation is allowed at once, and recorded; otherwise it has to be awaited.

        Nearly all calls take this way, so it creates no unnecessary objects.
        """
        if operation.policies:
            return False
        target = self._subjects.target(operation)
        if target is None:
            return True
        enforced = self._current.now
        verdict = enforced.layer.policy.decide(target, operation.arguments)
        if verdict.action != "allow" or enforced.layer.limits(verdict):
            return False
        if enforced.recorder is not None:
            known = self._allowed.get(id(target))
            if known is None or known[0] is not target or known[1] is not verdict:
                known = self._remember(target, verdict)
            self._record(operation, target, known[2])
        return True

    def _remember(self, target: PolicyTarget, verdict: Verdict) -> _Allowed:
        """The recorded decision of an allowed call; the target is another one if its definition changes."""
        by = "default" if verdict.rule is None else "policy"
        rule, definition = self._current.now.layer.label(verdict), self._subjects.definition(target)
        decision = Decision(action="allow", by=by, rule=rule, definition=definition)
        known = target, verdict, decision
        if target.kind == "tool":  # others are made anew for each operation
            if len(self._allowed) >= _MOST_ALLOWED:
                self._allowed.clear()
            self._allowed[id(target)] = known
        return known

    async def __call__(self, operation: Operation) -> Approval | None:
        """Admit an operation, or raise `CallDenied`; returns the approval, if a person gave one.

        Raises `ApprovalPending` if the call is to be suspended until a person answers.
        """
        case = self._case(operation)
        if case is None:
            return None
        match case.rulings[0].action:
            case "deny":
                # The rule that removed a tool from the catalog, if there is one: each face names the same.
                ruling = self._removal(case.target, operation.policies) or case.rulings[0]
                raise self._refusal(case, "policy", ruling.denial, ruling)
            case "ask":
                return await self._ask(case)
            case "allow":
                self._allow(case, "default" if case.rulings[0].label is None else "policy")
                return None

    def check_offered(self, operation: Operation) -> None:
        """Raise `CallDenied`, and record it, if the operation is denied with any arguments."""
        target = self._subjects.target(operation)
        if target is not None and (ruling := self._removal(target, operation.policies)) is not None:
            case = _Case(operation, target, [ruling], self._subjects.definition(target))
            raise self._refusal(case, "policy", ruling.denial)

    def denial(self, name: str, target: PolicyTarget, policies: tuple[object, ...]) -> CallDenied | None:
        """The error for the tool of that name, if it is denied with any arguments."""
        ruling = self._removal(target, policies)
        return None if ruling is None else CallDenied(described(name, target), ruling.denial, ruling.label)

    def is_hidden(self, operation: Operation) -> bool:
        """Whether the policies of views alone deny an operation with any arguments."""
        target = self._subjects.target(operation)
        return target is not None and removal(layers_of(operation.policies), target) is not None

    def question(self, operation: Operation) -> ApprovalRequest | None:
        """The question for a person about an operation; None if it is decided without one."""
        case = self._case(operation)
        if case is None or case.rulings[0].action != "ask":
            return None
        settled = self._asking.settled(case.keys())
        return None if settled is not None else self._request(case, case.rulings[0])

    def foreseen(self, operation: Operation) -> Foreseen | None:
        """The decision that an operation would get; None if nobody decides.

        Nobody is asked, and nothing is counted or recorded.
        """
        case = self._case(operation)
        if case is None:
            return None
        asks = case.rulings[0].action == "ask"
        return Foreseen(case.target, case.rulings, self._asking.settled(case.keys()) if asks else None)

    def may_ask(self, operation: Operation) -> bool:
        """Whether a person may have to be asked about an operation, with other arguments."""
        target = self._subjects.target(operation)
        layers = self._layers(operation.policies)
        return target is not None and any(layer.policy.may_ask(target) for layer in layers)

    def is_allowed(self, operation: Operation) -> bool:
        """Whether a rule allows an operation, or a person did in answer to one."""
        case = self._case(operation)
        if case is None:
            return False
        if case.rulings[0].action == "ask":
            settled = self._asking.settled(case.keys())
            return settled is not None and settled.allowed
        return case.rulings[0].action == "allow" and any(one.label is not None for one in case.rulings)

    def _case(self, operation: Operation) -> _Case | None:
        target = self._subjects.target(operation)
        return None if target is None else self._case_of(operation, target)

    def _case_of(self, operation: Operation, target: PolicyTarget) -> _Case:
        found = rulings(self._layers(operation.policies), target, operation.arguments)
        return _Case(operation, target, found, self._subjects.definition(target))

    def _removal(self, target: PolicyTarget, policies: tuple[object, ...]) -> LayerDecision | None:
        return removal(self._layers(policies), target)

    def _layers(self, policies: tuple[object, ...]) -> tuple[Layer, ...]:
        return self._current.now.layer, *layers_of(policies)

    # Asking

    async def _ask(self, case: _Case) -> Approval | None:
        operation, ruling = case.operation, case.rulings[0]
        if operation.route == ELICITATION:
            self._allow(case, "elicitation")  # the person is asked anyway
            return None
        request, keys = self._request(case, ruling), case.keys()
        answered = self._given(operation, request, case) or self._asking.settled(keys)
        if answered is None and operation.on_input == "suspend":
            raise ApprovalPending(_pending(operation, request))
        if answered is None and not self._asking.can_ask(request.session):
            unasked = NOBODY if operation.forwarding is None else MUTE
            raise self._refusal(case, "policy", f"rule {ruling.label} {unasked}")
        if answered is None:
            add_event("toolbus.approval_asked", rule=ruling.label or "")
            with asking(operation.people):
                answered = await self._asking.ask(request, keys)
            case = self._decided_again(case, request)
        if not answered.allowed:
            raise self._refusal(case, answered.by, answered.reason)
        self._allow(case, answered.by)
        add_event("toolbus.approved", by=answered.by)
        return Approval(call=request.call or "", by=answered.by)

    def _decided_again(self, case: _Case, request: ApprovalRequest) -> _Case:
        """The same call, after a person was asked about it; raise `CallDenied` if it is another one now.

        In the meantime the policy may have been replaced, the tool changed, or the arguments: they are the
        caller's.
        """
        now = self._case_of(case.operation, case.target)
        ruling = now.rulings[0]
        if ruling.action == "deny":
            raise self._refusal(now, "policy", ruling.denial)
        if self._request(now, case.rulings[0]).call != request.call:
            raise self._refusal(case, "policy", CHANGED)
        return now if ruling.action == "ask" else case

    def _given(self, operation: Operation, request: ApprovalRequest, case: _Case) -> ApprovalOutcome | None:
        """A person's earlier answer; None if there was no such question, or if it was about another call."""
        given = operation.approval
        if given is None:
            return None
        if given.call == request.call:
            return self._asking.take(given.answer, given.by, case.keys())
        return ApprovalOutcome(allowed=False, by=given.by, reason=CHANGED) if given.resumed else None

    def _request(self, case: _Case, ruling: LayerDecision) -> ApprovalRequest:
        operation, target = case.operation, case.target
        call = call_digest(operation.route, target.server, target.name, operation.arguments, case.definition)
        given = operation.approval
        changed = "" if given is None or given.call == call else CHANGED
        reasons = [text for text in (ruling.verdict.reason, changed) if text]
        is_tool = target.kind == "tool"
        return ApprovalRequest(
            id=str(operation.id),
            name=operation.spec.name if is_tool else f"{target.server}/{target.name}",
            arguments=operation.arguments,
            spec=operation.spec,
            digest=case.definition,
            call=call,
            rule=ruling.label,
            reason="; ".join(reasons),
            user=operation.caller.user,
            session=operation.caller.session,
        )

    # Decisions

    def _allow(self, case: _Case, by: str) -> None:
        """Count and record an operation; raise `CallDenied` if that is not possible."""
        operation = case.operation
        if operation.resumed is None:  # else it was counted before
            for ruling in case.rulings:
                if (reason := ruling.layer.over(ruling.verdict, operation.caller)) is not None:
                    raise self._refusal(case, "policy", f"rule {reason}", ruling)
        self._record(
            operation,
            case.target,
            Decision(action="allow", by=by, rule=case.rulings[0].label, definition=case.definition),
        )

    def _refusal(self, case: _Case, by: str, reason: str, ruling: LayerDecision | None = None) -> CallDenied:
        rule = (ruling or case.rulings[0]).label
        decision = Decision(action="deny", by=by, rule=rule, definition=case.definition, reason=reason)
        self._record(case.operation, case.target, decision)
        return CallDenied(case.what, reason, rule)

    def _record(self, operation: Operation, target: PolicyTarget, decision: Decision) -> None:
        recorder = self._current.now.recorder
        if recorder is None:
            return
        try:
            recorder.decided(operation, decision)
        except Exception as error:
            what = described(operation.spec.name, target)
            raise CallDenied(what, f"the decision could not be recorded: {error}") from error


def described(name: str, target: PolicyTarget) -> str:
    """The target of the call, as the beginning of a sentence; tools by the public `name`."""
    return f"{target.kind} {name if target.kind == 'tool' else target.name!r}"


def _pending(operation: Operation, request: ApprovalRequest) -> Pending:
    choice = {"type": "string", "title": "Allow this call?", "enum": list(ANSWERS)}
    schema = {"type": "object", "properties": {"answer": choice}, "required": ["answer"]}
    params = {"message": approval_text(request), "requestedSchema": schema}
    origin = operation.spec.origin
    return Pending(
        server=origin.server,
        tool=origin.tool,
        arguments=dict(operation.arguments),
        requests={QUESTION: {"method": ELICITATION, "params": params}},
        rounds=0,
        call=request.call,
    )


def approval_text(request: ApprovalRequest) -> str:
    """The question about a call in words, with its arguments whole and escaped."""
    because = f" ({request.reason})" if request.reason else ""
    return (
        f"Rule {request.rule} asks{because}: call {_quoted(request.name)} with {written(request.arguments)}?"
    )


def written(arguments: Mapping[str, JSON]) -> str:
    """The arguments as JSON in one line, with everything but plain characters escaped."""
    return json.dumps(dict(arguments), default=repr)


def _quoted(name: str) -> str:
    return json.dumps(name)
