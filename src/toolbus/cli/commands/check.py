"""`toolbus check`: what is wrong with a server, in plain words, and what to do about it."""

import shutil
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from rich.text import Text

from toolbus.cli.options import Settings
from toolbus.cli.outcome import FAILED
from toolbus.cli.output.screen import Screen, near, one_line, quoted, visible
from toolbus.cli.session import checked, configured, opened
from toolbus.cli.session import run as run_async
from toolbus.config import BusConfig, ServerConfig
from toolbus.core.errors import ConfigError, ConnectFailed, SecretMissing, ToolbusError
from toolbus.core.events import Event, StateChanged, Warned
from toolbus.core.records import JSON, Inventory, ServerStatus, ToolSpec
from toolbus.shape import DIALECTS, Definition, converted, spelt

if TYPE_CHECKING:
    from toolbus.bus.toolbus import Toolbus

LOSSY = ("widened", "permissive")
INFOS = 4
"""How many remarks a person is shown of one server."""
Severity = Literal["error", "warning", "info"]
STYLES: dict[Severity, tuple[str, str]] = {
    "error": ("error", "red"),
    "warning": ("warning", "yellow"),
    "info": ("note", "dim"),
}
"""How each is called on the screen, and in which style: nothing needs to be done about a note."""
# What to do where the error itself does not say it, by the phase that failed.
NEXT = {
    "configure": "fix its entry in the config",
    "spawn": "fix command, args or cwd in the config",
    "connect": "check that the server is running and the URL is right",
    "handshake": "check that it is an MCP server: run the command by hand and read its output",
    "list": "raise timeouts.list, or report it to the server's author",
    "call": "retry",
}
NEXT_OF_URL = NEXT | {"handshake": "check that this is the URL of an MCP server"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One finding; an error is what a user must fix."""

    severity: Severity
    message: str
    fix: str = ""
    stderr: tuple[str, ...] = ()
    """The last lines that the server wrote there."""

    @property
    def tail(self) -> str:
        """Those lines as the end of the message."""
        return f"; on stderr: {' | '.join(self.stderr)}" if self.stderr else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """All that is known about one server."""

    config: ServerConfig
    status: ServerStatus
    inventory: Inventory
    tools: Sequence[ToolSpec]
    error: ToolbusError | None
    problems: Sequence[Problem] = ()
    seconds: float | None = None
    """From the start to the first list."""

    @property
    def ok(self) -> bool:
        return all(problem.severity != "error" for problem in self.problems)


class _Heard:
    """What servers told while they were started."""

    def __init__(self) -> None:
        self.warnings: dict[str, list[Warned]] = defaultdict(list)
        self._began: dict[str, float] = {}
        self._took: dict[str, float] = {}

    def hear(self, event: Event) -> None:
        match event:
            case Warned():
                self.warnings[event.server].append(event)
            case StateChanged(state="connecting"):
                self._began[event.server] = event.at
            case StateChanged(state="ready"):
                self._took.setdefault(event.server, event.at - self._began.get(event.server, event.at))
            case _:
                pass

    def seconds(self, alias: str) -> float | None:
        return self._took.get(alias)


def run(settings: Settings, servers: Sequence[str]) -> int:
    """Examine these servers, by default all; exit 1 if a user must fix anything."""
    return run_async(lambda: _checked(settings, servers))


async def _checked(settings: Settings, servers: Sequence[str]) -> int:
    screen, config, heard = Screen(settings), configured(settings), _Heard()
    wanted = checked(config, servers)
    async with opened(screen, config, wanted, heard.hear) as bus:
        findings = {alias: _finding(bus, config, alias) for alias in wanted}
    # Only now: some warnings come with the end of a server.
    findings = {alias: _judged(finding, config, heard) for alias, finding in findings.items()}
    ok = all(finding.ok for finding in findings.values())
    if screen.as_json:
        found = {alias: _json(finding) for alias, finding in findings.items()}
        screen.json({"ok": ok, "file": config.file, "servers": found})
    else:
        _show_all(screen, list(findings.values()), config.file)
    return 0 if ok else FAILED


def _finding(bus: "Toolbus", config: BusConfig, alias: str) -> Finding:
    return Finding(
        config=config.servers[alias],
        status=bus.servers[alias],
        inventory=bus.inventories[alias],
        tools=[spec for spec in bus.catalog if spec.origin.server == alias],
        error=bus.failures.get(alias),
    )


def _judged(finding: Finding, config: BusConfig, heard: _Heard) -> Finding:
    alias = finding.config.alias
    warnings = [_warning(event) for event in heard.warnings[alias]]
    failure = _failures(finding.error, finding.config) if finding.error else []
    # A server whose tools cannot be listed is connected, and of no use.
    unlisted = [note for note in finding.inventory.notes if note.startswith("tools could not be listed")]
    warnings = [
        replace(warning, severity="error") if any(note in warning.message for note in unlisted) else warning
        for warning in warnings
    ]
    if failure and any("standard output" in warning.message for warning in warnings):
        fix = "check that it is an MCP server: it prints text to standard output, which is for messages only"
        failure = [replace(failure[0], fix=fix)]
    renamed = _renamed(finding.tools, config, finding.config)
    found = dict.fromkeys([*failure, *warnings, *renamed, *_lost(finding.tools)])
    problems = sorted(found, key=lambda problem: list(STYLES).index(problem.severity))
    return replace(finding, problems=problems, seconds=heard.seconds(alias))


def _failures(error: ToolbusError, config: ServerConfig) -> list[Problem]:
    mistakes = error.mistakes if isinstance(error, ConfigError) else [error]
    return [_failure(mistake, config) for mistake in mistakes]


def _failure(error: ToolbusError, config: ServerConfig) -> Problem:
    match error:
        case ConnectFailed():
            following = (NEXT if config.url is None else NEXT_OF_URL)[error.phase]
            return Problem(
                severity="error",
                message=f"{error.phase} failed: {error.cause}",
                fix=error.hint or ("read its stderr output" if error.stderr else following),
                stderr=error.stderr,
            )
        case ConfigError():
            message, _, fix = error.problem.partition("; ")
            where = f"{error.key}: " if error.key else ""
            return Problem(
                severity="error", message=where + message, fix=fix or "fix its entry in the config"
            )
        case SecretMissing():
            message, _, fix = error.problem.partition("; ")
            return Problem(severity="error", message=message, fix=fix or "fix the reference in the config")
        case _:
            message = getattr(error, "problem", None) or str(error)
            return Problem(severity="error", message=message, fix="fix its entry in the config")


def _warning(event: Warned) -> Problem:
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
    return Problem(severity="warning", message=message, fix=fix)


def _renamed(tools: Sequence[ToolSpec], config: BusConfig, server: ServerConfig) -> Iterator[Problem]:
    """Names that are not what the template gives: illegal, too long, or taken."""
    word = server.alias if server.prefix is None else server.prefix
    for spec in tools:
        if spec.name != spelt(config.naming, word, spec.origin.tool):
            yield Problem(
                severity="info",
                message=f"tool {quoted(spec.origin.tool)} is exposed as {spec.name!r}",
                fix="nothing to do: models accept unique names of up to 64 characters, A-Z a-z 0-9 _ -",
            )


def _lost(tools: Sequence[ToolSpec]) -> Iterator[Problem]:
    """Tools that a provider would refuse as they were sent, or that lose something in its dialect."""
    for dialect in DIALECTS:
        found: dict[str, Definition] = {}
        for spec in tools:
            try:
                found[spec.name] = converted(spec, dialect)
            except Exception as error:  # to find such a tool is what this command is for
                yield Problem(
                    severity="warning",
                    message=f"{dialect}: {spec.name} cannot be converted: {type(error).__name__}: {error}",
                    fix="exclude the tool, or replace its schema with override",
                )
        for name, definition in found.items():
            losses = [loss for loss in definition.losses if loss.kind in LOSSY]
            if losses:
                reasons = "; ".join(dict.fromkeys(f"{loss.path or '/'}: {loss.what}" for loss in losses))
                yield Problem(
                    severity="info",
                    message=f"{dialect}: the schema of {name} is simplified: {reasons}",
                    fix="nothing to do: the provider gets a schema it accepts",
                )
        reworded = [name for name, definition in found.items() if definition.grade == "lossless"]
        if reworded and dialect != "openai-strict":
            yield Problem(
                severity="info",
                message=f"{dialect}: rewritten for this provider: {', '.join(reworded)}",
                fix="nothing to do: the meaning is the same",
            )


def _json(finding: Finding) -> JSON:
    status = finding.status
    return {
        "ok": finding.ok,
        "state": status.state,
        "era": status.era,
        "protocol": status.protocol,
        "latency_ms": None if finding.seconds is None else round(finding.seconds * 1000, 1),
        "tools": status.tools,
        "problems": [
            {"severity": problem.severity, "message": problem.message + problem.tail, "fix": problem.fix}
            for problem in finding.problems
        ],
    }


def _show_all(screen: Screen, findings: Sequence[Finding], file: str | None) -> None:
    for finding in findings:
        _show(screen, finding)
    where = f" in {near(file)}" if file else ""
    down = sum(not finding.ok for finding in findings)
    up = len(findings) - down
    counts = ", ".join(f"{count} {word}" for count, word in ((up, "ready"), (down, "failed")) if count)
    warnings = sum(problem.severity == "warning" for finding in findings for problem in finding.problems)
    if down:
        act, style = "fix the errors above", "bold red"
    elif warnings:
        act, style = f"nothing to fix; {_count(warnings, 'warning')} above", "yellow"
    else:
        act, style = "nothing to fix", "green"
    screen.summary(Text.assemble(f"{_count(len(findings), 'server')}{where}: {counts}; ", (act, style)))


def _show(screen: Screen, finding: Finding) -> None:
    word, style = ("ok", "green") if finding.ok else ("failed", "bold red")
    screen.print(Text.assemble((finding.config.alias, "bold"), "  ", (word, style)))
    rows = [[Text(label, style="dim"), Text(one_line(text))] for label, text in _steps(finding)]
    infos = [problem for problem in finding.problems if problem.severity == "info"]
    shown = [problem for problem in finding.problems if problem not in infos[INFOS:]]
    # The same step for many tools is one step, below the last of them.
    last = {_step(problem): problem for problem in shown}
    for problem in shown:
        label, style = STYLES[problem.severity]
        rows.append([Text(label, style=style), Text(one_line(problem.message), style=style)])
        rows += [[Text("stderr", style="dim"), Text(visible(line))] for line in problem.stderr]
        if problem.fix and problem.severity != "info" and last[_step(problem)] is problem:
            rows.append([Text("next step", style="bold"), Text(problem.fix)])
    if len(infos) > INFOS:
        more = f"and {len(infos) - INFOS} more; --json lists them"
        rows.append([Text("note", style="dim"), Text(more, style="dim")])
    screen.rows(rows, most=None)


def _step(problem: Problem) -> str:
    return problem.fix.partition("; ")[0]


def _steps(finding: Finding) -> Iterator[tuple[str, str]]:
    """How far it came, step by step."""
    config, status, error = finding.config, finding.status, finding.error
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
        if status.state == "ready":
            sends = config.auth is not None or any(name.lower() == "authorization" for name in config.headers)
            yield "authorization", "accepted" if sends else "none sent, none required"
    if status.protocol and status.state == "ready":
        yield "protocol", f"{status.protocol} ({status.era})"
    if finding.seconds is not None:
        stock = finding.inventory
        counted = f"{_count(len(stock.tools), 'tool')} on {_count(stock.pages, 'page')}"
        kept = "" if status.tools == len(stock.tools) else f", {status.tools} after include and exclude"
        yield "list", f"{counted}{kept}, {finding.seconds:.2f} s after start"


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"
