"""The part of `toolbus check` about the policy: a rule without effect is an error."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.text import Text

from toolbus.cli.output.policy_report import dead_json
from toolbus.cli.output.screen import Screen, exact
from toolbus.cli.policy_facts import Effects, effects, whole_catalog
from toolbus.cli.suggested import suggested
from toolbus.config import BusConfig
from toolbus.core.text.display import counted
from toolbus.core.values.records import JSON

if TYPE_CHECKING:
    from toolbus.bus.toolbus import Toolbus

NEXT_STEP = "fix or remove the rule; 'toolbus policy' shows what each rule decides"


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyReport:
    """What a policy does to the tools of the servers that are up."""

    rules: int
    effects: Effects

    @property
    def ok(self) -> bool:
        """Whether every rule may have an effect."""
        return all(dead.is_note for dead in self.effects.dead)

    def __str__(self) -> str:
        denied, asked = len(self.effects.denied), len(self.effects.asked)
        return f"{counted(self.rules, 'rule')}, {counted(denied, 'tool')} denied, {asked} asked about"


def policy_report(config: BusConfig, bus: "Toolbus", servers: Collection[str]) -> PolicyReport | None:
    """What the policy does to the tools of these servers; None without a policy."""
    if not config.policy:
        return None
    listed = {alias: bus.inventories[alias] for alias in servers if bus.servers[alias].state == "ready"}
    found = effects(config, whole_catalog(config, bus), listed)
    return PolicyReport(rules=len(config.policy), effects=found)


def print_policy(screen: Screen, report: PolicyReport) -> None:
    """Print the policy in one line, and each rule that has no effect."""
    screen.print(Text.assemble(("policy", "bold"), f": {report}"))
    rows: list[list[Text]] = []
    for dead in report.effects.dead:
        name, style = ("note", "dim") if dead.is_note else ("error", "red")
        rows.append([Text(name, style=style), Text(exact(str(dead)), style=style)])
    if not report.ok:
        rows.append([Text("next step", style="bold"), Text(suggested(NEXT_STEP))])
    screen.rows(rows, max_lines=None)


def policy_json(report: PolicyReport) -> JSON:
    """The same as JSON."""
    return {
        "ok": report.ok,
        "rules": report.rules,
        "denied": [str(spec.origin) for spec in report.effects.denied],
        "asked": [str(spec.origin) for spec in report.effects.asked],
        "problems": [{"rule": dead.label, **dead_json(dead)} for dead in report.effects.dead],
    }
