"""Scripts that clients run: what a call in one asks is put to the client, and the script goes on.

A modern client carries the suspended script to its next request, which any gateway with the same state can
answer. A legacy client is asked on the stream of its request.
"""

from dataclasses import replace

from toolbus.core.ask.interactions import ClientError
from toolbus.core.text.encoding import as_sent
from toolbus.core.values.elicitation import Answer, Pending
from toolbus.core.values.errors import CallRefused
from toolbus.core.values.records import JSON, JSONObject, Text, ToolResult
from toolbus.gateway.calls.request_state import RequestState
from toolbus.gateway.protocol.clients import SessionClient
from toolbus.gateway.protocol.protocol_error import ProtocolError
from toolbus.gateway.protocol.reports import Reports
from toolbus.gateway.protocol.request import ClientRequest, RequestTarget
from toolbus.gateway.protocol.words import ELICITATION, INVALID_PARAMS, can_ask, is_object, object_in

_FORM: JSONObject = {"mode": "form"}
_ACTIONS = ("accept", "decline", "cancel")


class ScriptCalls:
    """Answers calls of `run_code`."""

    def __init__(self, rounds: RequestState) -> None:
        self._rounds = rounds

    async def run(self, request: ClientRequest, target: RequestTarget) -> JSONObject:
        """What a script returns, or what a modern client has to answer first."""
        if request.is_modern:
            return await self._run_modern(request, target)
        return as_sent(await self._run_legacy(request, target))

    async def _run_modern(self, request: ClientRequest, target: RequestTarget) -> JSONObject:
        given = await self._rounds.opened(request, target)
        if given.script is not None:
            result = await _resumed(request, given.script, given.responses or {})
        else:
            result = await _started(request, target, request.exchange.capabilities)
        if result.pending is None:
            return as_sent(result)
        return self._rounds.needs_input(request, target, result.pending)

    async def _run_legacy(self, request: ClientRequest, target: RequestTarget) -> ToolResult:
        exchange = request.exchange
        assert exchange.session is not None, "a legacy client has a session"
        client = SessionClient(exchange.session, exchange.channel)
        result = await _started(request, target, client.capabilities)
        while (pending := result.pending) is not None:  # a script makes only so many calls
            responses: dict[str, JSON] = {}
            for key, asked in pending.requests.items():
                try:
                    params = object_in(asked, "params")
                    responses[key] = await client.ask(pending.server, asked["method"], params)
                except ClientError as error:
                    problem = f"the client answered: {error.message}"
                    raise CallRefused(f"{asked['method']} in a script", problem) from error
            result = await _resumed(request, pending, responses)
        return result


async def _started(request: ClientRequest, target: RequestTarget, capabilities: JSONObject) -> ToolResult:
    scripts, reports = request.client.view.scripts, Reports(request.exchange)
    can_answer = can_ask(capabilities, ELICITATION, _FORM)
    on_input = "suspend" if can_answer else "ask"
    result = await scripts.run_for_model(target.arguments, on_input, reports.on_progress)
    if result.pending is None or can_answer:
        return result
    problem = f"the script was stopped: {result.pending}; this client cannot show the question"
    return replace(result, content=(Text(text=problem),), is_error=True, pending=None)


async def _resumed(request: ClientRequest, pending: Pending, responses: JSONObject) -> ToolResult:
    answers = {key: _answer(object_in(responses, key)) for key in pending.questions if key in responses}
    on_progress = Reports(request.exchange).on_progress
    try:
        return await request.client.view.resume(pending, answers, on_progress=on_progress)
    except ValueError as error:  # an answer is missing, or does not fit its form
        raise ProtocolError(INVALID_PARAMS, str(error)) from error


def _answer(response: JSONObject) -> Answer:
    action: JSON = response.get("action")
    content: JSON = response.get("content")
    if action not in _ACTIONS or not (content is None or is_object(content)):
        raise ProtocolError(INVALID_PARAMS, "an answer needs an action, and its content as an object")
    return Answer(action=action, content=content)
