"""The sealed state of a request that needs input: a modern client carries it between rounds.

Its `requestState` is sealed: only the same principal can use it, only for the same request, for some time.
"""

import asyncio
from dataclasses import dataclass, field

from toolbus.core.ask.approval import Approval
from toolbus.core.operation.quota import Quota
from toolbus.core.values.elicitation import QUESTION, Pending
from toolbus.core.values.errors import CallDenied, ServerRejected
from toolbus.core.values.records import JSON, JSONObject
from toolbus.gateway.protocol.request import ClientRequest, RequestTarget
from toolbus.gateway.protocol.words import (
    ELICITATION,
    INVALID_PARAMS,
    ProtocolError,
    is_object,
    list_in,
    object_in,
    over_quota,
)
from toolbus.state.seal import OneTimeUse, Seal

_PURPOSE = "requestState"
MAX_USED = 1_000
"""Approvals and suspended scripts that are used within the time in which they could be sent again."""
APPROVER = "gateway"
"""The name in the audit trail for the one who asked for an approval."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """One round: the data for the server, or for the call that waits for it."""

    responses: JSONObject | None = None
    state: str | None = None
    """The server's."""
    approval: Approval | None = None
    rounds: int = 0
    """The number of times that the server has asked so far."""
    counted: str | None = None
    """The proof of the suspended call (`Pending.counted`)."""
    parked: str | None = None
    """The call that waits."""
    script: Pending | None = None
    """The script that waits."""
    declined: str | None = None
    """The reason why the call is not made."""


FIRST = Round()


@dataclass(frozen=True, slots=True, kw_only=True)
class _State:
    digest: str
    state: str | None = None
    answered: JSONObject = field(default_factory=dict[str, JSON])
    rounds: int = 0
    counted: str | None = None
    parked: str | None = None
    call: str | None = None
    """The digest of the call that a person is asked to approve."""
    approved: tuple[str, str] | None = None
    once: str = ""
    """The name of its approval, which can be used once."""
    script: str | None = None
    """A suspended script as JSON."""
    visits: tuple[str, ...] = ()
    """The keys of the URLs that a legacy server wants the user to visit."""


class RequestState:
    """Seals and opens the state of requests."""

    def __init__(self, seal: Seal, seconds: float, spent: OneTimeUse) -> None:
        """A client can go on for this many `seconds`."""
        self._seal = seal
        self._seconds = seconds
        self._spent = spent
        self._used = Quota(MAX_USED)
        """The used states that could still be sent again."""

    async def opened(self, request: ClientRequest, target: RequestTarget) -> Round:
        """The round that a request of a modern client is; `ProtocolError` if its state is not valid."""
        params = request.params
        if "requestState" not in params and "inputResponses" not in params:
            return FIRST
        given = _responses(request)
        text: JSON = params.get("requestState")
        if text is None:
            return Round(responses=given)
        state = self._unsealed(request, target, text)
        if state.script is not None:
            self._count_use(request)
            script = Pending.from_json(state.script)
            return Round(responses=given, script=script, approval=approved_before(script))
        declined = [key for key in state.visits if object_in(given, key).get("action") != "accept"]
        if declined and all(key in given for key in declined):
            return Round(declined="the user did not visit the URL that the server requires")
        approval = _approval(state, given)
        if approval is not None:
            await self._use_once(request, target, state)
        is_relayed = state.parked is None and state.call is None and not state.visits
        return Round(
            responses={**state.answered, **given} if is_relayed else given,
            state=state.state,
            approval=approval,
            rounds=state.rounds,
            counted=state.counted,
            parked=state.parked,
        )

    def _unsealed(self, request: ClientRequest, target: RequestTarget, text: JSON) -> _State:
        name = request.exchange.principal.owner
        payload = self._seal.opened(_PURPOSE, name, text) if isinstance(text, str) else None
        if payload is None or payload["digest"] != target.digest(request.method):
            raise ProtocolError(INVALID_PARAMS, "Invalid requestState")
        values = dict(payload)
        values["visits"] = tuple(payload.get("visits", ()))
        if payload.get("approved") is not None:
            values["approved"] = tuple(payload["approved"])
        return _State(**values)

    async def _use_once(self, request: ClientRequest, target: RequestTarget, state: _State) -> None:
        """An approval is for one call: a state that is sent again does not make another one."""
        self._count_use(request)
        try:
            is_new = bool(state.once) and await self._spent.use(state.once)
        except OSError as error:
            reason = error.strerror or str(error) or type(error).__name__
            what = f"{request.method} of {target.name!r}"
            raise CallDenied(what, f"the use of its approval could not be recorded: {reason}") from error
        if not is_new:
            raise ProtocolError(
                INVALID_PARAMS, "Invalid requestState: its approval was used; send the request without it"
            )

    def _count_use(self, request: ClientRequest) -> None:
        """Limit the used states per principal: `Spent` has limited room, which all of them share."""
        owner = request.exchange.principal.holder
        if not self._used.take(owner):
            raise over_quota("max_used", "you have used too many approvals and suspended scripts")
        asyncio.get_running_loop().call_later(self._seconds, self._used.release, owner)

    def needs_input(self, request: ClientRequest, target: RequestTarget, pending: Pending) -> JSONObject:
        """The result of a request whose server needs input, or that a person has to approve."""
        if pending.script is not None:
            return self._input_required(request, target, pending.requests, script=pending.to_json())
        before = approved_before(pending)
        approved = None if before is None else (before.call, before.by)
        return self._input_required(
            request,
            target,
            pending.requests,
            state=pending.state,
            answered=dict(pending.answered),
            rounds=pending.rounds,
            counted=pending.counted,
            call=pending.call,
            approved=approved,
        )

    def waits(
        self, request: ClientRequest, target: RequestTarget, parked: str, requests: JSONObject
    ) -> JSONObject:
        """The result of a request that waits for answers in a call of ours."""
        return self._input_required(request, target, requests, parked=parked)

    def visit_first(
        self, request: ClientRequest, target: RequestTarget, error: ServerRejected
    ) -> JSONObject | None:
        """The result of a call before which the user has to visit URLs; None if there are none."""
        data: JSON = error.data
        asked = filter(is_object, list_in(data, "elicitations") if is_object(data) else [])
        requests: dict[str, JSON] = {
            f"visit-{number}": {
                "method": ELICITATION,
                "params": {"mode": "url", "message": one.get("message", ""), "url": one.get("url", "")},
            }
            for number, one in enumerate(asked, 1)
        }
        if not requests:
            return None
        return self._input_required(request, target, requests, visits=tuple(requests))

    def _input_required(
        self, request: ClientRequest, target: RequestTarget, requests: JSONObject, **state: JSON
    ) -> JSONObject:
        payload: dict[str, JSON] = {
            "digest": target.digest(request.method),
            **{key: value for key, value in state.items() if value not in (None, (), {}, 0)},
        }
        if "call" in payload or "approved" in payload:
            payload["once"] = self._spent.issue(self._seconds)
        sealed = self._seal.seal(_PURPOSE, request.exchange.principal.owner, payload, self._seconds)
        asked: JSONObject = {"inputRequests": dict(requests)} if requests else {}
        return {"resultType": "input_required", **asked, "requestState": sealed}


def _responses(request: ClientRequest) -> JSONObject:
    given: JSON = request.params.get("inputResponses", {})
    if not is_object(given) or not all(map(is_object, given.values())):
        raise ProtocolError(INVALID_PARAMS, "inputResponses must be an object of objects")
    return given


def _approval(state: _State, given: JSONObject) -> Approval | None:
    if state.call is not None:
        return None if QUESTION not in given else approval(state.call, object_in(given, QUESTION))
    if state.approved is not None:
        return Approval(call=state.approved[0], by=state.approved[1])
    return None


def approval(call: str, answer: JSONObject, by: str = APPROVER) -> Approval:
    """A person's answer to the question whether a call is approved."""
    said: JSON = object_in(answer, "content").get("answer", "no")
    accepted = answer.get("action") == "accept" and isinstance(said, bool | str)
    return Approval(call=call, by=by, answer=said if accepted else False, resumed=True)


def approved_before(pending: Pending) -> Approval | None:
    """The approval of a call that its server suspended after that."""
    if pending.approved is None:
        return None
    return Approval(call=pending.approved, by=pending.approved_by or APPROVER)
