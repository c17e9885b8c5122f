"""The quotas of a bus, at the end of the call path: each call of a tool is counted once, or refused.

They come after the policy: what that denies does not count. A call that is repeated after a lost connection
passes them once. A call that its server suspends carries the proof that it was counted to its next round.
"""

import asyncio
import re
import secrets
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from typing import Any, NamedTuple, TypeAlias, TypeVar

from toolbus.config.settings.quotas import LIMITS, CallQuota, QuotaKind
from toolbus.core.operation.operation import Caller, Operation
from toolbus.core.operation.quota import OverQuota
from toolbus.core.text.canonical import digest_of
from toolbus.core.text.display import counted
from toolbus.core.values.errors import StoreError
from toolbus.core.values.records import ToolResult
from toolbus.policy.quotas.leases import (
    QUOTA,
    TICK,
    CallLease,
    CountPlace,
    CountValues,
    MemoryCounts,
    PlaceLease,
    Uncountable,
    UsedUp,
    counts_in,
    forget_ended,
)
from toolbus.policy.rule import Pattern
from toolbus.policy.rules import PolicyTarget
from toolbus.state.files import config_place, state_folder
from toolbus.state.values import DocumentForm, FileForm, PrivateValues, Values

T = TypeVar("T")

Next: TypeAlias = Callable[[Operation], Awaitable[ToolResult]]
_SECONDS: dict[QuotaKind, float] = {"per_minute": 60.0, "per_day": 86_400.0}
ROUND = "quota-round"
_PROOF = re.compile(r"\d{1,20}-[0-9a-f]{32}")
_ROUND_SECONDS = 86_400.0
"""Seconds in which the next round of a call does not count again."""
_MOST_TOOLS = 10_000
_MOST_ROUNDS = 10_000
_MOST_SEEN = 200
_FORGET_EVERY = 3600.0


class QuotaRule:
    """One quota of the config, ready to be compared with calls."""

    def __init__(self, index: int, config: CallQuota) -> None:
        self.label = f"quotas[{index}]"
        self.config = config
        self.limits = config.limits
        self.digest = digest_of([config.per, sorted(config.names), sorted(config.tools)])
        """The identity of its counts; another limit does not begin another count."""
        self._tools = [Pattern(text, loosens=False) for text in config.tools]

    def counts(self, target: PolicyTarget) -> bool:
        """Whether calls of that tool count."""
        return not self._tools or any(pattern.matches(target) for pattern in self._tools)

    def subject(self, caller: Caller, server: str) -> str | None:
        """The name of the user, key, view or server whose quota a call uses; None if it uses none."""
        match self.config.per:
            case "server":
                found: str | None = server
            case "user":
                found = caller.user
            case "key":
                found = caller.key or None
            case "view":
                found = caller.view or None
        names = self.config.names
        if found is None or (names and not any(fnmatchcase(found, name) for name in names)):
            return None
        return found

    def reason(self, kind: QuotaKind, subject: str) -> str:
        """The reason for a refusal."""
        allowed = f"{counted(self.limits[kind], 'call')} {LIMITS[kind]}"
        whom = f"{self.config.per} {subject!r}" if subject else f"a {self.config.per} without a name"
        return f"{self.label} allows {whom} {allowed}"


class _Count(NamedTuple):
    rule: QuotaRule
    kind: QuotaKind
    subject: str
    lease: CallLease | PlaceLease


@dataclass(slots=True)
class QuotaTotals:
    """The counts of one quota in one process."""

    calls: int = 0
    refused: Counter[str] = field(default_factory=Counter[str])
    """By the limit that was used up, or `uncounted`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaUse:
    """The use of one limit by one subject."""

    quota: str
    """The label of the quota."""
    per: str
    subject: str
    limit: QuotaKind
    most: int
    used: int
    """Calls, or places; what processes have leased counts."""
    until: float
    """The end of the window, in seconds since the epoch."""


class Quotas:
    """Counts the calls of a bus against its quotas, on the loop of the bus."""

    def __init__(self) -> None:
        self._own = secrets.token_hex(8)
        self._values: CountValues = MemoryCounts(time.time)
        self._forgets = True
        """Whether counts that have ended have to be removed."""
        self.rules: tuple[QuotaRule, ...] = ()
        self.totals: dict[str, QuotaTotals] = {}
        """The counts of this process, by the label of the quota."""
        self._known: dict[tuple[str, str], tuple[QuotaRule, ...]] = {}
        """The rules that count the calls of a tool."""
        self.leases: dict[tuple[str, str, str], CallLease | PlaceLease] = {}
        self._tidying: asyncio.Task[None] | None = None
        self._working: set[asyncio.Task[Any]] = set()
        self._forgotten = float("-inf")

    def use(self, configs: tuple[CallQuota, ...]) -> None:
        """Count for the quotas of a config from now on; those that stay go on counting."""
        self.rules = tuple(QuotaRule(index, one) for index, one in enumerate(configs))
        self.totals = {one.label: self.totals.get(one.label, QuotaTotals()) for one in self.rules}
        self._known = {}

    def share(self, values: CountValues, *, forgets: bool) -> None:
        """Share the counts with others; `forgets` if values do not expire by themselves."""
        self._values, self._forgets = values, forgets

    def lay(self, onward: Next) -> Next:
        """The path from here on."""
        if not self.rules:
            return onward

        def run(operation: Operation) -> Awaitable[ToolResult]:
            rules = self._rules_for(operation)
            return self._run(operation, rules, onward) if rules else onward(operation)

        return run

    async def _run(self, operation: Operation, rules: tuple[QuotaRule, ...], onward: Next) -> ToolResult:
        counts = [one for rule in rules for one in self._counts_of(rule, operation)]
        for one in counts:
            one.lease.users += 1
        try:
            places = await self._take(operation, [one for one in counts if one.kind == "concurrent"])
            try:
                if not await self._was_counted(operation):
                    await self._take(operation, [one for one in counts if one.kind != "concurrent"])
                    for label in {one.rule.label for one in counts}:
                        self.totals[label].calls += 1
                result = await onward(operation)
            finally:
                await self._release(places)
        finally:
            for one in counts:
                one.lease.users -= 1
        if result.pending is None or not counts:
            return result
        return replace(result, pending=replace(result.pending, counted=await self._proof()))

    async def _proof(self) -> str | None:
        """A name that shows, once, that a call was counted; None if it cannot be kept."""
        name = f"{int(self._values.now() + _ROUND_SECONDS)}-{secrets.token_hex(16)}"
        try:
            await self._values.add(ROUND, name, seconds=_ROUND_SECONDS)
        except (StoreError, OSError):
            return None
        return name

    def _rules_for(self, operation: Operation) -> tuple[QuotaRule, ...]:
        spec = operation.spec
        if spec.route != "tools/call":
            return ()
        origin = spec.origin
        found = self._known.get((origin.server, origin.tool))
        if found is None:
            target = PolicyTarget(kind="tool", server=origin.server, name=origin.tool, spec=spec)
            if len(self._known) >= _MOST_TOOLS:
                self._known.clear()
            found = tuple(rule for rule in self.rules if rule.counts(target))
            self._known[origin.server, origin.tool] = found
        return found

    async def _was_counted(self, operation: Operation) -> bool:
        """Whether it is a round of a call that was counted; the proof of that can be used once."""
        if (resumed := operation.resumed) is not None:
            if resumed.pending.task is not None:
                return True  # its task is asked for the result
            proof = resumed.pending.counted
        else:
            proof = None if operation.forwarding is None else operation.forwarding.counted
        if proof is None or _PROOF.fullmatch(proof) is None:
            return False
        try:
            return await self._values.remove(ROUND, proof)
        except (StoreError, OSError):
            return False

    # Counting

    def _counts_of(self, rule: QuotaRule, operation: Operation) -> Iterator[_Count]:
        subject = rule.subject(operation.caller, operation.spec.origin.server)
        if subject is None:
            return
        for kind in rule.limits:
            key = rule.digest, kind, subject
            lease = self.leases.get(key)
            if lease is None:
                facts = {"rule": rule.digest, "subject": subject, "limit": kind}
                place = CountPlace(values=self._values, name=digest_of([*key]), facts=facts, own=self._own)
                lease = PlaceLease(place) if kind == "concurrent" else CallLease(place, _SECONDS[kind])
                self.leases[key] = lease
            yield _Count(rule, kind, subject, lease)

    async def _take(self, operation: Operation, counts: list[_Count]) -> list[PlaceLease]:
        """Count a call everywhere or nowhere, or raise `OverQuota`; returns the places to release."""
        taken: list[tuple[CallLease | PlaceLease, float]] = []
        try:
            for count in counts:
                while not (token := count.lease.take()):
                    await self._lease(operation, count)
                taken.append((count.lease, token))
        except BaseException:
            for lease, token in taken:
                if isinstance(lease, CallLease):
                    lease.put_back(token)
            await self._release([one for one, _ in taken if isinstance(one, PlaceLease)])
            raise
        return [one for one, _ in taken if isinstance(one, PlaceLease)]

    async def _lease(self, operation: Operation, count: _Count) -> None:
        self._start_tidying()
        rule, kind = count.rule, count.kind
        try:
            await self._finished(count.lease.lease(rule.limits[kind]))
        except UsedUp as error:
            raise self._refusal(
                operation, count, rule.reason(kind, count.subject), kind, error.after
            ) from None
        except Uncountable as error:
            reason = f"the calls of {rule.label} cannot be counted ({error})"
            raise self._refusal(operation, count, reason, "uncounted", error.after) from error

    def _refusal(
        self, operation: Operation, count: _Count, reason: str, limit: str, after: float
    ) -> OverQuota:
        label = count.rule.label
        totals = self.totals.setdefault(label, QuotaTotals())
        totals.refused[limit] += 1
        what = f"tool {operation.spec.name!r}"
        return OverQuota(what, reason, label, limit=limit, retry_after=after)

    async def _release(self, places: list[PlaceLease]) -> None:
        for one in places:
            if one.release():
                await self._finished(one.tidy())

    async def _finished(self, work: Coroutine[Any, Any, T]) -> T:
        """The result of work that is finished even if its caller is cancelled: its outcome is known then."""
        task = asyncio.create_task(work, name="toolbus quotas")
        self._working.add(task)
        task.add_done_callback(self._forget_task)
        return await asyncio.shield(task)

    def _forget_task(self, task: asyncio.Task[Any]) -> None:
        self._working.discard(task)
        if not task.cancelled():
            task.exception()  # nobody may ask for it

    # What is not used goes back

    def _start_tidying(self) -> None:
        if self._tidying is None or self._tidying.done():
            self._tidying = asyncio.create_task(self._tidy(), name="toolbus quotas")

    async def _tidy(self) -> None:
        """Look at the leases again and again, until there are none."""
        await self._forget()
        while self.leases:
            await asyncio.sleep(TICK)
            for key, lease in tuple(self.leases.items()):
                if not await self._finished(lease.tidy()) and not lease.users:
                    del self.leases[key]

    async def _forget(self) -> None:
        if self._forgets and time.monotonic() - self._forgotten > _FORGET_EVERY:
            self._forgotten = time.monotonic()
            with suppress(StoreError, OSError, ValueError):
                await forget_ended(self._values)

    async def close(self) -> None:
        """Give back all unused calls: no more come."""
        if self._tidying is not None:
            self._tidying.cancel()
            await asyncio.gather(self._tidying, return_exceptions=True)
        await asyncio.gather(*self._working, return_exceptions=True)
        await asyncio.gather(*(lease.tidy(is_last=True) for lease in self.leases.values()))
        self.leases = {}

    # For people

    async def seen(self) -> list[QuotaUse]:
        """The use of each limit, the fullest first; StoreError or OSError if the counts cannot be read."""
        rules, now = {rule.digest: rule for rule in self.rules}, self._values.now()
        found = [
            QuotaUse(
                quota=rules[one["rule"]].label,
                per=rules[one["rule"]].config.per,
                subject=one["subject"],
                limit=one["limit"],
                most=rules[one["rule"]].limits[one["limit"]],
                used=one["granted"],
                until=one["until"],
            )
            for one in await counts_in(self._values)
            if one["until"] > now and one["rule"] in rules and one["limit"] in rules[one["rule"]].limits
        ]
        return sorted(found, key=lambda one: (-one.used / one.most, one.quota, one.subject))[:_MOST_SEEN]


class FileCounts:
    """Counts in a file of the user, which the processes that use one config share."""

    def __init__(self, values: Values) -> None:
        self._values = values
        self.now = values.now

    async def get(self, kind: str, name: str) -> bytes | None:
        return await self._in_thread(lambda: self._values.get(kind, name))

    async def swap(
        self, kind: str, name: str, old: bytes | None, new: bytes | None, seconds: float | None = None
    ) -> bool:
        return await self._in_thread(lambda: self._values.swap(kind, name, old, new, seconds))

    async def add(self, kind: str, name: str, value: bytes = b"", seconds: float | None = None) -> bool:
        return await self._in_thread(lambda: self._values.add(kind, name, value, seconds))

    async def remove(self, kind: str, name: str) -> bool:
        return await self._in_thread(lambda: self._values.remove(kind, name))

    async def items(self, kind: str) -> dict[str, bytes]:
        return await self._in_thread(lambda: self._values.items(kind))

    async def _in_thread(self, begin: Callable[[], Coroutine[Any, Any, T]]) -> T:
        return await asyncio.to_thread(lambda: self._values.wait(begin()))


def file_counts(config_file: str) -> FileCounts:
    """The counts of a config file that has no store."""
    _, digest = config_place(config_file)
    counts = DocumentForm(
        path=f"quotas/{digest}.json", damaged="the file of quotas {path} {reason}; remove it"
    )
    rounds = FileForm(path="quotas/rounds/{name}", limit=_MOST_ROUNDS)
    return FileCounts(PrivateValues(state_folder, {QUOTA: counts, ROUND: rounds}))
