"""A server whose resources change while it runs, in both eras, and that counts how often each was read."""

import asyncio
import base64
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import NotificationOptions, Server
from mcp.server.session import ServerSession
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler
from mcp.shared.exceptions import MCPError
from mcp.shared.subscriptions import ResourcesListChanged, ResourceUpdated

from tests.patience import PATIENCE, until
from toolbus import Toolbus
from toolbus import events as heard

Context = ServerRequestContext[Any, Any]


class Shelf:
    """Texts and blobs by address. `tells` is whether it tells of changes."""

    def __init__(self, items: Mapping[str, str | bytes], *, tells: bool = True) -> None:
        self.items = dict(items)
        self.reads: Counter[str] = Counter()
        self.subscribed: set[str] = set()
        """Subscriptions in the legacy era."""
        self.hold = asyncio.Event()
        """Cleared, a read waits."""
        self.hold.set()
        self._session: ServerSession | None = None
        self._bus = InMemorySubscriptionBus()
        more: dict[str, Any] = {}
        if tells:
            more = {
                "on_subscribe_resource": self._subscribe,
                "on_unsubscribe_resource": self._unsubscribe,
                "on_subscriptions_listen": ListenHandler(self._bus),
            }
        self.server: Server[Any] = Announcing(
            "shelf", on_list_resources=self._list, on_read_resource=self._read, **more
        )

    def config(self, era: str, **more: Any) -> dict[str, Any]:
        """A server entry for it."""
        return {"server": self.server, "era": era, **more}

    async def change(self, uri: str, content: str | bytes, bus: Toolbus) -> None:
        """Put something else there; returns when the bus has heard of it."""
        self.items[uri] = content
        async with asyncio.timeout(PATIENCE):
            happened = asyncio.Event()
            end = bus.on_event(lambda e: happened.set() if isinstance(e, heard.ResourceUpdated) else None)
            await self._bus.publish(ResourceUpdated(uri=uri))
            if self._session is not None and uri in self.subscribed:
                await self._session.send_resource_updated(uri)
            await happened.wait()
            end()

    async def relisted(self, bus: Toolbus, true: Callable[[], bool]) -> None:
        """Say that the list has changed; returns when that is true of the bus."""
        await self._bus.publish(ResourcesListChanged())
        if self._session is not None:
            await self._session.send_resource_list_changed()
        await until(true)

    async def _list(
        self, ctx: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListResourcesResult:
        self._session = ctx.session if ctx.protocol_version < "2026" else None
        # Not in order: that is for the client to find.
        return types.ListResourcesResult(
            resources=[types.Resource(uri=uri, name=uri) for uri in reversed(self.items)]
        )

    async def _read(self, ctx: Context, params: types.ReadResourceRequestParams) -> types.ReadResourceResult:
        uri = str(params.uri)
        self.reads[uri] += 1
        if uri not in self.items:
            raise MCPError(types.INVALID_PARAMS, f"there is no {uri}")
        item = self.items[uri]
        await self.hold.wait()
        if isinstance(item, str):
            return types.ReadResourceResult(contents=[types.TextResourceContents(uri=uri, text=item)])
        blob = base64.b64encode(item).decode()
        kind = types.BlobResourceContents(uri=uri, blob=blob, mime_type="image/png")
        return types.ReadResourceResult(contents=[kind])

    async def _subscribe(self, ctx: Context, params: types.SubscribeRequestParams) -> types.EmptyResult:
        self.subscribed.add(str(params.uri))
        return types.EmptyResult()

    async def _unsubscribe(self, ctx: Context, params: types.UnsubscribeRequestParams) -> types.EmptyResult:
        self.subscribed.discard(str(params.uri))
        return types.EmptyResult()


class Announcing(Server[Any]):
    """Declares in the legacy era that its lists change."""

    def create_initialization_options(self, *args: Any, **more: Any) -> Any:
        return super().create_initialization_options(NotificationOptions(resources_changed=True))
