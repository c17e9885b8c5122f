"""Reports of `toolbus check`: on servers, the policy, the audit log and an administrator's rules."""

import asyncio
import os
import shlex
import shutil
from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from toolbus.audit.chain import Chain
from toolbus.bus.inner import calls_of, tenant_of
from toolbus.bus.rules.effects import Effects, effects, whole_catalog
from toolbus.cli.command import CommandResult, Invocation
from toolbus.cli.commands.servers.check_servers import (
    Severity,
    ToolProblem,
    dialect_problems,
    failed_step,
    name_problems,
    problem_and_step,
    script_problems,
    steps_passed,
)
from toolbus.cli.commands.use.tools import held_line
from toolbus.cli.errors import FAILED
from toolbus.cli.options import suggested
from toolbus.cli.output.policy_report import dead_json
from toolbus.cli.output.screen import Cell, Screen, one_line, picked, quoted, short_path, visible
from toolbus.cli.session import BUS
from toolbus.config import BusConfig, ServerConfig
from toolbus.config.find import tracked_local
from toolbus.config.launch.administrator import FILE_NAME, Administrator, read_administrator
from toolbus.config.registry import unpinned
from toolbus.config.script_tools.entry import SCRIPTS
from toolbus.config.secrets.redact import names_credential
from toolbus.connect.opening.failure import CLIENTS_ONLY, awaits_client
from toolbus.core.operation.events import Event, StateChanged, Warned
from toolbus.core.text.display import counted
from toolbus.core.text.text import exact
from toolbus.core.values.errors import (
    AuditFailed,
    AuthRequired,
    ConfigError,
    ConnectFailed,
    SecretMissing,
    TokenStoreError,
    ToolbusError,
)
from toolbus.core.values.freshness import KINDS
from toolbus.core.values.records import JSON, Inventory, ServerStatus, ToolSpec
from toolbus.lock.approval import offered
from toolbus.lock.deception import Suspicion, suspicions
from toolbus.lock.drift import HeldTool

if TYPE_CHECKING:
    from toolbus.bus.toolbus import Toolbus

MAX_NOTES = 4
"""The maximum number of notes printed per server."""
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
    """The findings about one server."""

    config: ServerConfig
    status: ServerStatus
    inventory: Inventory
    tools: Sequence[ToolSpec]
    error: ToolbusError | None
    reviews: Sequence[ToolProblem] = ()
    """Points for a person to review: tools on hold, and signs of deception."""
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


async def checked(
    own: Invocation, selected: Sequence[str], dialect: str | None, wait: float
) -> CommandResult:
    """Check these servers and the rules about them."""
    screen, config, events = own.screen, own.config, _StartupEvents()
    async with own.bus(selected, events.on_event, wait=wait) as bus:
        await calls_of(bus).refresh(*KINDS)
        for event in BUS.get().startups(selected):
            events.on_event(event)
        suspect = suspicions({alias: offered(bus.inventories[alias]) for alias in selected})
        reports = {alias: _server_report(bus, config, alias, suspect) for alias in selected}
        if SCRIPTS in reports:
            reviews = [*reports[SCRIPTS].reviews, *await script_problems(tenant_of(bus), config)]
            reports[SCRIPTS] = replace(reports[SCRIPTS], reviews=reviews)
        policy, hooks = _policy_report(config, bus, selected), tenant_of(bus).approvals.held_stations
        errors = await asyncio.gather(
            *(failed_step(config, alias, reports[alias].error) for alias in selected)
        )
        reports = {
            alias: replace(reports[alias], error=error) for alias, error in zip(selected, errors, strict=True)
        }
    tracked = tracked_local(config)
    audit = _audit_report(config)  # after the bus let go of it
    # After the servers have stopped: some warnings come then.
    reports = {alias: _with_problems(report, config, events, dialect) for alias, report in reports.items()}
    ok = all(report is None or report.ok for report in (*reports.values(), policy, audit))
    ok = ok and (hooks is None or hooks[0] != "block")
    administrator = read_administrator()
    refused = [alias for alias, report in reports.items() if is_refusal(report.error)]

    def lines() -> None:
        print_administrator(screen, administrator, refused)
        for report in sorted(reports.values(), key=lambda report: report.ok):  # failures first
            _print_report(screen, report)
        if policy is not None:
            _print_policy(screen, policy)
        if audit is not None:
            _print_audit(screen, audit)
        if hooks is not None:
            screen.line(("hooks", "bold"), "  ", ("on hold", "bold red"))
            screen.rows([[("error", "red"), one_line(hooks[1])]], max_lines=None)
        if tracked is not None:
            screen.line((visible(f"warning: {tracked}"), "yellow"))
        _print_summary(screen, list(reports.values()), config.file, ok=ok, ignored=len(administrator.ignored))

    document = {
        "ok": ok,
        "file": config.file,
        **_administrator_json(administrator, refused),
        "servers": {alias: _json(report) for alias, report in reports.items()},
        **({} if policy is None else {"policy": _policy_json(policy)}),
        **({} if audit is None else {"audit": _audit_json(audit)}),
        **({} if hooks is None else {"hooks": {"mode": hooks[0], "held": hooks[1]}}),
        **({} if tracked is None else {"tracked": tracked}),
    }
    return CommandResult(document, lines, 0 if ok else FAILED)


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
    unpinned = _unpinned_problems(report.config)
    found = dict.fromkeys([*failure, *report.reviews, *warnings, *unpinned, *renamed, *converted])
    advised = [replace(problem, fix=suggested(problem.fix)) for problem in found]
    problems = sorted(advised, key=lambda problem: list(LABELS).index(problem.severity))
    return replace(report, problems=problems, seconds=events.seconds.get(alias))


def _unpinned_problems(config: ServerConfig) -> list[ToolProblem]:
    """A warning if another version may run than the one from the registry."""
    if (reason := unpinned(config)) is None:
        return []
    fix = f"name an exact version in its entry, or run toolbus update {shlex.quote(config.alias)}"
    return [ToolProblem(severity="warning", message=reason, fix=fix)]


def _failure_problems(error: ToolbusError, config: ServerConfig) -> list[ToolProblem]:
    mistakes = error.mistakes if isinstance(error, ConfigError) else [error]
    return [_failure_problem(mistake, config) for mistake in mistakes]


def _failure_problem(error: ToolbusError, config: ServerConfig) -> ToolProblem:
    match error:
        case AuthRequired() if awaits_client(error):
            return ToolProblem(severity="info", message=CLIENTS_ONLY)
        case AuthRequired(phase="sign-in"):
            # It begins with what failed, or with what is missing.
            message, fix = problem_and_step(error, config)
        case ConnectFailed():
            following = (NEXT_STEPS if config.command is not None else NEXT_STEPS_URL)[error.phase]
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
            message, fix = where + message, fix or "fix its entry in the config"
        case SecretMissing():
            message, _, fix = error.problem.partition("; ")
            fix = fix or "fix the reference in the config"
        case TokenStoreError():
            message, _, fix = str(error).partition("; ")
        case _:
            message = getattr(error, "problem", None) or str(error)
            fix = "fix its entry in the config"
    return ToolProblem(severity="error", message=message, fix=fix)


def _held_problem(one: HeldTool) -> ToolProblem:
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
    elif event.message.startswith(("openapi.", "override:", "tools.")):
        message, fix = event.message, "fix it in the config"
    else:
        message, fix = event.message, "report it to the server's author"
    return ToolProblem(severity="warning", message=message, fix=fix)


def _json(report: ServerReport) -> JSON:
    status = report.status
    return {
        "ok": report.ok,
        **picked(status, "state era protocol"),
        "latency_ms": None if report.seconds is None else round(report.seconds * 1000, 1),
        "tools": status.tools,
        "steps": [{"step": label, "outcome": outcome} for label, outcome in _stages_passed(report)],
        "problems": [
            {"severity": problem.severity, "message": problem.message + problem.tail, "fix": problem.fix}
            for problem in report.problems
        ],
    }


def _print_summary(
    screen: Screen, reports: Sequence[ServerReport], file: str | None, *, ok: bool, ignored: int
) -> None:
    """Print the number of ready and failed servers, and the next step; `ignored` files of administrators."""
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
    screen.summary(f"{counted(len(reports), 'server')}{where}: {counts}; ", (act, style))


def _print_report(screen: Screen, report: ServerReport) -> None:
    label, style = ("ok", "green") if report.ok else ("failed", "bold red")
    screen.line((report.config.alias, "bold"), "  ", (label, style))
    rows: list[list[Cell]] = [[(label, "dim"), one_line(text)] for label, text in _stages_passed(report)]
    infos = [problem for problem in report.problems if problem.severity == "info"]
    shown = [problem for problem in report.problems if problem not in infos[MAX_NOTES:]]
    # Print a step shared by several problems once, below the last one.
    last = {_fix_group(problem): problem for problem in shown}
    for problem in shown:
        label, style = LABELS[problem.severity]
        rows.append([(label, style), (one_line(problem.message), style)])
        rows.extend([("stderr", "dim"), visible(line)] for line in problem.stderr)
        if problem.fix and problem.severity != "info" and last[_fix_group(problem)] is problem:
            rows.append([("next step", "bold"), problem.fix])
    if len(infos) > MAX_NOTES:
        more = f"and {len(infos) - MAX_NOTES} more; --json lists them"
        rows.append([("note", "dim"), (more, "dim")])
    screen.rows(rows, max_lines=None)


def _fix_group(problem: ToolProblem) -> str:
    return problem.fix.partition("; ")[0]


def _stages_passed(report: ServerReport) -> Iterator[tuple[str, str]]:
    """The stages that the server passed."""
    config, status, error = report.config, report.status, report.error
    phase = error.phase if isinstance(error, ConnectFailed) else "configure" if error else None
    if phase == "configure":
        return
    if awaits_client(error):
        yield "authorization server", "found"
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
        yield from _stages_by_url(report)
    if status.protocol and status.state == "ready":
        yield "protocol", f"{status.protocol} ({status.era})"
    if report.seconds is not None:
        stock = report.inventory
        listed = f"{counted(len(stock.tools), 'tool')} on {counted(stock.pages, 'page')}"
        kept = "" if status.tools == len(stock.tools) else f", {status.tools} after include and exclude"
        yield "list", f"{listed}{kept}, {report.seconds:.2f} s after start"


def _stages_by_url(report: ServerReport) -> Iterator[tuple[str, str]]:
    config, error, is_ready = report.config, report.error, report.status.state == "ready"
    if config.openapi is None:
        yield "URL", "reached"
    elif is_ready:
        yield "document", "read"
    if isinstance(error, AuthRequired) and error.phase == "sign-in":
        yield from steps_passed(error)
    if is_ready and config.openapi is not None:
        yield "authorization", _sent_to_api(config)
    elif is_ready:
        sends = config.auth is not None or any(map(names_credential, config.headers))
        yield "authorization", "accepted" if sends else "none sent, none required"


def _sent_to_api(config: ServerConfig) -> str:
    """The credentials that calls of an API have; a check sends it no request that would try them."""
    assert config.openapi is not None
    sent = [
        *(["auth"] if config.auth is not None else []),
        *(f"header {name}" for name in (*config.headers, *config.forward_headers)),
        *(f"query parameter {name}" for name in config.openapi.query),
    ]
    return f"{', '.join(sent)}: sent with each call, not tried yet" if sent else "none is sent with calls"


# The rules

NEXT_STEP = "fix or remove the rule; 'toolbus policy' shows what each rule decides"


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyReport:
    """The effects of a policy on the tools of ready servers."""

    rules: int
    effects: Effects

    @property
    def ok(self) -> bool:
        """Whether every rule may have an effect."""
        return all(dead.is_note for dead in self.effects.dead)

    def __str__(self) -> str:
        denied, asked = len(self.effects.denied), len(self.effects.asked)
        return f"{counted(self.rules, 'rule')}, {counted(denied, 'tool')} denied, {asked} asked about"


def _policy_report(config: BusConfig, bus: "Toolbus", servers: Collection[str]) -> PolicyReport | None:
    """The effects of the policy on the tools of these servers; None without a policy."""
    if not config.policy:
        return None
    listed = {alias: bus.inventories[alias] for alias in servers if bus.servers[alias].state == "ready"}
    found = effects(config, whole_catalog(config, bus), listed)
    return PolicyReport(rules=len(config.policy), effects=found)


def _print_policy(screen: Screen, report: PolicyReport) -> None:
    """Print the policy in one line, and each rule that has no effect."""
    screen.line(("policy", "bold"), f": {report}")
    rows: list[list[Cell]] = []
    for dead in report.effects.dead:
        name, style = ("note", "dim") if dead.is_note else ("error", "red")
        rows.append([(name, style), (exact(str(dead)), style)])
    if not report.ok:
        rows.append([("next step", "bold"), suggested(NEXT_STEP)])
    screen.rows(rows, max_lines=None)


def _policy_json(report: PolicyReport) -> JSON:
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


def _administrator_json(administrator: Administrator, refused: Sequence[str]) -> dict[str, JSON]:
    """The administrator's part of `--json`; empty if there is no file."""
    if not administrator.files and not administrator.ignored:
        return {}
    ignored = [{"file": one.path, **picked(one, "reason fix")} for one in administrator.ignored]
    files = [file.path for file in administrator.files]
    return {"administrator": {"files": files, "ignored": ignored, "refused": list(refused)}}


def print_administrator(screen: Screen, administrator: Administrator, refused: Sequence[str]) -> None:
    """Print which files there are, whether they count, and which servers they refuse."""
    if not administrator.files and not administrator.ignored:
        return
    screen.line(("administrator", "bold"))
    rows: list[list[Cell]] = [[("rules", "dim"), one_line(file.path)] for file in administrator.files]
    if refused:
        rows.append([("refused", "red"), one_line(", ".join(refused))])
    for one in administrator.ignored:
        message = one_line(f"{one.path} is not used: {one.reason}")
        rows.append([("warning", "yellow"), (message, "yellow")])
        rows.append([("next step", "bold"), f"to make it count: {one.fix}"])
    screen.rows(rows, max_lines=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditReport:
    """Whether a trail can be written, and why not."""

    file: str
    error: AuditFailed | None

    @property
    def ok(self) -> bool:
        return self.error is None


def _audit_report(config: BusConfig) -> AuditReport | None:
    """Try the trail of a config, without adding to it; None if it has none."""
    if config.audit is None:
        return None
    try:
        Chain(config.audit).check()
    except AuditFailed as error:
        return AuditReport(file=config.audit.file, error=error)
    return AuditReport(file=config.audit.file, error=None)


def _print_audit(screen: Screen, report: AuditReport) -> None:
    """Print the trail in one line, or its problem."""
    if report.error is None:
        screen.line(("audit", "bold"), f": {exact(short_path(report.file))}, can be written")
        return
    screen.line(("audit", "bold"), "  ", ("failed", "bold red"))
    message = f"{report.error.path}: {report.error.problem}"
    steps = [("next step", "bold"), exact(report.error.step)]
    screen.rows([[("error", "red"), (exact(message), "red")], steps], max_lines=None)


def _audit_json(report: AuditReport) -> JSON:
    """The same as JSON."""
    found: dict[str, JSON] = {"ok": report.ok, "file": report.file}
    if report.error is not None:
        found |= {"file": report.error.path, "problem": report.error.problem, "fix": report.error.step}
    return found
