"""Prompts, and the completion of arguments."""

from toolbus.core.operation.operation import request_spec
from toolbus.core.values.errors import CallRefused, CallRejected
from toolbus.core.values.records import JSON, JSONObject
from toolbus.gateway.kernel import Kernel
from toolbus.gateway.methods.pages import current, page
from toolbus.gateway.protocol.naming import Located
from toolbus.gateway.protocol.protocol_error import ProtocolError
from toolbus.gateway.protocol.request import Request, Target
from toolbus.gateway.protocol.words import INVALID_PARAMS, METHOD_NOT_FOUND, object_in

_NOTHING: JSONObject = {"completion": {"values": [], "hasMore": False}}


async def list_prompts(kernel: Kernel, request: Request) -> JSONObject:
    """Answer `prompts/list`."""
    now = await current(kernel, request, "prompts")
    return page(kernel, request, "prompts", now.prompts, "prompts")


async def get(kernel: Kernel, request: Request) -> JSONObject:
    """Answer `prompts/get`."""
    name, arguments = request.text("name"), request.object("arguments")
    await kernel.started()
    prompt = request.client.offering.now.prompts_by_name.get(name)
    if prompt is None:
        raise ProtocolError(INVALID_PARAMS, f"Unknown prompt: {name!r}")
    spec = request_spec("prompts/get", prompt.server, prompt.name)
    return await kernel.calls.run(request, Target(spec, arguments, name))


async def complete(kernel: Kernel, request: Request) -> JSONObject:
    """Answer `completion/complete`; empty if the server does not complete anything."""
    await kernel.started()
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
        return await kernel.calls.run(request, Target(spec, given, found.uri))
    except CallRejected as error:
        if error.code != METHOD_NOT_FOUND:
            raise
        return _NOTHING
    except CallRefused:
        if not request.client.view.calls.is_hidden(spec, given):
            raise
        raise ProtocolError(INVALID_PARAMS, f"Unknown resource template: {ref.get('uri')!r}") from None


def _completed(request: Request, ref: JSONObject) -> Located:
    """The prompt or the template that a reference names."""
    now = request.client.offering.now
    name: JSON = ref.get("name" if ref.get("type") == "ref/prompt" else "uri")
    if not isinstance(name, str) or ref.get("type") not in ("ref/prompt", "ref/resource"):
        raise ProtocolError(INVALID_PARAMS, "completion/complete needs a reference to a prompt or a template")
    if ref["type"] == "ref/prompt":
        prompt = now.prompts_by_name.get(name)
        if prompt is None:
            raise ProtocolError(INVALID_PARAMS, f"Unknown prompt: {name!r}")
        return Located(prompt.server, prompt.name)
    found = now.uris.template(name) or next(iter(now.uris.located(name)), None)
    if found is None:
        raise ProtocolError(INVALID_PARAMS, f"Unknown resource template: {name!r}")
    return found
