"""Keep one server's inventory current.

Both eras end in one path: a notice marks a list as dirty; a moment later it is listed again and
published as a whole. A list that fails then is kept as it was, marked stale, and asked for again after
a pause if the failure may pass.
"""

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

from mcp.client.subscriptions import SubscriptionLost
from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS, INVALID_REQUEST, METHOD_NOT_FOUND

from toolbus.connect import Session, WireError, requests
from toolbus.connect.transports.http import is_temporary
from toolbus.core.errors import CallRejected, CallTimeout, ToolbusError
from toolbus.core.events import Emit, Warned
from toolbus.core.records import Inventory
from toolbus.discover.listing import KINDS, Kind, Listing, listed
from toolbus.discover.subscriptions import Subscriptions

logger = logging.getLogger("toolbus")

DEBOUNCE = 0.05
"""Seconds in which several notices count as one."""
LISTENING = 1.0
"""Seconds to wait for a server to say that it will send notices."""
AGAIN = 1.0
"""Seconds before what failed is tried again, at first; then ever longer."""
AGAIN_AT_MOST = 60.0
NOT_OFFERED = frozenset({METHOD_NOT_FOUND, INVALID_REQUEST, INVALID_PARAMS})

NOTICES: dict[str, tuple[Kind, ...]] = {
    "notifications/tools/list_changed": ("tools",),
    "notifications/resources/list_changed": ("resources", "templates"),
    "notifications/prompts/list_changed": ("prompts",),
}


class Discovery:
    """The observer of a link: lists when it opens, listens while it is up."""

    def __init__(self, server: str, publish: Callable[[], None], emit: Emit) -> None:
        self._server = server
        self._publish = publish
        self._emit = emit
        self._dirty: set[Kind] = set()
        self._noticed = asyncio.Event()
        self._listening = asyncio.Event()
        self._listing = False
        """Whether listing has begun: what changes before a stream is open is found only by looking."""
        self._listed = asyncio.Event()
        self._told: set[str] = set()
        self.inventory = Inventory()
        self.subscriptions = Subscriptions(server, emit)

    @property
    def needed(self) -> bool:
        """Whether anybody is subscribed to a resource."""
        return self.subscriptions.any

    async def opened(self, session: Session) -> None:
        """List everything and publish it."""
        # First listen, then list: a change in between would be told to nobody.
        with suppress(TimeoutError):
            async with asyncio.timeout(LISTENING):
                await self._listening.wait()
        await self._set_log_level(session)
        self._listing = True
        # After a loss the last good list stays where the new one cannot be had.
        self._take(await listed(session), session, keep=self.inventory != Inventory())
        self._listed.set()

    async def _set_log_level(self, session: Session) -> None:
        """Say what is to be logged, if the config does; in the modern era every request says it."""
        level = session.config.log_level
        told = session.era == "modern" or session.client.server_capabilities.logging is None
        if level is None or level == "off" or told:
            return
        try:
            await requests.set_log_level(session, level)
        except (CallRejected, CallTimeout) as error:
            self._warn(f"its log level could not be set: {error.problem}")

    def noticed(self, method: str, uri: str | None = None) -> None:
        """A notice of the server; what it does not concern is ignored."""
        if uri is not None:
            self.subscriptions.updated(uri)
        if kinds := NOTICES.get(method):
            self._dirty.update(kinds)
            self._noticed.set()

    async def attend(self, session: Session) -> None:
        """Listen and list again, until cancelled."""
        work = [
            asyncio.create_task(one)
            for one in (self._relist(session), self._listen(session), self.subscriptions.attend(session))
        ]
        try:
            await asyncio.gather(*work)
        finally:
            # Also when one of them failed: none may outlive the session.
            for one in work:
                one.cancel()
            await asyncio.wait(work)
            self._listening.clear()
            self._noticed.clear()
            self._dirty.clear()
            self._listed.clear()
            self._listing = False

    async def _relist(self, session: Session) -> None:
        pause = AGAIN
        await self._listed.wait()
        while not session.gone.is_set():
            with suppress(TimeoutError):
                async with asyncio.timeout(pause if self._dirty else None):
                    await self._noticed.wait()
            await asyncio.sleep(DEBOUNCE)
            kinds: tuple[Kind, ...] = tuple(kind for kind in KINDS if kind in self._dirty)
            self._dirty.clear()
            self._noticed.clear()
            try:
                self._take(await listed(session, kinds), session, keep=True)
            except ToolbusError as error:  # one request broke off, or the link is going down
                logger.debug("%s", error)
                self._dirty.update(kinds)
            pause = min(pause * 2, AGAIN_AT_MOST) if self._dirty else AGAIN

    async def _listen(self, session: Session) -> None:
        """In the modern era a server sends notices only while someone listens."""
        capabilities = session.client.server_capabilities
        tools = bool(capabilities.tools and capabilities.tools.list_changed)
        prompts = bool(capabilities.prompts and capabilities.prompts.list_changed)
        resources = bool(capabilities.resources and capabilities.resources.list_changed)
        if session.era == "legacy" or not (tools or prompts or resources):
            self._listening.set()
            return
        pause = AGAIN
        while not session.gone.is_set():
            try:
                async with session.client.listen(
                    tools_list_changed=tools,
                    prompts_list_changed=prompts,
                    resources_list_changed=resources,
                ) as subscription:
                    pause = AGAIN
                    self._listening.set()
                    if self._listing:
                        # Nothing is replayed: what changed until now is found only by looking.
                        self._dirty.update(KINDS)
                        self._noticed.set()
                    async for _ in subscription:
                        pass  # each event also arrives as the notice of the legacy era
            except SubscriptionLost:
                pass
            except MCPError as error:
                if isinstance(error, WireError) and error.lost:
                    session.end(error.message)
                    return
                logger.debug("server %r does not send change notices: %s", self._server, error)
                self._listening.set()  # nobody waits for a server that refuses
                if not _may_pass(error):
                    return
            await asyncio.sleep(pause)
            pause = min(pause * 2, AGAIN_AT_MOST)

    def _take(self, found: dict[Kind, Listing], session: Session, *, keep: bool) -> None:
        before, now = self.inventory, self.inventory if keep else Inventory()
        self._dirty.update(kind for kind, listing in found.items() if listing.may_pass)
        faults = {kind: listing.fault for kind, listing in found.items() if listing.fault}
        for kind, listing in found.items():
            if not (keep and listing.fault):
                now = replace(now, **{kind: listing.records})
        tools = found.get("tools")
        if tools is not None and not (keep and tools.fault):
            now = replace(now, quarantined=tools.quarantined, pages=tools.pages)
        self.inventory = replace(
            now,
            instructions=session.client.instructions,
            notes=tuple(faults.values()),
            stale=keep and bool(faults),
        )
        self._warn_of_news(before, session.result_filter.left_out)
        self._publish()

    def _warn_of_news(self, before: Inventory, left_out: list[str]) -> None:
        now = self.inventory
        for message in left_out:
            if message not in self._told:
                self._told.add(message)
                self._warn(message)
        left_out.clear()
        for note in now.notes:
            if note not in before.notes:
                self._warn(note + ("; the last good list is kept" if now.stale else ""))
        for bad in now.quarantined:
            if bad not in before.quarantined:
                self._warn(f"left out: {bad.reason}", bad.tool)
        if not now.tools and (before.tools or before == Inventory()):
            self._warn(f"connected, but it offers no tools: {self._why_none()}")

    def _why_none(self) -> str:
        if self.inventory.notes:
            return self.inventory.notes[0]
        if self.inventory.quarantined:
            return f"all {len(self.inventory.quarantined)} definitions are invalid"
        return "its list is empty"

    def _warn(self, message: str, tool: str | None = None) -> None:
        logger.warning("server %r: %s%s", self._server, f"tool {tool!r}: " if tool else "", message)
        self._emit(Warned(server=self._server, message=message, tool=tool))


def _may_pass(error: MCPError) -> bool:
    """Whether a refusal may be over in a moment, rather than mean that it is not offered."""
    if isinstance(error, WireError) and error.status is not None:
        return is_temporary(error.status)
    return error.code not in NOT_OFFERED
