"""Skills: the entries of all servers; their files are resources."""

from toolbus.core.values.records import JSONObject
from toolbus.gateway.kernel import Kernel
from toolbus.gateway.methods.pages import current, list_hints, page
from toolbus.gateway.protocol.protocol_error import ProtocolError
from toolbus.gateway.protocol.request import Request
from toolbus.gateway.protocol.words import INVALID_PARAMS


async def list_skills(kernel: Kernel, request: Request) -> JSONObject:
    """Answer `skills/list`."""
    now = await current(kernel, request, "skills")
    return page(kernel, request, "skills", list(now.skills.values()), "skills")


async def get(kernel: Kernel, request: Request) -> JSONObject:
    """Answer `skills/get`."""
    uri = request.text("uri")
    await kernel.started()
    entry = request.client.offering.now.skills.get(uri)
    if entry is None:
        raise ProtocolError(INVALID_PARAMS, f"no skill has the URI {uri!r}")
    return {"skill": entry, **list_hints(kernel, request, "skills")}
