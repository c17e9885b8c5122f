"""Tasks: their state, answers to their questions, their end; and their results for legacy clients."""

from toolbus.core.ask.interactions import ClientError, Forwarding
from toolbus.core.operation.operation import request_spec
from toolbus.core.text.encoding import as_sent
from toolbus.core.values.records import JSON, JSONObject
from toolbus.gateway.calls.calls import with_public_uris
from toolbus.gateway.calls.parked import ParkedCall
from toolbus.gateway.calls.tasks import ServerTask, outcome
from toolbus.gateway.parts import GatewayParts
from toolbus.gateway.protocol.clients import PlainClient, SessionClient
from toolbus.gateway.protocol.protocol_error import ProtocolError
from toolbus.gateway.protocol.request import ClientRequest
from toolbus.gateway.protocol.words import (
    INVALID_PARAMS,
    MISSING_CAPABILITY,
    RELATED_TASK,
    TASKS,
    is_object,
    knows_tasks,
    object_in,
)


async def get(parts: GatewayParts, request: ClientRequest) -> JSONObject:
    """Answer `tasks/get`."""
    _check_declared(request)
    task = await parts.tasks.find(request)
    if isinstance(task, ServerTask):
        sent = await _forwarded(request, "tasks/get", task, {})
        if is_object(result := sent.get("result")):
            sent = {**sent, "result": with_public_uris(request, task.server, result)}
        return {**sent, "taskId": request.params["taskId"]}
    if not request.is_modern:
        return parts.tasks.state(task, modern=False)
    return parts.tasks.detailed(task)


async def update(parts: GatewayParts, request: ClientRequest) -> JSONObject:
    """Answer `tasks/update`: the client answers questions of a task."""
    _check_declared(request)
    task, responses = await parts.tasks.find(request), request.object("inputResponses")
    if isinstance(task, ServerTask):
        return await _forwarded(request, "tasks/update", task, {"inputResponses": responses})
    if isinstance(task, ParkedCall):  # else nobody waits for it
        task.answer(responses)
    return {}


async def cancel(parts: GatewayParts, request: ClientRequest) -> JSONObject:
    """Answer `tasks/cancel`."""
    _check_declared(request)
    task = await parts.tasks.find(request)
    if isinstance(task, ServerTask):
        return await _forwarded(request, "tasks/cancel", task, {})
    if not request.is_modern and task.done:
        raise ProtocolError(INVALID_PARAMS, "Cannot cancel task: it has ended")
    cancelled = await parts.tasks.cancel(task)
    return {} if request.is_modern else parts.tasks.state(cancelled, modern=False)


async def result(parts: GatewayParts, request: ClientRequest) -> JSONObject:
    """Answer `tasks/result` of a legacy client when the task has ended; it is asked meanwhile."""
    task = await parts.tasks.find(request)
    assert not isinstance(task, ServerTask), "legacy clients have none"
    session = request.exchange.session
    assert session is not None, "a legacy client has a session"
    related: JSONObject = {RELATED_TASK: {"taskId": task.id}}
    client = SessionClient(session, request.exchange.channel)
    while isinstance(task, ParkedCall) and not await task.wait():
        for key, question in tuple(task.questions.items()):
            params = object_in(question.request, "params")
            stamped = {**params, "_meta": {**object_in(params, "_meta"), **related}}
            method: JSON = question.request["method"]
            try:
                task.answer({key: await client.ask("", method, stamped)})
            except ClientError as error:
                task.refuse(key, error)
    ended = outcome(task)
    if isinstance(ended, ProtocolError):
        raise ended
    if ended is None:
        raise ProtocolError(INVALID_PARAMS, "the task was cancelled")
    return {**ended, "_meta": {**object_in(ended, "_meta"), **related}}


async def list_tasks(parts: GatewayParts, request: ClientRequest) -> JSONObject:
    """Answer `tasks/list` of a legacy client."""
    return {"tasks": [parts.tasks.state(task, modern=False) for task in await parts.tasks.all_of(request)]}


async def _forwarded(request: ClientRequest, method: str, task: ServerTask, given: JSONObject) -> JSONObject:
    exchange = request.exchange
    result = await request.client.view.calls.forward(
        request_spec(method, task.server, task.tool),
        {"taskId": task.id, **given},
        Forwarding(client=PlainClient(exchange.capabilities), meta=request.forwarded_meta),
    )
    return as_sent(result)


def _check_declared(request: ClientRequest) -> None:
    if request.is_modern and not knows_tasks(request.exchange.capabilities):
        needed: JSONObject = {"requiredCapabilities": {"extensions": {TASKS: {}}}}
        raise ProtocolError(MISSING_CAPABILITY, f"{request.method} needs the extension {TASKS}", needed)
