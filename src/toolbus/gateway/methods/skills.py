"""Skills: the entries of all servers; their files are resources."""

from toolbus.core.values.records import JSONObject
from toolbus.gateway.methods.pages import current, list_hints, page
from toolbus.gateway.parts import GatewayParts
from toolbus.gateway.protocol.protocol_error import ProtocolError
from toolbus.gateway.protocol.request import ClientRequest
from toolbus.gateway.protocol.words import INVALID_PARAMS


async def list_skills(parts: GatewayParts, request: ClientRequest) -> JSONObject:
    """Answer `skills/list`."""
    now = await current(parts, request, "skills")
    return page(parts, request, "skills", list(now.skills.values()), "skills")


async def get(parts: GatewayParts, request: ClientRequest) -> JSONObject:
    """Answer `skills/get`."""
    uri = request.text("uri")
    await parts.started()
    entry = request.client.offering.now.skills.get(uri)
    if entry is None:
        raise ProtocolError(INVALID_PARAMS, f"no skill has the URI {uri!r}")
    return {"skill": entry, **list_hints(parts, request, "skills")}
