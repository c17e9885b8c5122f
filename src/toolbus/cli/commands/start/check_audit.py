"""The part of `toolbus check` about the audit trail: one that cannot be written refuses every call."""

from dataclasses import dataclass

from rich.text import Text

from toolbus.audit.chain import Chain
from toolbus.cli.output.screen import Screen, exact, short_path
from toolbus.config import BusConfig
from toolbus.core.values.errors import AuditFailed
from toolbus.core.values.records import JSON


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
