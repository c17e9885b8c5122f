"""Resources: lists, reads and subscriptions; skills, whose files are resources."""

from toolbus.core.operation.operation import request_spec
from toolbus.core.values.errors import CallRefused, CallRejected
from toolbus.core.values.freshness import STALE, freshness_of
from toolbus.core.values.records import JSONObject
from toolbus.gateway.methods.pages import current, list_hints, page
from toolbus.gateway.parts import GatewayParts
from toolbus.gateway.protocol.protocol_error import ProtocolError
from toolbus.gateway.protocol.request import ClientRequest, RequestTarget
from toolbus.gateway.protocol.results import is_not_found, resource_not_found
from toolbus.gateway.protocol.words import INVALID_PARAMS, RESOURCE_NOT_FOUND


async def list_resources(parts: GatewayParts, request: ClientRequest) -> JSONObject:
    """Answer `resources/list`."""
    now = await current(parts, request, "resources")
    return page(parts, request, "resources", now.resources, "resources")


async def list_templates(parts: GatewayParts, request: ClientRequest) -> JSONObject:
    """Answer `resources/templates/list`."""
    now = await current(parts, request, "templates")
    return page(parts, request, "resourceTemplates", now.templates, "templates")


async def read(parts: GatewayParts, request: ClientRequest) -> JSONObject:
    """Answer `resources/read`, from the server that has the resource."""
    uri = request.text("uri")
    await parts.started()
    places = request.client.offering.now.uris.located(uri)
    for place in places:
        spec = request_spec("resources/read", place.server, place.uri)
        try:
            result = await parts.calls.run(request, RequestTarget(spec, {"uri": place.uri}, uri))
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


def _hints(request: ClientRequest, result: JSONObject) -> JSONObject:
    """How long a client may keep a result; it is public only where all clients may read the same."""
    said, principal = freshness_of(result) or STALE, request.exchange.principal
    is_anybody = principal.kind == "local" and not principal.user
    return said._replace(is_public=said.is_public and is_anybody).hints


async def subscribe(parts: GatewayParts, request: ClientRequest) -> JSONObject:
    """Answer `resources/subscribe`."""
    await parts.started()
    return await parts.listening.subscribe(request)


async def unsubscribe(parts: GatewayParts, request: ClientRequest) -> JSONObject:
    """Answer `resources/unsubscribe`."""
    return await parts.listening.unsubscribe(request)


async def listen(parts: GatewayParts, request: ClientRequest) -> JSONObject:
    """Answer `subscriptions/listen`, when the stream ends."""
    return await parts.listening.listen(request)


async def list_skills(parts: GatewayParts, request: ClientRequest) -> JSONObject:
    """Answer `skills/list`."""
    now = await current(parts, request, "skills")
    return page(parts, request, "skills", list(now.skills.values()), "skills")


async def get_skill(parts: GatewayParts, request: ClientRequest) -> JSONObject:
    """Answer `skills/get`."""
    uri = request.text("uri")
    await parts.started()
    entry = request.client.offering.now.skills.get(uri)
    if entry is None:
        raise ProtocolError(INVALID_PARAMS, f"no skill has the URI {uri!r}")
    return {"skill": entry, **list_hints(parts, request, "skills")}
