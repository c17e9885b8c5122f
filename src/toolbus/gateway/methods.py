"""The methods that clients can call, by era: lists, calls, resources, prompts, tasks, and the handshake."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from typing import TypeAlias

from toolbus.bus.catalog.exposure import CALLS, RUN_CODE
from toolbus.bus.inner import calls_of
from toolbus.core import version
from toolbus.core.ask.interactions import ClientError, Forwarding
from toolbus.core.operation.operation import request_spec
from toolbus.core.text.encoding import as_sent
from toolbus.core.values.apps import APPS, APPS_SETTINGS, is_interface, knows_apps
from toolbus.core.values.errors import ArgumentsError, CallDenied, ServerRejected, ToolbusError, ToolNotFound
from toolbus.core.values.freshness import STALE, Freshness, ListKind, freshness_of
from toolbus.core.values.records import JSON, JSONObject, ToolSpec
from toolbus.core.values.skills import SKILLS
from toolbus.gateway.calls.calls import ClientCalls, with_public_uris
from toolbus.gateway.calls.parked import ParkedCall
from toolbus.gateway.calls.tasks import ClientTasks, ServerTask, outcome
from toolbus.gateway.listening import Notifications
from toolbus.gateway.protocol.request import ClientRequest, HeaderArguments, PlainClient, RequestTarget
from toolbus.gateway.protocol.sessions import SessionClient
from toolbus.gateway.protocol.view_listing import KINDS, ListingSnapshot, ResourceOrigin, ViewListing
from toolbus.gateway.protocol.words import (
    INVALID_PARAMS,
    LEVELS,
    METHOD_NOT_FOUND,
    MISSING_CAPABILITY,
    MODERN_VERSIONS,
    RELATED_TASK,
    RESOURCE_NOT_FOUND,
    TASKS,
    ProtocolError,
    is_not_found,
    is_object,
    knows_tasks,
    object_in,
    resource_not_found,
    tool_failure,
)
from toolbus.gateway.settings import GatewayLimits

INSTRUCTIONS_WITHIN = 3.0
"""Seconds for servers to be connected, so that their instructions are known."""
_FIRST_WITH_TASKS = "2025-11-25"
_CAPABILITIES: dict[str, JSON] = {
    "tools": {"listChanged": True},
    "resources": {"subscribe": True, "listChanged": True},
    "prompts": {"listChanged": True},
    "completions": {},
    "logging": {},
}
_NO_COMPLETION: JSONObject = {"completion": {"values": [], "hasMore": False}}


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayParts:
    """The parts of a gateway that its methods use."""

    settings: GatewayLimits
    calls: ClientCalls
    tasks: ClientTasks
    listening: Notifications
    mirroring: HeaderArguments
    started: Callable[[], Awaitable[None]]
    """Waits until the bus has started; raises if it cannot."""
    listed: Callable[[ClientRequest], Awaitable[None]]
    """Waits, for a bounded time, until the lists of a client are known."""
    is_stale: Callable[[ClientRequest, str], bool]
    """Whether a server may be known only from an earlier process, because the bus is starting."""
    fresh: Callable[[ClientRequest, str], Awaitable[None]]
    """Waits until that is over."""


Method: TypeAlias = Callable[[GatewayParts, ClientRequest], Awaitable[JSONObject]]
"""Answers the requests of one method."""


# The gateway itself


@cache
def server_info(name: str) -> JSONObject:
    """The name and version that clients see."""
    return {"name": name, "version": version()}


async def discover(parts: GatewayParts, request: ClientRequest) -> JSONObject:
    return {
        "supportedVersions": list(MODERN_VERSIONS),
        "capabilities": {**_CAPABILITIES, "extensions": {TASKS: {}, SKILLS: {}, APPS: APPS_SETTINGS}},
        **await _instructions(parts, request.client.offering),
        "ttlMs": round(parts.settings.ttl * 1000),
        "cacheScope": "private",
    }


async def initialize_result(
    parts: GatewayParts, offering: ViewListing, negotiated: str, declared: JSONObject
) -> JSONObject:
    tasks: JSONObject = {"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}}
    has_tasks = negotiated >= _FIRST_WITH_TASKS
    apps: JSONObject = {"extensions": {APPS: APPS_SETTINGS}} if knows_apps(declared) else {}
    offered: JSONObject = {**_CAPABILITIES, **apps}
    return {
        "protocolVersion": negotiated,
        "capabilities": {**offered, "tasks": tasks} if has_tasks else offered,
        "serverInfo": server_info(parts.settings.name),
        **await _instructions(parts, offering),
    }


async def _instructions(parts: GatewayParts, offering: ViewListing) -> JSONObject:
    if not parts.settings.first_within and not all(calls_of(offering.view).starting.values()):
        with suppress(TimeoutError, ToolbusError, ProtocolError):
            async with asyncio.timeout(INSTRUCTIONS_WITHIN):
                await parts.started()
    text = offering.now.instructions
    return {} if text is None else {"instructions": text}


async def ping(parts: GatewayParts, request: ClientRequest) -> JSONObject:
    return {}


async def set_level(parts: GatewayParts, request: ClientRequest) -> JSONObject:
    """Answer `logging/setLevel`: the lowest level that the session wants."""
    level = request.text("level")
    if level not in LEVELS:
        raise ProtocolError(INVALID_PARAMS, f"unknown log level {level!r}; known: {', '.join(LEVELS)}")
    request.session.log_level = level
    return {}


# Lists, in pages, and how long clients may keep them


def _list_of(
    key: str, kind: ListKind, entries: Callable[[ListingSnapshot, bool], Sequence[JSONObject]]
) -> Method:
    """The method that lists entries of a kind under a key; `entries` learns whether the client knows apps."""

    async def list_entries(parts: GatewayParts, request: ClientRequest) -> JSONObject:
        now = await _current_lists(parts, request, kind)
        return _page(parts, request, key, entries(now, _shows_apps(request)), kind)

    return list_entries


def _shows_apps(request: ClientRequest) -> bool:
    return knows_apps(request.exchange.capabilities)


async def list_tools(parts: GatewayParts, request: ClientRequest) -> JSONObject:
    now = await _current_lists(parts, request, "tools")
    tools = now.tools_for(modern=request.is_modern, apps=_shows_apps(request))
    if request.client.budget is not None:  # what is shortened has no structured content
        tools = [{key: value for key, value in tool.items() if key != "outputSchema"} for tool in tools]
    return _page(parts, request, "tools", tools, "tools")


async def _current_lists(parts: GatewayParts, request: ClientRequest, kind: ListKind) -> ListingSnapshot:
    """The lists of the client's view, once servers have refreshed expired lists of that kind."""
    await parts.listed(request)
    view, offering = request.client.view, request.client.offering
    if view.running:  # else what is known answers
        await calls_of(view).refresh(kind)
    offering.note_given(kind if kind in KINDS else "resources")
    return offering.now


def _page(
    parts: GatewayParts, request: ClientRequest, key: str, entries: Sequence[JSONObject], kind: ListKind
) -> JSONObject:
    """The page of a list that a request asks for."""
    size, cursor = parts.settings.page, request.params.get("cursor")
    first = _first(cursor, len(entries))
    found: dict[str, JSON] = {key: list(entries[first : first + size])}
    if first + size < len(entries):
        found["nextCursor"] = str(first + size)
    if request.is_modern:
        found |= _list_hints(parts, request, kind)
    return found


def _list_hints(parts: GatewayParts, request: ClientRequest, kind: ListKind) -> JSONObject:
    """The time that a client may keep a list: no longer than its stalest part is fresh."""
    left, longest = calls_of(request.client.view).seconds_left(kind), parts.settings.ttl
    return Freshness(longest if left is None else min(left, longest), is_public=False).hints


def _first(cursor: JSON, length: int) -> int:
    if cursor is None:
        return 0
    if isinstance(cursor, str) and cursor.isascii() and cursor.isdigit() and 0 < int(cursor[:18]) < length:
        return int(cursor)
    raise ProtocolError(INVALID_PARAMS, "Invalid cursor")


# Calls of tools


async def call_tool(parts: GatewayParts, request: ClientRequest) -> JSONObject:
    """Answer `tools/call`; a failure on the way is a result that a model can read."""
    params = request.params
    name: JSON = params.get("name")
    arguments: JSON = params.get("arguments")
    if not isinstance(name, str) or not (arguments is None or is_object(arguments)):
        raise ProtocolError(INVALID_PARAMS, "tools/call needs a name, and arguments as an object")
    try:
        spec = await current_tool(parts, request, name)
        target = RequestTarget(spec, arguments or {}, name)
        if spec.route in CALLS:
            try:
                target = await inner_target(parts, request, target)
            except (ToolNotFound, ArgumentsError) as error:  # the model can act on it
                return tool_failure(error)
        if target.spec.route != "tools/call":
            return await parts.calls.run_own(request, target)
        spec, headers = target.spec, request.exchange.headers
        if headers is not None and request.is_modern and not target.is_unlisted:
            parts.mirroring.check(spec, target.arguments, headers)
        if not request.is_modern and "task" in params:
            return await _started(parts, request, target)
        return await parts.calls.run(request, target)
    except (ServerRejected, ArgumentsError):
        raise
    except ToolNotFound as error:
        raise ProtocolError(
            INVALID_PARAMS, f"Unknown tool: {own_unknown(request, name, error).public}"
        ) from error
    except ToolbusError as error:
        return tool_failure(error, _own_words(request, name, error))


async def current_tool(parts: GatewayParts, request: ClientRequest, name: str) -> ToolSpec:
    """A tool as its server lists it in this process: policies decide by that."""
    offering = request.client.offering
    calls = calls_of(offering.view)
    if offering.alone:
        own = offering.now.own_tools.get(name)
        name = f"{offering.alone}/{name}" if own is None else str(own.origin)
    spec = calls.catalog.for_models.get(name)
    if spec is not None and parts.is_stale(request, server := spec.origin.server):
        for alias in calls.starting if spec.route == RUN_CODE else (server,):
            await parts.fresh(request, alias)
        spec = calls.catalog.for_models.get(name)
    if spec is None:
        spec = await _find_tool(parts, request, name)
        if offering.alone and spec.route != "tools/call":  # a prompt or a resource as a tool
            raise calls_of(request.client.view).unknown_to_model(name)
        return spec
    return await calls.current(spec, is_decided=True) if spec.origin.server in calls.remembered else spec


def own_unknown(request: ClientRequest, name: str, error: ToolNotFound) -> ToolNotFound:
    """The error for an unknown tool; for a server alone, with the names that its client knows."""
    offering = request.client.offering
    if not offering.alone:
        return error
    return ToolNotFound(name, list(offering.now.own_tools), down=error.down, likely=error.likely)


def _own_words(request: ClientRequest, name: str, error: ToolbusError) -> str:
    """The problem with a call; for a server alone, with the name that its client used."""
    offering, problem = request.client.offering, error.public
    if not offering.alone:
        return problem
    spec = offering.now.own_tools.get(name)
    what = error.what if isinstance(error, CallDenied) else ""
    known = [
        what.removeprefix("tool ").strip("'"),
        f"{offering.alone}/{name}",
        "" if spec is None else spec.name,
    ]
    for public in filter(None, known):
        problem = problem.replace(repr(public), repr(name))
    return problem


async def inner_target(parts: GatewayParts, request: ClientRequest, target: RequestTarget) -> RequestTarget:
    """The target of a call through `call_tool`."""
    calls = calls_of(request.client.view)
    spec, arguments = await calls.inner(target.arguments, target.spec, visible=True)
    if parts.is_stale(request, spec.origin.server):
        await parts.fresh(request, spec.origin.server)
        spec, arguments = await calls.inner(target.arguments, target.spec, visible=True)
    return RequestTarget(spec, dict(arguments), spec.name, is_unlisted=True)


async def _find_tool(parts: GatewayParts, request: ClientRequest, name: str) -> ToolSpec:
    """A tool that is not in the catalog yet, that the policy or the lock holds back, or that models lack."""
    await parts.started()
    spec = await calls_of(request.client.view).find_visible(name)
    if spec.is_app_only and not _shows_apps(request):
        raise calls_of(request.client.view).unknown_to_model(name)
    return spec


async def _started(parts: GatewayParts, request: ClientRequest, target: RequestTarget) -> JSONObject:
    """Begin a call that a legacy client follows as a task."""
    if not target.may_be_task:
        raise ProtocolError(METHOD_NOT_FOUND, f"the tool {target.name!r} cannot be called as a task")
    ttl: JSON = object_in(request.params, "task").get("ttl")
    given = ttl if isinstance(ttl, int | float) else None
    call = await parts.calls.start_call(request, target, request.session.capabilities, given)
    return parts.tasks.started(request, call)


# Resources, and skills, whose files are resources


async def read_resource(parts: GatewayParts, request: ClientRequest) -> JSONObject:
    """Answer `resources/read`, from the server that has the resource."""
    uri = request.text("uri")
    await parts.started()
    located, shows_apps = request.client.offering.now.uris.located(uri), _shows_apps(request)
    places = [place for place in located if shows_apps or not is_interface(place.uri)]
    for place in places:
        spec = request_spec("resources/read", place.server, place.uri)
        try:
            result = await parts.calls.run(request, RequestTarget(spec, {"uri": place.uri}, uri))
        except ServerRejected as error:
            if not is_not_found(error) or (len(places) == 1 and error.code != RESOURCE_NOT_FOUND):
                raise
        except CallDenied:
            if not calls_of(request.client.view).is_hidden(spec, {"uri": place.uri}):
                raise
        else:
            if not request.is_modern or result.get("resultType") == "input_required":
                return result
            return {**result, **_read_hints(request, result)}
    raise resource_not_found(uri, modern=request.is_modern)


def _read_hints(request: ClientRequest, result: JSONObject) -> JSONObject:
    """The time that a client may keep a result; it is public only where all clients may read the same."""
    said, principal = freshness_of(result) or STALE, request.exchange.principal
    is_anybody = principal.kind == "local" and not principal.user and principal.passed is None
    return said._replace(is_public=said.is_public and is_anybody).hints


async def subscribe(parts: GatewayParts, request: ClientRequest) -> JSONObject:
    await parts.started()
    return await parts.listening.subscribe(request)


async def get_skill(parts: GatewayParts, request: ClientRequest) -> JSONObject:
    uri = request.text("uri")
    await parts.started()
    entry = request.client.offering.now.skills.get(uri)
    if entry is None:
        raise ProtocolError(INVALID_PARAMS, f"no skill has the URI {uri!r}")
    return {"skill": entry, **_list_hints(parts, request, "skills")}


# Prompts, and the completion of arguments


async def get_prompt(parts: GatewayParts, request: ClientRequest) -> JSONObject:
    name, arguments = request.text("name"), request.object("arguments")
    await parts.started()
    prompt = _prompt(request, name)
    spec = request_spec("prompts/get", prompt.server, prompt.uri)
    return await parts.calls.run(request, RequestTarget(spec, arguments, name))


async def complete(parts: GatewayParts, request: ClientRequest) -> JSONObject:
    """Answer `completion/complete`; empty if the server does not complete anything."""
    await parts.started()
    ref, argument = request.object("ref"), request.object("argument")
    name, value = argument.get("name"), argument.get("value")
    if not isinstance(name, str) or not isinstance(value, str):
        raise ProtocolError(INVALID_PARAMS, "completion/complete needs an argument with name and value")
    found = _completed(request, ref)
    given = {
        "argument": name,
        "value": value,
        "known": object_in(object_in(request.params, "context"), "arguments"),
        "is_template": ref.get("type") == "ref/resource",
    }
    spec = request_spec("completion/complete", found.server, found.uri)
    try:
        return await parts.calls.run(request, RequestTarget(spec, given, found.uri))
    except ServerRejected as error:
        if error.code != METHOD_NOT_FOUND:
            raise
        return _NO_COMPLETION
    except CallDenied:
        if not calls_of(request.client.view).is_hidden(spec, given):
            raise
        raise ProtocolError(INVALID_PARAMS, f"Unknown resource template: {ref.get('uri')!r}") from None


def _completed(request: ClientRequest, ref: JSONObject) -> ResourceOrigin:
    """The prompt or the template that a reference names."""
    name: JSON = ref.get("name" if ref.get("type") == "ref/prompt" else "uri")
    if not isinstance(name, str) or ref.get("type") not in ("ref/prompt", "ref/resource"):
        raise ProtocolError(INVALID_PARAMS, "completion/complete needs a reference to a prompt or a template")
    if ref["type"] == "ref/prompt":
        return _prompt(request, name)
    uris = request.client.offering.now.uris
    found = uris.template(name) or next(iter(uris.located(name)), None)
    if found is None:
        raise ProtocolError(INVALID_PARAMS, f"Unknown resource template: {name!r}")
    return found


def _prompt(request: ClientRequest, name: str) -> ResourceOrigin:
    """The server of a prompt, and its own name there."""
    prompt = request.client.offering.now.prompts_by_name.get(name)
    if prompt is None:
        raise ProtocolError(INVALID_PARAMS, f"Unknown prompt: {name!r}")
    return ResourceOrigin(prompt.server, prompt.name)


# Tasks: their state, answers to their questions, their end; and their results for legacy clients


async def get_task(parts: GatewayParts, request: ClientRequest) -> JSONObject:
    _check_declared(request)
    task = await parts.tasks.find(request)
    if isinstance(task, ServerTask):
        sent = await _forwarded(request, task)
        if is_object(result := sent.get("result")):
            sent = {**sent, "result": with_public_uris(request, task.server, result)}
        return {**sent, "taskId": request.params["taskId"]}
    if not request.is_modern:
        return parts.tasks.state(task, modern=False)
    return parts.tasks.detailed(task)


async def update_task(parts: GatewayParts, request: ClientRequest) -> JSONObject:
    """Answer `tasks/update`: the client answers questions of a task."""
    _check_declared(request)
    task, responses = await parts.tasks.find(request), request.object("inputResponses")
    if isinstance(task, ServerTask):
        return await _forwarded(request, task, inputResponses=responses)
    if isinstance(task, ParkedCall):  # else nobody waits for it
        task.answer(responses)
    return {}


async def cancel_task(parts: GatewayParts, request: ClientRequest) -> JSONObject:
    _check_declared(request)
    task = await parts.tasks.find(request)
    if isinstance(task, ServerTask):
        return await _forwarded(request, task)
    if not request.is_modern and task.done:
        raise ProtocolError(INVALID_PARAMS, "Cannot cancel task: it has ended")
    cancelled = await parts.tasks.cancel(task)
    return {} if request.is_modern else parts.tasks.state(cancelled, modern=False)


async def task_result(parts: GatewayParts, request: ClientRequest) -> JSONObject:
    """Answer `tasks/result` of a legacy client when the task has ended; it is asked meanwhile."""
    task = await parts.tasks.find(request)
    assert not isinstance(task, ServerTask), "legacy clients have none"
    related: JSONObject = {RELATED_TASK: {"taskId": task.id}}
    client = SessionClient(request.session, request.exchange.channel)
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
    return {"tasks": [parts.tasks.state(task, modern=False) for task in await parts.tasks.all_of(request)]}


async def _forwarded(request: ClientRequest, task: ServerTask, **given: JSON) -> JSONObject:
    """The answer of the server to the same request about its task."""
    result = await calls_of(request.client.view).forward(
        request_spec(request.method, task.server, task.tool),
        {"taskId": task.id, **given},
        Forwarding(client=PlainClient(request.exchange.capabilities), meta=request.forwarded_meta),
    )
    return as_sent(result)


def _check_declared(request: ClientRequest) -> None:
    if request.is_modern and not knows_tasks(request.exchange.capabilities):
        needed: JSONObject = {"requiredCapabilities": {"extensions": {TASKS: {}}}}
        raise ProtocolError(MISSING_CAPABILITY, f"{request.method} needs the extension {TASKS}", needed)


_BOTH: dict[str, Method] = {
    "tools/list": list_tools,
    "tools/call": call_tool,
    "resources/list": _list_of("resources", "resources", lambda now, apps: now.resources_for(apps=apps)),
    "resources/templates/list": _list_of(
        "resourceTemplates", "templates", lambda now, apps: now.templates_for(apps=apps)
    ),
    "resources/read": read_resource,
    "prompts/list": _list_of("prompts", "prompts", lambda now, _: now.prompts),
    "prompts/get": get_prompt,
    "completion/complete": complete,
    "tasks/get": get_task,
    "tasks/cancel": cancel_task,
}
MODERN: dict[str, Method] = {
    **_BOTH,
    "server/discover": discover,
    "subscriptions/listen": lambda parts, request: parts.listening.listen(request),
    "tasks/update": update_task,
    "skills/list": _list_of("skills", "skills", lambda now, _: list(now.skills.values())),
    "skills/get": get_skill,
}
LEGACY: dict[str, Method] = {
    **_BOTH,
    "ping": ping,
    "logging/setLevel": set_level,
    "resources/subscribe": subscribe,
    "resources/unsubscribe": lambda parts, request: parts.listening.unsubscribe(request),
    "tasks/result": task_result,
    "tasks/list": list_tasks,
}
