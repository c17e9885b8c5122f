"""The methods of the REST API: the document, calls, and pending calls.

A call that has to ask its client becomes a task. So a client finds it again through any worker or replica,
and tasks have limits already.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial

from toolbus.bus.catalog.exposure import CALLS
from toolbus.bus.inner import calls_of
from toolbus.core.text.encoding import as_sent
from toolbus.core.values.errors import ToolbusError, ToolNotFound
from toolbus.core.values.records import JSON, JSONObject, Text, ToolResult
from toolbus.gateway.calls.calls import ACTIONS
from toolbus.gateway.calls.parked import ParkedCall
from toolbus.gateway.calls.tasks import ServerTask, outcome
from toolbus.gateway.http.request import encoded
from toolbus.gateway.methods import GatewayParts, Method, current_tool, inner_target, own_unknown
from toolbus.gateway.protocol.request import ClientRequest, RequestTarget
from toolbus.gateway.protocol.words import INVALID_PARAMS, ProtocolError, is_object, object_in
from toolbus.gateway.replicas.sessions import StoredTask
from toolbus.gateway.rest.problems import CallProblem, problem_json, problem_of, tool_problem

LONGEST_WAIT = 60.0
"""The most seconds that a client may want to wait for a call that it comes back for."""
_NO_CALL = "no call of yours has this id: it was cancelled, has expired, or never was"


async def call_tool(parts: GatewayParts, request: ClientRequest) -> JSONObject:
    """Call a tool; returns its result as `result`, or else the `call` to come back for."""
    name, wait = request.text("name"), request.params.get("wait")
    try:
        spec = await current_tool(parts, request, name)
    except ToolNotFound as error:
        raise _unknown(request, name, error) from None
    target = RequestTarget(spec, request.object("arguments"), name)
    is_described = spec.output_schema is not None and request.client.budget is None
    if spec.route in CALLS:
        target = await inner_target(parts, request, target)
    call = parts.calls.begin(request, target, partial(_ended, request, target, is_described))
    if wait is not None:  # it goes on if the client leaves
        await parts.tasks.adopt(call)
    if not await _is_over(call, wait):
        if not call.is_task:
            await parts.tasks.adopt(call)
        return {"call": _state(call)}
    try:
        return _as_result(as_sent(call.result()))
    finally:
        if call.is_task:
            await parts.tasks.end(call)


async def get_call(parts: GatewayParts, request: ClientRequest) -> JSONObject:
    """The state of a call; `wait` is for its end, for other questions, or until the gateway stops."""
    call = await _found(parts, request)
    wait = request.params.get("wait")
    if wait is not None and isinstance(call, ParkedCall):
        with suppress(TimeoutError):
            async with asyncio.timeout(wait):
                await call.news()
    return {"call": _state(call)}


async def answer_call(parts: GatewayParts, request: ClientRequest) -> JSONObject:
    """Answer questions of a call; returns its state when it has ended, or asks something else."""
    call, answers = await _found(parts, request), request.params.get("answers")
    if not is_object(answers) or not answers or not all(map(_is_answer, answers.values())):
        expected = 'send {"answers": {"QUESTION": {"action": "accept", "content": {...}}}}; '
        raise CallProblem(400, "invalid_request", f"{expected}actions: {', '.join(ACTIONS)}")
    if unknown := [key for key in answers if key not in call.questions]:
        asked = ", ".join(call.questions) or "none"
        problem = f"the call does not ask {', '.join(unknown):.200}; open questions: {asked}"
        raise CallProblem(409, "not_asked", problem)
    for key, answer in answers.items():
        _check(key, object_in(call.requests, key), answer)
    if isinstance(call, ParkedCall):
        call.answer(answers)
        await _is_over(call, request.params.get("wait"))
    return {"call": _state(call)}


async def cancel_call(parts: GatewayParts, request: ClientRequest) -> JSONObject:
    """End a call; nobody can ask for it any more."""
    await parts.tasks.end(await _found(parts, request))
    return {}


async def describe(parts: GatewayParts, request: ClientRequest) -> JSONObject:
    """The OpenAPI document of the client's view, encoded, and its entity tag."""
    await parts.listed(request)
    view = request.client.view
    if view.running:
        await calls_of(view).refresh("tools")
    documents, place = request.params["documents"], request.params["place"]
    document, tag = await documents.of(request.client.offering, place, whole=request.client.budget is None)
    return {"document": document, "tag": tag}


REST: Mapping[str, Method] = {
    "tools/list": describe,
    "tools/call": call_tool,
    "tasks/get": get_call,
    "tasks/update": answer_call,
    "tasks/cancel": cancel_call,
}
"""By the names of the protocol, under which they are counted and traced."""


async def _ended(
    request: ClientRequest,
    target: RequestTarget,
    is_described: bool,
    make: Callable[[], Awaitable[ToolResult]],
) -> ToolResult:
    """The result of a call: with structured content only if the document describes that."""
    try:
        result = await make()
    except ToolbusError as error:
        raise problem_of(error) from error
    if result.is_error and not result.sent:
        foreseen = calls_of(request.client.view).foreseen(target.spec, target.arguments)
        code = (403, "denied") if foreseen.problem is None else (400, "invalid_arguments")
        errors = [{"place": place, "detail": detail} for place, detail in foreseen.places.items()]
        detail = result.text.removeprefix("MCP error: ")
        raise CallProblem(*code, detail, **({"errors": errors} if errors else {}), sent=False)
    if result.structured is None or is_described or result.is_error:
        return result
    content = result.content or (Text(text=encoded(result.structured).decode()),)
    return ToolResult(content=content, meta=result.meta)


def _unknown(request: ClientRequest, name: str, error: ToolNotFound) -> CallProblem:
    """The problem with an unknown name: it may be a tool of a server that is not connected."""
    if error.likely is None:
        return problem_of(own_unknown(request, name, error))
    # Its output and the paths of this machine are for people on it: `toolbus check` shows them.
    down = f"no tool {name!r} now: {', '.join(error.down)} is not connected; try again later"
    return CallProblem(503, "server_down", down, sent=False, retryAfter=1)


async def _is_over(call: ParkedCall, wait: float | None) -> bool:
    """Wait until a call is over (True) or has questions, at most that long if anything is given."""
    if wait is None:
        return await call.wait()
    with suppress(TimeoutError):
        async with asyncio.timeout(wait):
            return await call.wait()
    return call.done


async def _found(parts: GatewayParts, request: ClientRequest) -> ParkedCall | StoredTask:
    try:
        call = await parts.tasks.find(request)
    except ProtocolError as error:
        if error.code != INVALID_PARAMS:
            raise
        raise CallProblem(404, "unknown_call", _NO_CALL) from None
    if isinstance(call, ServerTask) or call.was_cancelled:
        raise CallProblem(404, "unknown_call", _NO_CALL)
    return call


def _state(call: ParkedCall | StoredTask) -> JSONObject:
    """The state of a pending call, as its client sees it."""
    ended, message = outcome(call), {} if call.message is None else {"message": call.message}
    about = {
        "id": call.id,
        "created": call.created.isoformat(),
        "updated": call.updated.isoformat(),
        **message,
    }
    if isinstance(ended, ProtocolError):
        return {**about, "status": "failed", "problem": problem_json(ended)}
    if ended is not None:
        try:
            return {**about, "status": "completed", **_as_result(ended)}
        except CallProblem as problem:
            return {**about, "status": "failed", "problem": problem_json(problem)}
    if questions := {key: _question(object_in(call.requests, key)) for key in call.requests}:
        return {**about, "status": "input_required", "questions": questions}
    return {**about, "status": "working"}


def _as_result(sent: JSONObject) -> JSONObject:
    """The body for a result in the form of the protocol; `CallProblem` if the tool reports an error."""
    if sent.get("isError") is True:
        raise tool_problem(sent)
    if "structuredContent" in sent:
        return {"result": sent["structuredContent"]}
    content: Sequence[JSON] = sent.get("content") or []
    return {"result": {"content": content}}


def _question(request: JSONObject) -> JSONObject:
    """A question of a call: a form with its schema, or a URL to visit."""
    params = object_in(request, "params")
    if params.get("mode") == "url":
        return {"kind": "url", "message": params.get("message", ""), "url": params.get("url", "")}
    return {"kind": "form", "message": params.get("message", ""), "schema": params.get("requestedSchema", {})}


def _check(name: str, question: JSONObject, answer: JSONObject) -> None:
    """Refuse an answer that does not fit its form: the call would fail because of it."""
    schema: JSON = object_in(question, "params").get("requestedSchema")
    if answer["action"] != "accept" or not is_object(schema):
        return
    from toolbus.schema.validator import InvalidSchema, Validator

    content: JSON = answer.get("content") or {}
    with suppress(InvalidSchema):
        validator = Validator(schema)
        if validator.accepts(content) is False:
            faults = validator.faults(content)
            errors: list[JSON] = [
                {"place": ".".join(map(str, one.path)), "detail": f"{one.message:.500}"} for one in faults
            ]
            shown = "; ".join(one.message for one in faults) or "it does not fit"
            detail = f"the answer to {name!r} does not fit its schema: {shown:.500}"
            raise CallProblem(400, "invalid_answer", detail, errors=errors)


def _is_answer(answer: JSON) -> bool:
    """Whether a client's answer has an action, and a content that fits it."""
    if not is_object(answer) or answer.get("action") not in ACTIONS:
        return False
    content: JSON = answer.get("content")
    return content is None or is_object(content)
