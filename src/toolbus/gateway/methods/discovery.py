"""What the gateway is: discovery and handshake, and the requests about the connection itself."""

import asyncio
from contextlib import suppress
from functools import cache

from toolbus.core import version
from toolbus.core.values.errors import ToolbusError
from toolbus.core.values.records import JSON, JSONObject
from toolbus.core.values.skills import SKILLS
from toolbus.gateway.parts import GatewayParts
from toolbus.gateway.protocol.protocol_error import ProtocolError
from toolbus.gateway.protocol.request import ClientRequest
from toolbus.gateway.protocol.view_listing import ViewListing
from toolbus.gateway.protocol.words import INVALID_PARAMS, LEVELS, MODERN_VERSIONS, TASKS

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


@cache
def server_info(name: str) -> JSONObject:
    """Who the gateway is."""
    return {"name": name, "version": version()}


async def discover(parts: GatewayParts, request: ClientRequest) -> JSONObject:
    """Answer `server/discover`."""
    return {
        "supportedVersions": list(MODERN_VERSIONS),
        "capabilities": {**_CAPABILITIES, "extensions": {TASKS: {}, SKILLS: {}}},
        **await _instructions(parts, request.client.offering),
        "ttlMs": round(parts.settings.ttl * 1000),
        "cacheScope": "private",
    }


async def initialize_result(parts: GatewayParts, offering: ViewListing, negotiated: str) -> JSONObject:
    """The result of `initialize`."""
    tasks: JSONObject = {"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}}
    return {
        "protocolVersion": negotiated,
        "capabilities": {**_CAPABILITIES, "tasks": tasks}
        if negotiated >= _FIRST_WITH_TASKS
        else _CAPABILITIES,
        "serverInfo": server_info(parts.settings.name),
        **await _instructions(parts, offering),
    }


async def _instructions(parts: GatewayParts, offering: ViewListing) -> JSONObject:
    if not parts.settings.first_within and not all(offering.view.starting.values()):
        with suppress(TimeoutError, ToolbusError, ProtocolError):
            async with asyncio.timeout(INSTRUCTIONS_WITHIN):
                await parts.started()
    text = offering.now.instructions
    return {} if text is None else {"instructions": text}


async def ping(parts: GatewayParts, request: ClientRequest) -> JSONObject:
    """Answer `ping`."""
    return {}


async def set_level(parts: GatewayParts, request: ClientRequest) -> JSONObject:
    """Answer `logging/setLevel`: the lowest level that the session wants."""
    level = request.text("level")
    if level not in LEVELS:
        raise ProtocolError(INVALID_PARAMS, f"unknown log level {level!r}; known: {', '.join(LEVELS)}")
    assert request.exchange.session is not None, "only legacy clients set a level"
    request.exchange.session.log_level = level
    return {}
