"""Skills: the entries of all servers; their files are resources."""

from toolbus.core.records import JSONObject
from toolbus.gateway.kernel import Kernel
from toolbus.gateway.methods.pages import page
from toolbus.gateway.protocol import INVALID_PARAMS
from toolbus.gateway.protocol_error import ProtocolError
from toolbus.gateway.request import Request


async def list_skills(kernel: Kernel, request: Request) -> JSONObject:
    """Answer `skills/list`."""
    await kernel.listed(request)
    request.client.offering.note_given("resources")
    return page(kernel, request, "skills", list(request.client.offering.now.skills.values()))


async def get(kernel: Kernel, request: Request) -> JSONObject:
    """Answer `skills/get`."""
    uri = request.text("uri")
    await kernel.started()
    entry = request.client.offering.now.skills.get(uri)
    if entry is None:
        raise ProtocolError(INVALID_PARAMS, f"no skill has the URI {uri!r}")
    return {"skill": entry, "ttlMs": round(kernel.settings.ttl * 1000), "cacheScope": "private"}
