"""The `quotas` of a bus: how many calls each key, user, view or server may make."""

from typing import Annotated, Literal, TypeAlias

from pydantic import AfterValidator, Strict

from toolbus.config.base import ConfigModel, Count, TextOrTexts
from toolbus.config.location import Location

QuotaSubject: TypeAlias = Literal["key", "user", "view", "server"]
QuotaKind: TypeAlias = Literal["per_minute", "per_day", "concurrent"]
LIMITS: dict[QuotaKind, str] = {
    "per_minute": "per minute",
    "per_day": "per day",
    "concurrent": "at a time",
}
"""The limits of a quota, each with its words."""


class CallQuota(ConfigModel):
    """A quota: the most calls of tools that each subject may make."""

    _expected = "expected a mapping such as {per: user, per_day: 1000}"

    per: QuotaSubject
    """`key`, `user`, `view` or `server`: each of them has its own quota."""
    names: TextOrTexts = ()
    """Globs on the names of those keys, users, views or servers; by default all of them."""
    tools: TextOrTexts = ()
    """Globs on `server/tool`: the tools whose calls are counted; by default all tools."""
    per_minute: Count | None = None
    """The most calls in a minute; each begins with its first second (UTC)."""
    per_day: Count | None = None
    """The most calls in a day; each begins at midnight UTC."""
    concurrent: Count | None = None
    """The most calls at the same time."""

    @property
    def limits(self) -> dict[QuotaKind, int]:
        """The limits that are set."""
        given: dict[QuotaKind, int | None] = {kind: getattr(self, kind) for kind in LIMITS}
        return {kind: most for kind, most in given.items() if most is not None}

    def _check(self) -> None:
        for pattern in self.tools:
            if "/" not in pattern and pattern != "*":
                problem = f"{pattern!r} names no server; write server/tool, or */{pattern}"
                raise Location().error(problem, "tools")
        if not self.limits:
            raise Location().error("has no limit; set per_minute, per_day or concurrent")


def quota_words(quota: CallQuota) -> str:
    """The subject, limits and tools of a quota on one line."""
    limits = ", ".join(f"{most:,} {LIMITS[kind]}" for kind, most in quota.limits.items())
    named = f" {', '.join(quota.names)}" if quota.names else ""
    tools = f" of tools {', '.join(quota.tools)}" if quota.tools else ""
    return f"each {quota.per}{named}: at most {limits}{tools}"


def _distinct(quotas: tuple[CallQuota, ...]) -> tuple[CallQuota, ...]:
    """ConfigError for two that count the same calls: they would share their counts."""
    seen: dict[tuple[str, frozenset[str], frozenset[str]], int] = {}
    for index, one in enumerate(quotas):
        first = seen.setdefault((one.per, frozenset(one.names), frozenset(one.tools)), index)
        if first != index:
            problem = f"counts the same calls as quotas[{first}]; put all limits in one entry"
            raise Location().error(problem, f"[{index}]")
    return quotas


QUOTAS_EXPECTED = "expected a list of quotas such as {per: user, per_day: 1000}"
CallQuotas: TypeAlias = Annotated[tuple[CallQuota, ...], Strict(False), AfterValidator(_distinct)]
