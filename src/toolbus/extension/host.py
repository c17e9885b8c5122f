"""Read a host's context: its manifest, secrets and event bus.

Hosts differ, so each is looked up by name, and each may be missing.
"""

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, TypeAlias

from toolbus.config import GetSecret
from toolbus.config.location import is_mapping
from toolbus.core.operation.events import CallEnded, Event
from toolbus.core.values.errors import ConfigError
from toolbus.core.values.records import JSON
from toolbus.extension.manifest import Manifest, load_manifest

Publish: TypeAlias = Callable[[str, Mapping[str, JSON]], Awaitable[object] | object]
"""The host's function to publish an event by name and payload; plain or async."""

CALLED = "mcp.tool_called"
FAILED = "mcp.tool_failed"
PUBLISH_TIMEOUT = 5.0
"""Seconds that a stop waits for events that are still being published."""
logger = logging.getLogger("toolbus")


def manifest_of(context: object) -> Manifest:
    """The manifest from `context.manifest`, or from `context.config` alone.

    From a manifest that the host has already read, only `config` and `enabled` are used.
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


class EventPublisher:
    """Publishes every ended call to the host: `mcp.tool_called`, or `mcp.tool_failed` if it failed."""

    def __init__(self, publish: Publish) -> None:
        self._publish = publish
        self._pending: set[asyncio.Future[object]] = set()

    def __call__(self, event: Event) -> None:
        """Publish an event, on the loop of the bus, which logs an exception of the host."""
        if not isinstance(event, CallEnded):
            return
        payload = {
            "server": event.server,
            "tool": event.tool,
            "name": event.name,
            "ms": round(event.elapsed_ms, 1),
            # Not the tool's own error text, which may quote the arguments.
            "error": (event.error or "the tool reported a failure") if event.is_error else None,
            "reason": event.reason,
        }
        published = self._publish(FAILED if event.is_error else CALLED, payload)
        if inspect.isawaitable(published):
            task = asyncio.ensure_future(published)
            self._pending.add(task)
            task.add_done_callback(self._done)

    async def finish(self) -> None:
        """Wait until the host has received all events, up to `PUBLISH_TIMEOUT`."""
        if self._pending:
            _, late = await asyncio.wait(self._pending, timeout=PUBLISH_TIMEOUT)
            for task in late:
                task.cancel()

    def _done(self, task: "asyncio.Future[object]") -> None:
        self._pending.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.error("the host's event bus raised", exc_info=error)
