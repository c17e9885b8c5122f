"""The tools of a tenant by name: those that can be called, and why others cannot be."""

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from toolbus.bus.catalog.shaping import CatalogShaper
from toolbus.bus.engine.tenant import Tenant
from toolbus.bus.rules.scope import Scope
from toolbus.bus.rules.targets import listed_target
from toolbus.core.operation.events import Reason
from toolbus.core.values.errors import CallDenied, LoginRequired, ToolNotFound
from toolbus.core.values.freshness import ListKind
from toolbus.core.values.records import ToolSpec
from toolbus.lock.drift import HeldTool, label_of

if TYPE_CHECKING:
    from toolbus.discover import Discovery

REFRESH_WITHIN = 5.0
"""Seconds for which a caller waits for a list that has expired; then the last one is used."""


class Lookup:
    """Finds the tools of a tenant in one scope, and has lists that have expired listed again."""

    def __init__(self, tenant: Tenant, scope: Callable[[], Scope]) -> None:
        self._access = tenant.access
        self._servers = tenant.servers
        self._live = tenant.live
        self._tenant = tenant
        self._scope = scope

    def known(self, name: str) -> ToolSpec | None:
        """The tool of that public name or `server/tool`, even if a policy denies it."""
        spec = self._live.shaped.known(name)
        return spec if spec is not None and self._scope().reaches(spec) else None

    def denial(self, spec: ToolSpec) -> CallDenied | None:
        """The error for a tool of which a policy denies every call; None if none does."""
        target = listed_target(spec)
        return (
            None if target is None else self._tenant.guard.denial(spec.name, target, self._scope().policies)
        )

    # Lists that expire

    def _aliases(self) -> list[str]:
        return [alias for alias in self._access.config.servers if self._scope().has_server(alias)]

    def due(self, *kinds: ListKind) -> "dict[Discovery, list[ListKind]]":
        """The lists of a view that have expired, by default of those that its catalog is made of."""
        return self._servers.due(kinds or self._shaping.kinds, self._aliases())

    def refresh_soon(self, *kinds: ListKind) -> None:
        """Have the lists that are due listed again, without waiting; in any thread."""
        due = self.due(*kinds)
        if due and self._access.running:

            def refresh() -> None:
                for discovery, kinds in due.items():
                    discovery.refresh_soon(kinds)

            self._access.loop.call_soon(refresh)

    async def refresh(self, *kinds: ListKind) -> None:
        """The same, and wait for the new lists, but not for long: the last ones stay usable."""
        due = self.due(*kinds)
        await _within_reason(discovery.refresh(kinds) for discovery, kinds in due.items())

    def seconds_left(self, kind: ListKind) -> float | None:
        """For how much longer a list of a view is fresh; None if no server says anything about it."""
        return self._servers.seconds_left(kind, self._aliases())

    async def look_for(self, name: str) -> None:
        """Connect to the servers of a view that may have a tool of that name; connected ones list again."""
        shaping, inventories = self._shaping, self._tenant.inventories
        likely = [alias for alias in self._aliases() if shaping.may_have(alias, name)]
        down = [alias for alias in self._servers.down if alias in likely]
        expired = self._servers.due_for_name(down, are_up=False)
        unlisted = [
            alias
            for alias in down
            if not inventories[alias].tools or alias in expired or self._servers.awaits_listing(alias)
        ]
        listed = self._servers.due_for_name([alias for alias in likely if alias not in down], are_up=True)
        await asyncio.gather(
            *(self._servers[alias].open(by_name=True) for alias in unlisted),
            _within_reason(discovery.refresh(["tools"]) for discovery in listed.values()),
        )

    def missing(self, name: str) -> ToolNotFound | CallDenied | LoginRequired:
        """The error for a tool that is not in a view: unknown, held, denied, or of a server to sign in to."""
        if (refused := self.refused(name)) is not None:
            return refused
        return self.unknown(name)

    def unknown(self, name: str) -> ToolNotFound | LoginRequired:
        """The error for a tool that a view does not have, whatever the reason."""
        # The tools of a locked server are known, connected or not.
        locked = self._tenant.approvals.reviewers
        down = [
            alias for alias in self._servers.down if self._scope().has_server(alias) and alias not in locked
        ]
        likely = [alias for alias in down if self._shaping.may_have(alias, name)]
        for alias in likely:
            if (needed := self._servers.login_required(alias)) is not None:
                return needed.with_traceback(None)  # the same one for each call
        catalog, reason = self._scope().catalog(self._live.now).for_models, self._servers.why_down(likely)
        plain, inventories = catalog.missing(name, down), self._servers.inventories
        # While a server reconnects, its last list still shows which name was meant.
        is_listed = all(inventories[alias].tools for alias in likely or down)
        is_misspelled = is_listed and bool(plain.close_matches)
        return plain if reason is None or is_misspelled else catalog.missing(name, down, reason)

    def refused(self, name: str) -> CallDenied | None:
        """The error for a tool that is denied by a policy, or held; None if it is neither."""
        if (spec := self.known(name)) is not None:
            return self.denial(spec)
        reason = self._why_held(name)
        return None if reason is None else CallDenied(f"tool {name!r}", reason)

    def _why_held(self, name: str) -> str | None:
        """The reason why a tool is held, by the name that it would have in the catalog or `server/tool`."""
        held, every = self.held(), self._live.snapshot.held
        if name in held:
            return held[name].reason
        for spec in self._unreviewed() if held else ():
            if name in (spec.name, str(spec.origin)) and self._scope().reaches(spec):
                # The tool, or its whole server.
                one = every.get(str(spec.origin)) or every.get(label_of(spec.origin.server, "launch"))
                if one is not None:
                    return one.reason
        return None

    def held(self) -> dict[str, HeldTool]:
        """The held servers and tools of a view, by `server/tool`."""
        held = {
            key: one for key, one in self._live.snapshot.held.items() if self._scope().has_server(one.server)
        }
        if not held or not self._scope().has_patterns:
            return held
        reached = {str(spec.origin) for spec in self._unreviewed() if self._scope().reaches(spec)}
        return {key: one for key, one in held.items() if one.kind != "tool" or key in reached}

    @property
    def _shaping(self) -> CatalogShaper:
        return self._live.snapshot.shaping

    def _unreviewed(self) -> list[ToolSpec]:
        """All tools of the servers as they would be shown, approved or not."""
        return self._shaping.tools(self._live.snapshot.unreviewed)


async def _within_reason(refreshes: Iterable[Coroutine[Any, Any, None]]) -> None:
    """Wait for lists, as long as a caller should."""
    with suppress(TimeoutError):
        async with asyncio.timeout(REFRESH_WITHIN):
            await asyncio.gather(*refreshes)


def reason_of(error: ToolNotFound | CallDenied | LoginRequired) -> Reason:
    """The reason that observers get for a call that was not made."""
    if isinstance(error, LoginRequired):
        return "server_failed"
    return "refused" if isinstance(error, CallDenied) else "unknown_tool"
