"""A request that is made for an MCP client: what the server sends is kept as it is.

The SDK's models are used only to read the records that hooks and observers see. A modern server that needs
input gets it from the client, in another request; so every request ends here after one round.
"""

from collections.abc import Callable
from dataclasses import replace

import mcp_types as types

from toolbus.connect.sdk import wire
from toolbus.connect.sdk.result_filter import keep_unknown_blocks
from toolbus.connect.session import ServerSession
from toolbus.core.ask.interactions import Forwarding
from toolbus.core.operation.operation import CallInFlight, Operation
from toolbus.core.values.elicitation import Pending
from toolbus.core.values.errors import ResourceTooLarge, too_many_questions
from toolbus.core.values.freshness import clean_hints
from toolbus.core.values.raw_result import RawResult
from toolbus.core.values.records import JSON, Embedded, JSONObject, TaskState, ToolResult, pending_result


async def forward(
    session: ServerSession,
    in_flight: CallInFlight,
    operation: Operation,
    timeout: float,
) -> ToolResult | TaskState:
    """Send one request to the server; returns its answer, its requests for input, or its task."""
    forwarding = in_flight.forwarding
    assert forwarding is not None, "it is forwarded"
    method, params = operation.route, _params(session, operation, forwarding)
    what = _described(operation)
    with session.calls_in_flight.track(in_flight):
        with session.exchange(what, timeout) as exchange:
            report = (
                in_flight.on_progress
                if in_flight.max_timeout is None or method != "tools/call"
                else session.deadlines.extending(exchange, in_flight.max_timeout, in_flight.on_progress)
            )
            if session.slots is None:
                raw = await session.sender.forward(in_flight, method, params, report)
            else:
                exchange.delivery.unsent = True
                if in_flight.clock is not None:
                    in_flight.clock.enter("queue")
                async with session.slots:
                    exchange.delivery.unsent = None  # from here on the transport knows
                    if in_flight.clock is not None:
                        in_flight.clock.enter("server")
                    raw = await session.sender.forward(in_flight, method, params, report)
            if raw.get("resultType") == "input_required":
                return await _suspended(session, operation, forwarding, raw)
            if method == "tools/call" and (task := _task(session, operation, raw)) is not None:
                return task
            result = _READ[method](raw)
        if method == "resources/read":
            _check_size(session, operation.arguments["uri"], result)
        elif method == "tools/call" and session.outputs and not result.is_error:
            session.check_output(operation.spec.origin.tool, result.structured)
        return result


def _described(operation: Operation) -> str:
    route, given, name = operation.route, operation.arguments, operation.spec.origin.tool
    match route:
        case "tools/call":
            return f"tool {name!r}"
        case "prompts/get":
            return f"prompt {name!r}"
        case "resources/read":
            return f"resource {given['uri']!r}"
        case _:
            return f"{route} {given.get('taskId', name)!r}"


def _params(session: ServerSession, operation: Operation, forwarding: Forwarding) -> dict[str, JSON]:
    params = _own_params(session, operation)
    if forwarding.meta:
        params["_meta"] = dict(forwarding.meta)
    if forwarding.responses is not None:
        params["inputResponses"] = forwarding.responses
    if forwarding.state is not None:
        params["requestState"] = forwarding.state
    return params


def _own_params(session: ServerSession, operation: Operation) -> dict[str, JSON]:
    given, name = operation.arguments, operation.spec.origin.tool
    match operation.route:
        case "tools/call":
            tool: dict[str, JSON] = {"name": name, "arguments": dict(given)}
            return tool | {"task": {}} if name in session.tasks_only else tool
        case "prompts/get":
            return {"name": name, "arguments": {key: v for key, v in given.items() if v is not None}}
        case "completion/complete":
            template, prompt = {"type": "ref/resource", "uri": name}, {"type": "ref/prompt", "name": name}
            known = {"context": {"arguments": dict(given["known"])}} if given["known"] else {}
            argument = {"name": given["argument"], "value": given["value"]}
            return {"ref": template if given["is_template"] else prompt, "argument": argument, **known}
        case _:
            return dict(given)


async def _suspended(
    session: ServerSession, operation: Operation, forwarding: Forwarding, raw: JSONObject
) -> ToolResult:
    """The server's requests for input, without those that guards refuse."""
    requests: dict[str, JSON] = dict(raw.get("inputRequests") or {})
    typed = wire.inputs.validate_python(requests)
    limit = session.handler.question_limit
    rounds = 1 + forwarding.rounds
    if rounds > limit:
        raise too_many_questions(session.server, _described(operation), limit)
    answered = await session.handler.refused(typed)
    pending = Pending(
        server=session.server,
        tool=operation.spec.origin.tool,
        arguments=dict(operation.arguments),
        requests={key: request for key, request in requests.items() if key not in answered},
        state=raw.get("requestState"),
        rounds=rounds,
        answered=answered,
    )
    return _pending(pending, raw)


def _task(session: ServerSession, operation: Operation, raw: JSONObject) -> ToolResult | TaskState | None:
    """The task that a call became, if it did."""
    if session.era == "legacy":
        if operation.spec.origin.tool not in session.tasks_only or not isinstance(raw.get("task"), dict):
            return None
        # Even if it is completed: its result has to be requested.
        return session.task_state(_described(operation), {**raw["task"], "status": "working"})
    if raw.get("resultType") != "task":
        return None
    state = session.task_state(_described(operation), dict(raw))
    if not operation.detached:
        return state
    pending = Pending(
        server=session.server,
        tool=operation.spec.origin.tool,
        arguments=dict(operation.arguments),
        requests={},
        task=state.id,
    )
    return _pending(pending, raw)


def _pending(pending: Pending, raw: JSONObject) -> ToolResult:
    result = pending_result(pending)
    return replace(result, _received=RawResult(raw, result.content, None))


def _tool(raw: dict[str, JSON]) -> ToolResult:
    result = wire.plain_result(raw, with_raw=True)
    if result is not None:
        return result
    known: dict[str, JSON] = dict(raw)
    if isinstance(raw.get("content"), list):
        known["content"] = [*raw["content"]]  # a copy: it is changed for the SDK
    keep_unknown_blocks(known)
    return wire.tool_result(types.CallToolResult.model_validate(known, by_name=False), raw)


def _resource(raw: dict[str, JSON]) -> ToolResult:
    clean_hints(raw)
    content = wire.contents(types.ReadResourceResult.model_validate(raw, by_name=False).contents)
    return ToolResult(content=content, meta=raw.get("_meta") or {}, _received=RawResult(raw, content, None))


def _check_size(session: ServerSession, uri: str, result: ToolResult) -> None:
    parts = (block for block in result.content if isinstance(block, Embedded))
    size = sum(len(part.data or b"") + len((part.text or "").encode(errors="replace")) for part in parts)
    if size > session.config.resource_limit:
        raise ResourceTooLarge(session.server, uri, size, session.config.resource_limit)


def _prompt(raw: JSONObject) -> ToolResult:
    prompt = wire.prompt_result(types.GetPromptResult.model_validate(raw, by_name=False))
    content = tuple(message.content for message in prompt.messages)
    return ToolResult(
        content=content, value=prompt, meta=raw.get("_meta") or {}, _received=RawResult(raw, content, None)
    )


def _complete(raw: JSONObject) -> ToolResult:
    found = wire.completion(types.CompleteResult.model_validate(raw, by_name=False))
    return ToolResult(value=found, meta=raw.get("_meta") or {}, _received=RawResult(raw, (), None))


def _as_it_is(raw: JSONObject) -> ToolResult:
    return ToolResult(meta=raw.get("_meta") or {}, _received=RawResult(raw, (), None))


_READ: dict[str, Callable[[dict[str, JSON]], ToolResult]] = {
    "tools/call": _tool,
    "resources/read": _resource,
    "prompts/get": _prompt,
    "completion/complete": _complete,
    "tasks/get": _as_it_is,
    "tasks/update": _as_it_is,
    "tasks/cancel": _as_it_is,
}
