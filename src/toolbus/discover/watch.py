"""Keep one server's inventory current.

In both eras a notification marks a list as dirty; shortly after, it is listed again and published as a
whole. If that fails, the last list is kept and marked as stale, and listed again after a delay if the
failure is temporary. A list that has expired is listed again when somebody needs it (`refresh`).
"""

import asyncio
import json
import logging
from collections.abc import Callable, Collection, Iterable, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from dataclasses import replace
from typing import Any, Literal

from mcp.client.subscriptions import SubscriptionLost
from mcp.shared.exceptions import MCPError
from mcp_types import (
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    ServerCapabilities,
    SubscriptionFilter,
)
from pydantic_core import to_jsonable_python

from toolbus.connect import requests
from toolbus.connect.read_cache import ReadCache
from toolbus.connect.session import ServerSession
from toolbus.connect.transports.http import is_temporary
from toolbus.connect.transports.wire.pending import WireError
from toolbus.core.loop import Flag
from toolbus.core.operation.events import Emit, ListChanged, warn
from toolbus.core.operation.tracing import Tracing, leave_trace
from toolbus.core.values import freshness
from toolbus.core.values.errors import CallTimeout, ServerRejected, ToolbusError
from toolbus.core.values.freshness import KINDS, ListKind
from toolbus.core.values.records import Inventory
from toolbus.discover.listing import ListResult, list_kinds
from toolbus.discover.subscriptions import Subscriptions

logger = logging.getLogger("toolbus")

DEBOUNCE = 0.05
"""Seconds in which several notifications are treated as one."""
LISTEN_TIMEOUT = 1.0
"""Seconds to wait for a server to acknowledge that it will send notifications."""
RETRY_DELAY = 1.0
"""Seconds before the first retry; doubled for each one after."""
MAX_RETRY_DELAY = 60.0
MAX_WARNINGS = 100
"""Warnings about the definitions of one list."""
MAX_REPORTED = 10_000
NOT_OFFERED = frozenset({METHOD_NOT_FOUND, INVALID_REQUEST, INVALID_PARAMS})

NOTIFICATIONS: dict[str, tuple[ListKind, ...]] = {
    "notifications/tools/list_changed": ("tools",),
    "notifications/resources/list_changed": ("resources", "templates", "skills"),  # skills are resources
    "notifications/prompts/list_changed": ("prompts",),
}
_CHANGING: tuple[Literal["tools", "resources", "prompts"], ...] = ("tools", "resources", "prompts")


class Discovery:
    """The observer of a link: lists when a session opens, and listens while it is up."""

    def __init__(
        self, server: str, publish: Callable[[], None], emit: Emit, tracing: Tracing | None = None
    ) -> None:
        self._server = server
        self.tracing = tracing
        self._publish = publish
        self._emit = emit
        self._dirty: frozenset[ListKind] = frozenset()
        self._wanted: frozenset[ListKind] = frozenset()
        """The lists that have expired and somebody needs."""
        self._running: frozenset[ListKind] = frozenset()
        """The lists that are being listed again."""
        self._round = Flag()
        """Set, and replaced, whenever some were listed again."""
        self._expiry = Expiry()
        self._reads: ReadCache | None = None
        """The cached resources of this session."""
        self._noticed = Flag()
        self._listening = Flag()
        self._listing = False
        """Whether listing has begun: a change before the stream is open is found only by listing again."""
        self._listed = Flag()
        self._problems: dict[ListKind, str | None] = dict.fromkeys(KINDS)
        """The reason why each kind could not be listed the last time; None if it was."""
        self._stale: frozenset[ListKind] = frozenset()
        """The kinds of which the last good list is kept."""
        self._reported: frozenset[str] = frozenset()
        self.inventory = Inventory()
        self.subscriptions = Subscriptions(server)

    @property
    def keeps_link_open(self) -> bool:
        """Whether there are subscriptions to resources."""
        return self.subscriptions.active

    async def on_open(self, session: ServerSession) -> None:
        """List everything and publish it."""
        # Listen first, then list: otherwise a change in between would be missed.
        with suppress(TimeoutError):
            async with asyncio.timeout(LISTEN_TIMEOUT):
                await self._listening.wait()
        await self._set_log_level(session)
        self._listing = True
        # After a reconnect, keep the last list of each kind that cannot be listed.
        before = self.inventory
        self._update(await self._list(session), session, keep=before != Inventory())
        self._report({kind for kind in KINDS if getattr(before, kind) != getattr(self.inventory, kind)})
        self._listed.set()

    async def _list(
        self, session: ServerSession, kinds: Sequence[ListKind] = KINDS
    ) -> dict[ListKind, ListResult]:
        self._expiry.begin(kinds)
        if self.tracing is None or not kinds:
            results = await list_kinds(session, kinds)
        else:
            with self.tracing.listing():
                results = await list_kinds(session, kinds)
        for kind, result in results.items():
            self._expiry.end(kind, result)
        return results

    # Lists that expire

    def due(self, kinds: Iterable[ListKind]) -> list[ListKind]:
        """The lists that have expired or are being listed again; none without a connection."""
        if not self._listed.is_set():
            return []
        return [kind for kind in kinds if kind in self._running or self._expiry.is_due(kind)]

    def is_due_for_name(self, *, is_up: bool) -> bool:
        """Whether tools are listed again because a name is unknown; for that, it connects if it is down."""
        if not is_up:
            return self._expiry.is_expired("tools")
        return "tools" in self._running or self._expiry.is_due_for_name()

    def seconds_left(self, kind: ListKind) -> float | None:
        """For how much longer a list is fresh; None if the server does not say."""
        return 0.0 if kind in self._stale else self._expiry.seconds_left(kind)

    def refresh_soon(self, kinds: Iterable[ListKind]) -> None:
        """List these again."""
        wanted = set(kinds) - self._running
        if wanted and self._listed.is_set():
            self._wanted |= wanted
            self._noticed.set()

    async def refresh(self, kinds: Collection[ListKind]) -> None:
        """List these again, but not more often than once a second, and wait for that."""
        asked = freshness.clock()
        await asyncio.sleep(self._expiry.pause(set(kinds) - self._running))
        self.refresh_soon(kind for kind in kinds if self._expiry.begun.get(kind, 0.0) < asked)
        while not (self._running | self._wanted).isdisjoint(kinds):
            await self._round.wait()

    async def _set_log_level(self, session: ServerSession) -> None:
        """Set the log level of the config on a legacy server; modern requests carry it."""
        level = session.config.log_level
        can_set = session.era == "legacy" and session.client.server_capabilities.logging is not None
        if can_set and level is not None and level != "off":
            try:
                await requests.set_log_level(session, level)
            except (ServerRejected, CallTimeout) as error:
                if not (isinstance(error, ServerRejected) and error.code == METHOD_NOT_FOUND):
                    self._warn(f"its log level could not be set: {error.problem}")

    def on_notification(self, method: str, uri: str | None = None) -> None:
        """Handle a notification of the server; only changes matter."""
        if uri is not None:
            self.subscriptions.emit_updated(uri)
        kinds = NOTIFICATIONS.get(method)
        if self._reads is not None and (uri is not None or "resources" in (kinds or ())):
            self._reads.forget(uri)
        if kinds:
            self._dirty = self._dirty.union(kinds)
            self._noticed.set()

    async def run(self, session: ServerSession) -> None:
        """Listen, and list again after changes, until cancelled."""
        leave_trace()  # changes have nothing to do with who opened the link
        self._reads = session.reads
        if session.era == "legacy":
            self._expiry.announced = _announced(session.client.server_capabilities)
        tasks = [asyncio.create_task(work) for work in (self._relist(session), self._listen(session))]
        if self.subscriptions.uris:
            tasks.append(asyncio.create_task(self.subscriptions.renew(session)))
        try:
            await asyncio.gather(*tasks)
        finally:
            # Also if one of them failed: none may outlive the session.
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
            await self.subscriptions.stop_listening()
            self._listening.clear()
            self._noticed.clear()
            self._dirty = frozenset()
            self._wanted = frozenset()
            self._listed.clear()
            self._listing = False
            self._expiry.announced, self._reads = frozenset(), None
            self._end_round()

    async def _relist(self, session: ServerSession) -> None:
        delay = RETRY_DELAY
        await self._listed.wait()
        while not session.gone.is_set():
            with suppress(TimeoutError):
                async with asyncio.timeout(delay if self._dirty else None):
                    await self._noticed.wait()
            if not self._wanted:
                await asyncio.sleep(DEBOUNCE)
            noticed, self._running = self._dirty, self._dirty | self._wanted
            self._dirty = frozenset()
            self._wanted = frozenset()
            self._noticed.clear()
            try:
                kinds: list[ListKind] = [kind for kind in KINDS if kind in self._running]
                changed = self._update(await self._list(session, kinds), session, keep=True)
                self._report((noticed | changed) - self._dirty)
            except ToolbusError as error:  # a request failed, or the link is going down
                logger.debug("%s", error)
                self._dirty = self._dirty.union(self._running)
            self._end_round()
            delay = min(delay * 2, MAX_RETRY_DELAY) if self._dirty else RETRY_DELAY

    def _end_round(self) -> None:
        self._running = frozenset()
        ended, self._round = self._round, Flag()
        ended.set()

    async def _listen(self, session: ServerSession) -> None:
        """Open the stream without which a modern server sends no notifications."""
        announced = _announced(session.client.server_capabilities)
        if session.era == "legacy" or not announced:
            self._listening.set()
            return
        delay = RETRY_DELAY
        while not session.gone.is_set():
            try:
                async with session.client.listen(
                    tools_list_changed="tools" in announced,
                    prompts_list_changed="prompts" in announced,
                    resources_list_changed="resources" in announced,
                ) as subscription:
                    delay = RETRY_DELAY
                    self._expiry.announced = _honored(subscription.honored)
                    self._listening.set()
                    if self._listing:
                        # Changes are not replayed: list everything again.
                        self._dirty = self._dirty.union(KINDS)
                        self._noticed.set()
                    async for _ in subscription:
                        pass  # each event also arrives as a legacy notification
            except SubscriptionLost:
                pass
            except MCPError as error:
                if isinstance(error, WireError) and error.lost:
                    session.end(error.message)
                    return
                logger.debug("server %r does not send change notifications: %s", self._server, error)
                self._listening.set()  # it refuses: do not wait for it
                if not _is_temporary(error):
                    return
            finally:
                self._expiry.announced = frozenset()
            await asyncio.sleep(delay)
            delay = min(delay * 2, MAX_RETRY_DELAY)

    def _update(
        self, results: dict[ListKind, ListResult], session: ServerSession, *, keep: bool
    ) -> set[ListKind]:
        """Publish these lists if anything about them is new; returns those that are."""
        before, now = self.inventory, self.inventory if keep else Inventory()
        changed: set[ListKind] = set()
        self._dirty = self._dirty.union(kind for kind, result in results.items() if result.is_temporary)
        for kind, result in results.items():
            self._problems[kind] = result.problem
            if keep and result.problem:
                self._stale = self._stale.union((kind,))
                continue
            self._stale = self._stale.difference((kind,))
            if not _same(getattr(now, kind), result.records):
                changed.add(kind)
                now = replace(now, **{kind: result.records})
        tools = results.get("tools")
        if tools is not None and not (keep and tools.problem):
            now = replace(now, quarantined=tools.quarantined, pages=tools.pages)
        now = replace(
            now,
            instructions=session.client.instructions,
            notes=tuple(filter(None, self._problems.values())),
            stale=bool(self._stale),
        )
        is_new = bool(changed) or now != before
        self.inventory = now if is_new else before  # the same object, so that nothing is made of it twice
        self._warn_changes(before, session.result_filter.dropped)
        if is_new:
            self._publish()
        return changed

    def _report(self, kinds: AbstractSet[ListKind]) -> None:
        """Emit that these lists have changed."""
        names = {"resources" if kind in ("templates", "skills") else kind for kind in kinds}
        for kind in _CHANGING:
            if kind in names:
                self._emit(ListChanged(server=self._server, kind=kind))

    def _warn_changes(self, before: Inventory, dropped: list[str]) -> None:
        now = self.inventory
        fresh = [message for message in dict.fromkeys(dropped) if message not in self._reported]
        dropped.clear()
        if len(self._reported) > MAX_REPORTED:
            self._reported = frozenset()
        self._reported = self._reported.union(fresh)
        self._warn_some([(message, None) for message in fresh])
        for note in now.notes:
            if note not in before.notes:
                self._warn(note + ("; the last good list is kept" if now.stale else ""))
        known = set(before.quarantined)
        self._warn_some(
            [(f"left out: {tool.reason}", tool.tool) for tool in now.quarantined if tool not in known]
        )
        if not now.tools and (before.tools or before == Inventory()):
            self._warn(f"connected, but it offers no tools: {self._no_tools_reason()}")

    def _warn_some(self, warnings: list[tuple[str, str | None]]) -> None:
        """Warn, up to a limit: a server can make any number of mistakes."""
        for message, tool in warnings[:MAX_WARNINGS]:
            self._warn(message, tool)
        if (more := len(warnings) - MAX_WARNINGS) > 0:
            self._warn(f"{more:,} more of its definitions were left out")

    def _no_tools_reason(self) -> str:
        if self.inventory.notes:
            return self.inventory.notes[0]
        if self.inventory.quarantined:
            return f"all {len(self.inventory.quarantined)} definitions are invalid"
        return "its list is empty"

    def _warn(self, message: str, tool: str | None = None) -> None:
        warn(self._emit, self._server, message, tool)


def _announced(capabilities: ServerCapabilities) -> frozenset[ListKind]:
    """The lists whose changes a server says it announces."""
    offered = {kind: getattr(capabilities, kind) for kind in _CHANGING}
    return _with_related(kind for kind, offer in offered.items() if offer and offer.list_changed)


def _honored(honored: SubscriptionFilter) -> frozenset[ListKind]:
    """The lists whose changes it sends on a stream."""
    return _with_related(kind for kind in _CHANGING if getattr(honored, f"{kind}_list_changed"))


def _with_related(kinds: Iterable[str]) -> frozenset[ListKind]:
    return frozenset(one for kind in kinds for one in NOTIFICATIONS[f"notifications/{kind}/list_changed"])


def _same(before: Sequence[Any], now: Sequence[Any]) -> bool:
    """Whether two lists have the same records, in any order."""
    if len(before) != len(now):
        return False
    return all(map(_is_same, sorted(before, key=_identity), sorted(now, key=_identity)))


def _identity(record: Any) -> str:
    return getattr(record, "uri", None) or getattr(record, "uri_template", None) or record.name


def _is_same(a: Any, b: Any) -> bool:
    # `==` alone would call `const: true` and `const: 1` the same; the text also differs by the order of keys.
    return a == b and (repr(a) == repr(b) or _plain(a) == _plain(b))


def _plain(record: Any) -> str:
    plain = to_jsonable_python(record, exclude={"definitions"}, serialize_unknown=True)
    return json.dumps(plain, sort_keys=True)


def _is_temporary(error: MCPError) -> bool:
    """Whether a retry may succeed, because the error does not mean that it is not offered."""
    if isinstance(error, WireError) and error.status is not None:
        return is_temporary(error.status)
    return error.code not in NOT_OFFERED


EVERY = 1.0
"""Seconds between two requests of a list because it has expired, regardless of its server."""
NAME_EVERY = 10.0
"""Seconds after which an unknown name is a reason to list tools again, and a failed list may be repeated."""


class Expiry:
    """The expiry of the lists of one server."""

    def __init__(self) -> None:
        self.begun: dict[ListKind, float] = {}
        """The time when each was requested last."""
        self._listed: dict[ListKind, float] = {}
        self._until: dict[ListKind, float] = {}
        """Until when each is fresh, if the server says so."""
        self.announced: frozenset[ListKind] = frozenset()
        """The lists whose changes the server announces."""

    def begin(self, kinds: Iterable[ListKind]) -> None:
        self.begun.update(dict.fromkeys(kinds, freshness.clock()))

    def end(self, kind: ListKind, result: ListResult) -> None:
        now = self._listed[kind] = freshness.clock()
        until, had_expiry = result.fresh_until, self._until.pop(kind, None) is not None
        if until is None and result.problem and had_expiry:
            until = now + NAME_EVERY
        if until is not None:
            self._until[kind] = until

    def pause(self, kinds: Iterable[ListKind]) -> float:
        """Seconds before these may be requested again."""
        return max((self.begun.get(kind, 0.0) for kind in kinds), default=0.0) + EVERY - freshness.clock()

    def is_due(self, kind: ListKind) -> bool:
        """Whether a list has expired, and was not requested just now."""
        return self.is_expired(kind) and self.pause([kind]) <= 0

    def is_due_for_name(self) -> bool:
        """Whether tools are listed again because a name is unknown."""
        age = freshness.clock() - self.begun.get("tools", freshness.clock())
        return self.is_expired("tools") or ("tools" not in self.announced and age >= NAME_EVERY)

    def is_expired(self, kind: ListKind) -> bool:
        """Whether a list is no longer fresh."""
        until = self._until.get(kind)
        if until is None or until > freshness.clock():
            return False
        # A TTL of 0 is what servers send that know no better: if they announce changes, that counts.
        return kind not in self.announced or until > self._listed[kind]

    def seconds_left(self, kind: ListKind) -> float | None:
        """For how much longer a list is fresh; None if the server does not say."""
        until = self._until.get(kind)
        return None if until is None else max(0.0, until - freshness.clock())
