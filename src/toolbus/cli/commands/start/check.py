"""`toolbus check`: find problems of servers, and suggest fixes."""

import asyncio
import shutil
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from rich.text import Text

from toolbus.cli.commands.start.check_rules import (
    AuditReport,
    PolicyReport,
    administrator_json,
    audit_json,
    audit_report,
    is_refusal,
    policy_json,
    policy_report,
    print_administrator,
    print_audit,
    print_policy,
)
from toolbus.cli.commands.start.check_servers import (
    Severity,
    ToolProblem,
    dialect_problems,
    failed_step,
    name_problems,
    problem_and_step,
    steps_passed,
)
from toolbus.cli.commands.use.tools import held_line
from toolbus.cli.errors import FAILED, Usage
from toolbus.cli.options import SharedOptions
from toolbus.cli.output.screen import Screen, one_line, quoted, short_path, visible
from toolbus.cli.session import BUS, async_command, load_trusted_config, open_bus, selected_servers
from toolbus.cli.suggested import suggested
from toolbus.config import BusConfig, ServerConfig
from toolbus.config.launch.administrator import read_administrator
from toolbus.core.operation.events import Event, StateChanged, Warned
from toolbus.core.text.display import counted
from toolbus.core.values.errors import (
    AuthRequired,
    ConfigError,
    ConnectFailed,
    SecretMissing,
    TokenStoreError,
    ToolbusError,
)
from toolbus.core.values.freshness import KINDS
from toolbus.core.values.records import JSON, Inventory, ServerStatus, ToolSpec
from toolbus.lock.deception import Suspicion, suspicions
from toolbus.lock.drift import Held
from toolbus.lock.snapshot import offered
from toolbus.shape import DIALECTS

if TYPE_CHECKING:
    from toolbus.bus.toolbus import Toolbus

MAX_NOTES = 4
"""How many notes are printed per server."""
LABELS: dict[Severity, tuple[str, str]] = {
    "error": ("error", "red"),
    "warning": ("warning", "yellow"),
    "info": ("note", "dim"),
}
"""Label and style of each severity; a note needs no action."""
# Next steps for errors that name none, by the phase that failed.
NEXT_STEPS = {
    "configure": "fix its entry in the config",
    "spawn": "fix command, args or cwd in the config",
    "connect": "check that the server is running and the URL is right",
    "handshake": "check that it is an MCP server: run the command by hand and read its output",
    "list": "raise timeouts.list, or report it to the server's author",
    "call": "retry",
    "sign-in": "try again later",
}
NEXT_STEPS_URL = NEXT_STEPS | {"handshake": "check that this is the URL of an MCP server"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerReport:
    """What we know about one server."""

    config: ServerConfig
    status: ServerStatus
    inventory: Inventory
    tools: Sequence[ToolSpec]
    error: ToolbusError | None
    reviews: Sequence[ToolProblem] = ()
    """What a person should review: tools that are held, and signs of deception."""
    problems: Sequence[ToolProblem] = ()
    seconds: float | None = None
    """Time from start to the first list."""

    @property
    def ok(self) -> bool:
        return all(problem.severity != "error" for problem in self.problems)


class _StartupEvents:
    """Collects warnings and start times while servers start."""

    def __init__(self) -> None:
        self.warnings: dict[str, list[Warned]] = defaultdict(list)
        self._began: dict[str, float] = {}
        self.seconds: dict[str, float] = {}
        """Time from start to ready, by server."""

    def on_event(self, event: Event) -> None:
        match event:
            case Warned():
                self.warnings[event.server].append(event)
            case StateChanged(state="connecting"):
                self._began[event.server] = event.at
            case StateChanged(state="ready"):
                self.seconds.setdefault(event.server, event.at - self._began.get(event.server, event.at))
            case _:
                pass


@async_command
async def run(settings: SharedOptions, servers: Sequence[str], dialect: str | None) -> int:
    """Check these servers, by default all; exit 1 if the user must fix anything."""
    if dialect is not None and dialect not in DIALECTS:
        raise Usage(f"--dialect {dialect!r}: expected one of {', '.join(DIALECTS)}")
    screen, config = Screen(settings), load_trusted_config(settings)
    try:
        return await _check(screen, config, selected_servers(config, servers), dialect)
    except ConfigError as error:  # nothing was started, perhaps because of what an administrator requires
        if is_refusal(error) and not screen.as_json:
            with suppress(ConfigError):
                print_administrator(screen, read_administrator(), [])
        raise


async def _check(screen: Screen, config: BusConfig, selected: Sequence[str], dialect: str | None) -> int:
    events = _StartupEvents()
    async with open_bus(screen, config, selected, events.on_event) as bus:
        await bus.calls.refresh(*KINDS)
        for event in BUS.get().startups(selected):
            events.on_event(event)
        suspect = suspicions({alias: offered(bus.inventories[alias]) for alias in selected})
        reports = {alias: _server_report(bus, config, alias, suspect) for alias in selected}
        policy = policy_report(config, bus, selected)
        errors = await asyncio.gather(
            *(failed_step(config, alias, reports[alias].error) for alias in selected)
        )
        reports = {
            alias: replace(reports[alias], error=error) for alias, error in zip(selected, errors, strict=True)
        }
    audit = audit_report(config)  # after the bus let go of it
    # After the servers have stopped: some warnings come then.
    reports = {alias: _with_problems(report, config, events, dialect) for alias, report in reports.items()}
    ok = all(report is None or report.ok for report in (*reports.values(), policy, audit))
    administrator = read_administrator()
    refused = [alias for alias, report in reports.items() if is_refusal(report.error)]
    if screen.as_json:
        found = {alias: _json(report) for alias, report in reports.items()}
        rules = administrator_json(administrator, refused)
        also = {} if policy is None else {"policy": policy_json(policy)}
        also |= {} if audit is None else {"audit": audit_json(audit)}
        screen.json({"ok": ok, "file": config.file, **rules, "servers": found, **also})
    else:
        print_administrator(screen, administrator, refused)
        _print_all(screen, list(reports.values()), policy, audit)
        _print_summary(screen, list(reports.values()), config.file, ok=ok, ignored=len(administrator.ignored))
    return 0 if ok else FAILED


def _server_report(
    bus: "Toolbus", config: BusConfig, alias: str, suspect: Sequence[Suspicion]
) -> ServerReport:
    held = [one for one in bus.held.values() if one.server == alias and one.kind != "launch"]
    doubts = [one for one in suspect if one.server == alias]
    return ServerReport(
        config=config.servers[alias],
        status=bus.servers[alias],
        inventory=bus.inventories[alias],
        tools=[spec for spec in bus.catalog if spec.origin.server == alias],
        error=bus.failures.get(alias),
        reviews=[*map(_held_problem, held), *map(_suspicion_problem, doubts)],
    )


def _with_problems(
    report: ServerReport, config: BusConfig, events: _StartupEvents, dialect: str | None
) -> ServerReport:
    alias = report.config.alias
    warnings = [_warning_problem(event) for event in events.warnings[alias]]
    failure = _failure_problems(report.error, report.config) if report.error else []
    # A server whose tools cannot be listed is connected but useless.
    unlisted = [note for note in report.inventory.notes if note.startswith("tools could not be listed")]
    warnings = [
        replace(warning, severity="error") if any(note in warning.message for note in unlisted) else warning
        for warning in warnings
    ]
    is_explained = isinstance(report.error, ConnectFailed) and bool(
        report.error.exit_code and report.error.stderr
    )
    if failure and not is_explained and any("standard output" in warning.message for warning in warnings):
        fix = "check that it is an MCP server: it prints text to standard output, which is for messages only"
        failure = [replace(failure[0], fix=fix)]
    renamed = name_problems(report.tools, config, report.config)
    converted = dialect_problems(report.tools, dialect)
    found = dict.fromkeys([*failure, *report.reviews, *warnings, *renamed, *converted])
    advised = [replace(problem, fix=suggested(problem.fix)) for problem in found]
    problems = sorted(advised, key=lambda problem: list(LABELS).index(problem.severity))
    return replace(report, problems=problems, seconds=events.seconds.get(alias))


def _failure_problems(error: ToolbusError, config: ServerConfig) -> list[ToolProblem]:
    mistakes = error.mistakes if isinstance(error, ConfigError) else [error]
    return [_failure_problem(mistake, config) for mistake in mistakes]


def _failure_problem(error: ToolbusError, config: ServerConfig) -> ToolProblem:
    match error:
        case AuthRequired(phase="sign-in"):
            # It begins with what failed, or with what is missing.
            message, fix = problem_and_step(error, config)
            return ToolProblem(severity="error", message=message, fix=fix)
        case ConnectFailed():
            following = (NEXT_STEPS if config.url is None else NEXT_STEPS_URL)[error.phase]
            return ToolProblem(
                severity="error",
                message=f"{error.phase} failed: {error.cause}",
                fix=error.hint or ("read its stderr output" if error.stderr else following),
                stderr=error.stderr,
            )
        case ConfigError():
            message, _, fix = error.problem.partition("; ")
            where = f"{error.key}: " if error.key else ""
            if is_refusal(error):
                where = f"not permitted by {where.removesuffix(': ')} in {error.file}: "
            return ToolProblem(
                severity="error", message=where + message, fix=fix or "fix its entry in the config"
            )
        case SecretMissing():
            message, _, fix = error.problem.partition("; ")
            return ToolProblem(
                severity="error", message=message, fix=fix or "fix the reference in the config"
            )
        case TokenStoreError():
            message, _, fix = str(error).partition("; ")
            return ToolProblem(severity="error", message=message, fix=fix)
        case _:
            message = getattr(error, "problem", None) or str(error)
            return ToolProblem(severity="error", message=message, fix="fix its entry in the config")


def _held_problem(one: Held) -> ToolProblem:
    message, _, fix = held_line(one).partition("; ")
    return ToolProblem(severity="error", message=message, fix=fix)


def _suspicion_problem(one: Suspicion) -> ToolProblem:
    what = f"{quoted(one.tool)}: " if one.tool else "instructions: "
    return ToolProblem(
        severity="warning",
        message=f"{what}{one.reason}",
        fix="read its definition (toolbus tools --full); exclude it if you do not trust it",
    )


def _warning_problem(event: Warned) -> ToolProblem:
    if event.tool:
        message, fix = (
            f"tool {quoted(event.tool)}: {event.message}",
            "report it to the server's author; its other tools work",
        )
    elif event.message.startswith("unknown key"):
        message, _, hint = event.message.partition("; ")
        fix = hint or "ignore it, unless it is misspelled"
    elif event.message.startswith("include:"):
        message, fix = event.message, "fix the pattern: it is matched against the server's own tool names"
    else:
        message, fix = event.message, "report it to the server's author"
    return ToolProblem(severity="warning", message=message, fix=fix)


def _json(report: ServerReport) -> JSON:
    status = report.status
    return {
        "ok": report.ok,
        "state": status.state,
        "era": status.era,
        "protocol": status.protocol,
        "latency_ms": None if report.seconds is None else round(report.seconds * 1000, 1),
        "tools": status.tools,
        "steps": [{"step": label, "outcome": outcome} for label, outcome in _stages_passed(report)],
        "problems": [
            {"severity": problem.severity, "message": problem.message + problem.tail, "fix": problem.fix}
            for problem in report.problems
        ],
    }


def _print_all(
    screen: Screen, reports: Sequence[ServerReport], policy: PolicyReport | None, audit: AuditReport | None
) -> None:
    for report in sorted(reports, key=lambda report: report.ok):  # failures first
        _print_report(screen, report)
    if policy is not None:
        print_policy(screen, policy)
    if audit is not None:
        print_audit(screen, audit)


def _print_summary(
    screen: Screen, reports: Sequence[ServerReport], file: str | None, *, ok: bool, ignored: int
) -> None:
    """Print how many servers are up, and what is left to do; `ignored` files of administrators."""
    where = f" in {short_path(file)}" if file else ""
    down = sum(not report.ok for report in reports)
    up = len(reports) - down
    counts = ", ".join(f"{count} {label}" for count, label in ((up, "ready"), (down, "failed")) if count)
    warnings = sum(problem.severity == "warning" for report in reports for problem in report.problems)
    if not ok:
        act, style = "fix the errors above", "bold red"
    elif ignored:
        also = f"; {counted(warnings, 'warning')} above" if warnings else ""
        act, style = f"{counted(ignored, 'file')} of the administrator to fix{also}", "yellow"
    elif warnings:
        act, style = f"nothing to fix; {counted(warnings, 'warning')} above", "yellow"
    else:
        act, style = "nothing to fix", "green"
    screen.summary(Text.assemble(f"{counted(len(reports), 'server')}{where}: {counts}; ", (act, style)))


def _print_report(screen: Screen, report: ServerReport) -> None:
    label, style = ("ok", "green") if report.ok else ("failed", "bold red")
    screen.print(Text.assemble((report.config.alias, "bold"), "  ", (label, style)))
    rows = [[Text(label, style="dim"), Text(one_line(text))] for label, text in _stages_passed(report)]
    infos = [problem for problem in report.problems if problem.severity == "info"]
    shown = [problem for problem in report.problems if problem not in infos[MAX_NOTES:]]
    # Print a step shared by several problems once, below the last one.
    last = {_fix_group(problem): problem for problem in shown}
    for problem in shown:
        label, style = LABELS[problem.severity]
        rows.append([Text(label, style=style), Text(one_line(problem.message), style=style)])
        rows += [[Text("stderr", style="dim"), Text(visible(line))] for line in problem.stderr]
        if problem.fix and problem.severity != "info" and last[_fix_group(problem)] is problem:
            rows.append([Text("next step", style="bold"), Text(problem.fix)])
    if len(infos) > MAX_NOTES:
        more = f"and {len(infos) - MAX_NOTES} more; --json lists them"
        rows.append([Text("note", style="dim"), Text(more, style="dim")])
    screen.rows(rows, max_lines=None)


def _fix_group(problem: ToolProblem) -> str:
    return problem.fix.partition("; ")[0]


def _stages_passed(report: ServerReport) -> Iterator[tuple[str, str]]:
    """The stages that the server passed."""
    config, status, error = report.config, report.status, report.error
    phase = error.phase if isinstance(error, ConnectFailed) else "configure" if error else None
    if phase == "configure":
        return
    if config.command is not None:
        if phase == "spawn":
            return
        path = shutil.which(config.command)
        yield (
            "command",
            f"{config.command}: found" + (f" ({path})" if path and path != config.command else ""),
        )
        yield "process", "started"
    elif phase != "connect":
        yield "URL", "reached"
        if isinstance(error, AuthRequired) and phase == "sign-in":
            yield from steps_passed(error)
        if status.state == "ready":
            sends = config.auth is not None or any(name.lower() == "authorization" for name in config.headers)
            yield "authorization", "accepted" if sends else "none sent, none required"
    if status.protocol and status.state == "ready":
        yield "protocol", f"{status.protocol} ({status.era})"
    if report.seconds is not None:
        stock = report.inventory
        listed = f"{counted(len(stock.tools), 'tool')} on {counted(stock.pages, 'page')}"
        kept = "" if status.tools == len(stock.tools) else f", {status.tools} after include and exclude"
        yield "list", f"{listed}{kept}, {report.seconds:.2f} s after start"
