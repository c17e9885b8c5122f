"""Tools: the catalog of the view, and calls."""

from toolbus.bus.catalog.exposure import CALL, RUN_CODE
from toolbus.core.values.apps import knows_apps
from toolbus.core.values.errors import ArgumentsError, CallRejected, ToolbusError, ToolNotFound
from toolbus.core.values.records import JSON, JSONObject, ToolSpec
from toolbus.gateway.kernel import Kernel
from toolbus.gateway.methods.pages import current, page
from toolbus.gateway.protocol.protocol_error import ProtocolError
from toolbus.gateway.protocol.request import Request, Target
from toolbus.gateway.protocol.results import tool_failure
from toolbus.gateway.protocol.words import (
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    is_object,
    object_in,
)


async def list_tools(kernel: Kernel, request: Request) -> JSONObject:
    """Answer `tools/list`."""
    now = await current(kernel, request, "tools")
    tools = now.tools_for(modern=request.is_modern, apps=knows_apps(request.exchange.capabilities))
    if request.client.budget is not None:  # what is shortened has no structured content
        tools = [{key: value for key, value in tool.items() if key != "outputSchema"} for tool in tools]
    return page(kernel, request, "tools", tools, "tools")


async def call_tool(kernel: Kernel, request: Request) -> JSONObject:
    """Answer `tools/call`; what goes wrong on the way is a result that a model can read."""
    params = request.params
    name: JSON = params.get("name")
    arguments: JSON = params.get("arguments")
    if not isinstance(name, str) or not (arguments is None or is_object(arguments)):
        raise ProtocolError(INVALID_PARAMS, "tools/call needs a name, and arguments as an object")
    try:
        spec = await _current(kernel, request, name)
        target = Target(spec, arguments or {}, name)
        if spec.route == CALL:
            try:
                target = await _inner(kernel, request, target)
            except (ToolNotFound, ArgumentsError) as error:  # the model can act on it
                return tool_failure(str(error))
        if target.spec.route != "tools/call":
            return await kernel.calls.run_own(request, target)
        spec, headers = target.spec, request.exchange.headers
        if headers is not None and request.is_modern and not target.is_unlisted:
            kernel.mirroring.check(spec, target.arguments, headers)
        if not request.is_modern and "task" in params:
            return await _started(kernel, request, target)
        return await kernel.calls.run(request, target)
    except (CallRejected, ArgumentsError):
        raise
    except ToolNotFound as error:
        raise ProtocolError(INVALID_PARAMS, f"Unknown tool: {error}") from error
    except ToolbusError as error:
        return tool_failure(str(error))


async def _current(kernel: Kernel, request: Request, name: str) -> ToolSpec:
    """A tool as its server lists it in this process: policies decide by that."""
    view = request.client.offering.view
    spec = view.calls.catalog.for_models.get(name)
    if spec is not None and kernel.is_stale(request, server := spec.origin.server):
        for alias in view.starting if spec.route == RUN_CODE else (server,):
            await kernel.fresh(request, alias)
        spec = view.calls.catalog.for_models.get(name)
    return spec or await _found(kernel, request, name)


async def _inner(kernel: Kernel, request: Request, target: Target) -> Target:
    """Where a call through `call_tool` goes."""
    calls = request.client.view.calls
    spec, arguments = await calls.inner(target.arguments, visible=True)
    if kernel.is_stale(request, spec.origin.server):
        await kernel.fresh(request, spec.origin.server)
        spec, arguments = await calls.inner(target.arguments, visible=True)
    return Target(spec, dict(arguments), spec.name, is_unlisted=True)


async def _found(kernel: Kernel, request: Request, name: str) -> ToolSpec:
    """A tool that is not in the catalog yet, that the policy or the lock holds back, or that models lack."""
    await kernel.started()
    spec = await request.client.view.calls.find_visible(name)
    if spec.is_app_only and not knows_apps(request.exchange.capabilities):
        raise request.client.view.calls.unknown_to_model(name)
    return spec


async def _started(kernel: Kernel, request: Request, target: Target) -> JSONObject:
    """Begin a call that a legacy client follows as a task."""
    if not target.may_be_task:
        raise ProtocolError(METHOD_NOT_FOUND, f"the tool {target.name!r} cannot be called as a task")
    assert request.exchange.session is not None, "a legacy client has a session"
    capabilities = request.exchange.session.capabilities
    ttl: JSON = object_in(request.params, "task").get("ttl")
    given = ttl if isinstance(ttl, int | float) else None
    return kernel.tasks.started(request, await kernel.calls.start_call(request, target, capabilities, given))
