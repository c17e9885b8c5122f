"""The part of `toolbus check` about rules: the administrator's file, the policy and the audit log."""

import os
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.text import Text

from toolbus.audit.chain import Chain
from toolbus.cli.output.policy_report import dead_json
from toolbus.cli.output.screen import Screen, exact, one_line, short_path
from toolbus.cli.policy_facts import Effects, effects, whole_catalog
from toolbus.cli.suggested import suggested
from toolbus.config import BusConfig
from toolbus.config.launch.administrator import FILE_NAME, Administrator
from toolbus.core.text.display import counted
from toolbus.core.values.errors import AuditFailed, ConfigError, ToolbusError
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


def is_refusal(error: ToolbusError | None) -> bool:
    """Whether that is why the administrator does not permit a server."""
    return isinstance(error, ConfigError) and os.path.basename(error.file or "") == FILE_NAME


def administrator_json(administrator: Administrator, refused: Sequence[str]) -> dict[str, JSON]:
    """What `--json` shows; empty if there is no file."""
    if not administrator.files and not administrator.ignored:
        return {}
    ignored = [{"file": one.path, "reason": one.reason, "fix": one.fix} for one in administrator.ignored]
    files = [file.path for file in administrator.files]
    return {"administrator": {"files": files, "ignored": ignored, "refused": list(refused)}}


def print_administrator(screen: Screen, administrator: Administrator, refused: Sequence[str]) -> None:
    """Print which files there are, whether they count, and which servers they refuse."""
    if not administrator.files and not administrator.ignored:
        return
    screen.print(Text("administrator", style="bold"))
    rows = [[Text("rules", style="dim"), Text(one_line(file.path))] for file in administrator.files]
    if refused:
        rows.append([Text("refused", style="red"), Text(one_line(", ".join(refused)))])
    for one in administrator.ignored:
        label, message = Text("warning", style="yellow"), f"{one.path} is not used: {one.reason}"
        rows.append([label, Text(one_line(message), style="yellow")])
        rows.append([Text("next step", style="bold"), Text(f"to make it count: {one.fix}")])
    screen.rows(rows, max_lines=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditReport:
    """Whether a trail can be written, and why not."""

    file: str
    error: AuditFailed | None

    @property
    def ok(self) -> bool:
        return self.error is None


def audit_report(config: BusConfig) -> AuditReport | None:
    """Try the trail of a config, without adding to it; None if it has none."""
    if config.audit is None:
        return None
    try:
        Chain(config.audit).check()
    except AuditFailed as error:
        return AuditReport(file=config.audit.file, error=error)
    return AuditReport(file=config.audit.file, error=None)


def print_audit(screen: Screen, report: AuditReport) -> None:
    """Print the trail in one line, or what is wrong with it."""
    if report.error is None:
        screen.print(Text.assemble(("audit", "bold"), f": {exact(short_path(report.file))}, can be written"))
        return
    screen.print(Text.assemble(("audit", "bold"), "  ", ("failed", "bold red")))
    message = f"{report.error.path}: {report.error.problem}"
    rows = [[Text("error", style="red"), Text(exact(message), style="red")]]
    rows.append([Text("next step", style="bold"), Text(exact(report.error.step))])
    screen.rows(rows, max_lines=None)


def audit_json(report: AuditReport) -> JSON:
    """The same as JSON."""
    found: dict[str, JSON] = {"ok": report.ok, "file": report.file}
    if report.error is not None:
        found |= {"file": report.error.path, "problem": report.error.problem, "fix": report.error.step}
    return found
