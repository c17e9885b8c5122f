"""Resources: lists, reads and subscriptions."""

from toolbus.core.operation.operation import request_spec
from toolbus.core.values.errors import CallRefused, CallRejected
from toolbus.core.values.freshness import STALE, freshness_of
from toolbus.core.values.records import JSONObject
from toolbus.gateway.kernel import Kernel
from toolbus.gateway.methods.pages import current, page
from toolbus.gateway.protocol.request import Request, Target
from toolbus.gateway.protocol.results import is_not_found, resource_not_found
from toolbus.gateway.protocol.words import RESOURCE_NOT_FOUND


async def list_resources(kernel: Kernel, request: Request) -> JSONObject:
    """Answer `resources/list`."""
    now = await current(kernel, request, "resources")
    return page(kernel, request, "resources", now.resources, "resources")


async def list_templates(kernel: Kernel, request: Request) -> JSONObject:
    """Answer `resources/templates/list`."""
    now = await current(kernel, request, "templates")
    return page(kernel, request, "resourceTemplates", now.templates, "templates")


async def read(kernel: Kernel, request: Request) -> JSONObject:
    """Answer `resources/read`, from the server that has the resource."""
    uri = request.text("uri")
    await kernel.started()
    places = request.client.offering.now.uris.located(uri)
    for place in places:
        spec = request_spec("resources/read", place.server, place.uri)
        try:
            result = await kernel.calls.run(request, Target(spec, {"uri": place.uri}, uri))
        except CallRejected as error:
            if not is_not_found(error) or (len(places) == 1 and error.code != RESOURCE_NOT_FOUND):
                raise
        except CallRefused:
            if not request.client.view.calls.is_hidden(spec, {"uri": place.uri}):
                raise
        else:
            if not request.is_modern or result.get("resultType") == "input_required":
                return result
            return {**result, **_hints(request, result)}
    raise resource_not_found(uri, modern=request.is_modern)


def _hints(request: Request, result: JSONObject) -> JSONObject:
    """How long a client may keep a result; it is public only where all clients may read the same."""
    said, principal = freshness_of(result) or STALE, request.exchange.principal
    is_anybody = principal.kind == "local" and not principal.user
    return said._replace(is_public=said.is_public and is_anybody).hints


async def subscribe(kernel: Kernel, request: Request) -> JSONObject:
    """Answer `resources/subscribe`."""
    await kernel.started()
    return await kernel.listening.subscribe(request)


async def unsubscribe(kernel: Kernel, request: Request) -> JSONObject:
    """Answer `resources/unsubscribe`."""
    return await kernel.listening.unsubscribe(request)


async def listen(kernel: Kernel, request: Request) -> JSONObject:
    """Answer `subscriptions/listen`, when the stream ends."""
    return await kernel.listening.listen(request)
