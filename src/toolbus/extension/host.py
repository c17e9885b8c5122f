"""What a host's context offers an extension: its manifest, secrets and an event bus.

Hosts differ, so each is looked for by name, and each may be missing.
"""

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, TypeAlias

from toolbus.config import GetSecret
from toolbus.config.location import is_mapping
from toolbus.core.errors import ConfigError
from toolbus.core.events import CallEnded, Event
from toolbus.core.records import JSON
from toolbus.extension.manifest import Manifest, load_manifest

Publish: TypeAlias = Callable[[str, Mapping[str, JSON]], Awaitable[object] | object]
"""The host's way to tell an event: name and payload; plain or async."""

CALLED = "mcp.tool_called"
FAILED = "mcp.tool_failed"
TELLING_SECONDS = 5.0
"""How long a stop waits for events that the host is still taking."""
logger = logging.getLogger("toolbus")


def manifest_of(context: object) -> Manifest:
    """The manifest from `context.manifest`, or from `context.config` alone.

    Of a manifest that the host has read already only `config` and `enabled` are looked at: the rest is the
    host's.
    """
    manifest: Any = getattr(context, "manifest", None)
    if isinstance(manifest, str | Path | Manifest):
        return load_manifest(manifest)
    if manifest is None:
        found = {"config": getattr(context, "config", None)}
    elif is_mapping(manifest):
        found = {key: manifest.get(key) for key in ("config", "enabled")}
    else:
        found = {key: getattr(manifest, key, None) for key in ("config", "enabled")}
    if found["config"] is None:
        raise ConfigError(
            "no manifest; pass a path or a mapping to the extension, or set context.manifest or .config"
        )
    return load_manifest(found)


def get_secret_of(context: object) -> GetSecret | None:
    """The host's `get_secret(name)`, plain or async."""
    return getattr(context, "get_secret", None)


def publish_of(context: object) -> Publish | None:
    """`emit(name, payload)` or `publish` of the context itself, of its `event_bus` or of its `events`."""
    for holder in (context, getattr(context, "event_bus", None), getattr(context, "events", None)):
        for name in ("emit", "publish"):
            found: Publish | None = getattr(holder, name, None)
            if callable(found):
                return found
    return None


class HostEvents:
    """Tells the host of every call that ended: `mcp.tool_called`, or `mcp.tool_failed` if it failed."""

    def __init__(self, publish: Publish) -> None:
        self._publish = publish
        self._under_way: set[asyncio.Future[object]] = set()

    def __call__(self, event: Event) -> None:
        """Take an event of the bus; on its loop. A host that raises is logged by the bus."""
        if not isinstance(event, CallEnded):
            return
        payload = {
            "server": event.server,
            "tool": event.tool,
            "name": event.name,
            "ms": round(event.elapsed_ms, 1),
            # What a tool says of its failure is for the agent; it may quote what it was called with.
            "error": (event.error or "the tool reported a failure") if event.is_error else None,
            "reason": event.reason,
        }
        told = self._publish(FAILED if event.is_error else CALLED, payload)
        if inspect.isawaitable(told):
            taking = asyncio.ensure_future(told)
            self._under_way.add(taking)
            taking.add_done_callback(self._taken)

    async def finish(self) -> None:
        """Wait, within bounds, until the host has taken what it was told."""
        if self._under_way:
            _, late = await asyncio.wait(self._under_way, timeout=TELLING_SECONDS)
            for taking in late:
                taking.cancel()

    def _taken(self, taking: "asyncio.Future[object]") -> None:
        self._under_way.discard(taking)
        if not taking.cancelled() and (error := taking.exception()) is not None:
            logger.error("the host's event bus raised", exc_info=error)
