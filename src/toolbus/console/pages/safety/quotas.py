"""The quotas: how many calls each allows, how many it counted and refused, and who has used how much."""

from datetime import UTC, datetime

from toolbus.bus.inner import tenant_of
from toolbus.config.settings.quotas import LIMITS, quota_words
from toolbus.console.console import Console
from toolbus.console.elements import Child, Element, element, live
from toolbus.console.page import Page, PageRequest
from toolbus.console.widgets import table
from toolbus.core.values.errors import StoreError
from toolbus.policy.quotas.quotas import Quotas, QuotaUse


async def render(console: Console, request: PageRequest) -> Element:
    quotas = _quotas(console)
    try:
        used: Child = _used(await quotas.seen())
    except (StoreError, OSError, ValueError) as error:
        used = element("p", f"The counts cannot be read: {error}", class_="problem")
    return element(
        "div",
        element(
            "p",
            "The policy decides first. Each call is counted once. This process has counted, since its start:",
        ),
        live("quota-rules", _rules(quotas)),
        element("h2", "Used now"),
        element(
            "p",
            "The calls of all workers and replicas, with those that a process has reserved.",
        ),
        live("quota-uses", used),
    )


def _quotas(console: Console) -> Quotas:
    return tenant_of(console.bus).engine.enforcement.quotas


def _rules(quotas: Quotas) -> Element:
    rows: list[list[Child]] = [
        [
            element("code", rule.label),
            quota_words(rule.config),
            f"{quotas.totals[rule.label].calls:,}",
            f"{quotas.totals[rule.label].refused.total():,}",
        ]
        for rule in quotas.rules
    ]
    return table("Quotas", ("Quota", "Allows", "Counted", "Refused"), rows, is_named=True, number=2)


def _used(uses: list[QuotaUse]) -> Child:
    rows = [_row(one) for one in uses]
    columns = ("Quota", "Who", "Used", "Of", "Until")
    return (
        table("Used now", columns, rows, number=2) if rows else element("p", "Nothing yet.", class_="empty")
    )


def _row(one: QuotaUse) -> list[Child]:
    until = datetime.fromtimestamp(one.until, UTC).strftime("%H:%M:%S UTC")
    return [
        element("code", one.quota),
        f"{one.per} {one.subject}" if one.subject else f"no {one.per}",
        f"{one.used:,}",
        f"{one.most:,} {LIMITS[one.limit]}",
        "" if one.limit == "concurrent" else until,
    ]


# Counts change with every call: they are looked at, not announced.
PAGE = Page(
    path="quotas",
    title="Quotas",
    render=render,
    every=2.0,
    is_there=lambda console: bool(_quotas(console).rules),
)
