"""`toolbus audit usage`: how tools are used, what their definitions cost, and which ones nobody needs."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from toolbus.audit.lines import chains
from toolbus.audit.usage import OTHERS, Durations, ToolUsage, UsageCounts, calls_in, remembered_calls
from toolbus.cli.command import CommandResult, Invocation, command
from toolbus.cli.commands.safety.audit import nothing_in, readable, trail_path, trail_time
from toolbus.cli.completion import server_names
from toolbus.cli.errors import FAILED
from toolbus.cli.output.screen import Cell, Screen, exact, one_line, picked, short_path
from toolbus.core.text.display import counted
from toolbus.core.values.errors import ToolbusError
from toolbus.core.values.records import JSON

if TYPE_CHECKING:
    from toolbus.config import BusConfig

_MOST_ROWS = 40
_MOST_COMMANDS = 5
_FEW_CALLS = 5
"""With fewer calls, nothing is said about the failures of a tool."""
_FAILING = 0.5
_SUMS = ("calls", "errors", "refused", "over_quota", "result_tokens")


@command
def usage(
    own: Invocation,
    file: Annotated[
        Path | None, typer.Argument(metavar="FILE", help="Trail to read; default: the config's.")
    ] = None,
    since: Annotated[
        str | None, typer.Option("--since", metavar="TIME", help="Count calls since: 2h, 7d, 2026-11-16.")
    ] = None,
    until: Annotated[
        str | None, typer.Option("--until", metavar="TIME", help="Count calls before: 1h, 1d, 2026-11-18.")
    ] = None,
    server: Annotated[
        str | None,
        typer.Option("--server", metavar="NAME", help="Count only this server.", autocompletion=server_names),
    ] = None,
) -> CommandResult:
    """Show how tools are used, what they cost, and which to hide.

    Counts the calls in the audit log or, without one, in the console's history. Starts no server: the
    definitions are those that were listed last.

    \b
    toolbus audit usage --since 7d
    """
    begin, end = trail_time(since), trail_time(until, "--until")
    history = None if file is not None else _history(own)
    path, found = history or trail_path(own, file), UsageCounts()
    with readable(path):
        for call in calls_in(path, begin, end) if history is None else remembered_calls(path, begin, end):
            if server is None or call.server == server:
                found.add(call)
    is_empty = history is None and not chains(path)
    known = Definitions() if file is not None and not own.settings.config else _definitions(own, server)
    report = UsageReport(path=path, since=begin, until=end, usage=found, definitions=known)
    what = f"no calls of server {server!r}" if server else "no calls"
    when = "" if since is None and until is None else " in that time"
    note = nothing_in(path, file) if is_empty else f"{what}{when} in {short_path(path)}"
    code = FAILED if is_empty and file is not None else 0
    return CommandResult(report.document, lambda: _print(own.screen, report, note), code)


def _history(own: Invocation) -> Path | None:
    """The console's history of the config, if it has no audit log."""
    config = own.untrusted_config  # nothing in it is run
    if config.audit is not None or config.file is None:
        return None
    from toolbus.audit.history.read import history_file

    try:
        file = history_file(config.file)
    except OSError:  # this user has no state folder
        return None
    return file if file.exists() else None


@dataclass(frozen=True, slots=True)
class Definitions:
    """The tokens of the tools of a config in every request to a model."""

    tokens: dict[tuple[str, str], int] | None = None
    """About how many, by server and tool; None if there is no config."""
    unknown: tuple[str, ...] = ()
    """The servers that have never been listed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """Something to do, with what it brings."""

    text: str
    server: str
    tokens: int = 0
    exclude: tuple[str, ...] = ()
    """The patterns for the entry of the server in the config."""
    commands: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageReport:
    """The use of tools in a time, and advice."""

    path: Path
    since: str | None
    until: str | None
    usage: UsageCounts
    definitions: Definitions

    @property
    def costs(self) -> dict[tuple[str, str], int]:
        """The tokens of every definition that is sent to models."""
        return self.definitions.tokens or {}

    @property
    def never_called(self) -> list[tuple[str, str]]:
        """The tools that nobody has called, the most expensive first."""
        unused = [key for key in self.costs if key not in self.usage.tools]
        return sorted(unused, key=lambda key: (-self.costs[key], key))

    def advice(self) -> Iterator[Advice]:
        """Advise to hide unused tools, and to look at failing ones; nothing if there are no calls."""
        if not self.usage.total:
            return
        yield from self._to_hide()
        for one in self.usage.most_used:
            if one.calls >= _FEW_CALLS and one.errors >= _FAILING * one.calls:
                label = _label(one)
                text = f"{label} failed {one.errors:,} of {one.calls:,} times; look at its errors"
                yield Advice(text=text, server=one.server, commands=(f"toolbus audit --tool {label}",))

    def _to_hide(self) -> Iterator[Advice]:
        by_server: dict[str, list[str]] = {}
        for server, tool in self.never_called:
            by_server.setdefault(server, []).append(tool)
        for server, tools in sorted(by_server.items(), key=lambda pair: -self._saved(*pair)):
            saved, names = self._saved(server, tools), sorted(tools)
            used = [tool for owner, tool in self.costs if owner == server and tool not in tools]
            if not used:
                text = f"nobody called {server}: disable it and save about {saved:,} tokens per request"
                yield Advice(
                    text=text, server=server, tokens=saved, commands=(f"toolbus disable {_word(server)}",)
                )
                continue
            patterns = tuple(_patterns(names, used))
            text = (
                f"hide {counted(len(names), 'tool')} of {server} and save about {saved:,} tokens per request"
            )
            commands = tuple(f"toolbus disable {_word(f'{server}/{pattern}')}" for pattern in patterns)
            yield Advice(text=text, server=server, tokens=saved, exclude=patterns, commands=commands)

    def _tool_json(self, one: ToolUsage) -> JSON:
        return {
            **picked(one, "server tool is_tool calls errors refused over_quota"),
            **_percentiles(one.durations),
            "result_bytes": one.bytes,
            "result_tokens": one.tokens,
            "definition_tokens": self.costs.get((one.server, one.tool)),
        }

    def _saved(self, server: str, tools: Sequence[str]) -> int:
        return sum(self.costs[server, tool] for tool in tools)

    def document(self) -> JSON:
        """The document of `--json`."""
        return {
            "source": str(self.path),
            **picked(self, "since until"),
            "calls": self.usage.total,
            "servers": _servers_json(self),
            "tools": [self._tool_json(one) for one in self.usage.most_used],
            "never_called": [
                {"server": server, "tool": tool, "definition_tokens": self.costs[server, tool]}
                for server, tool in self.never_called
            ],
            "definition_tokens": None if self.definitions.tokens is None else sum(self.costs.values()),
            "unknown_servers": list(self.definitions.unknown),
            "advice": [picked(one, "text server tokens exclude commands") for one in self.advice()],
        }


def _definitions(own: Invocation, server: str | None) -> Definitions:
    """The definitions that models get of the servers, from the lockfile or the last listing."""
    from toolbus.bus.engine.listings import last_inventories
    from toolbus.bus.inner import tenant_of
    from toolbus.bus.toolbus import Toolbus
    from toolbus.shape.cost import definition_tokens

    try:
        config: BusConfig = own.untrusted_config  # nothing in it is run
        bus = Toolbus(config)
        tenant = tenant_of(bus)
        tenant.servers.assume(last_inventories(config), config)
        tenant.outdate()
        assumed, covers = tenant.servers.assumed, tenant.approvals.covers
        specs = [spec for spec in bus.catalog.for_models if spec.origin.server in config.servers]
    except ToolbusError as error:
        own.screen.note(f"the definitions are not known: {error}")
        return Definitions()
    return Definitions(
        {
            (spec.origin.server, spec.origin.tool): max(definition_tokens(spec).values())
            for spec in specs
            if server in (None, spec.origin.server)
        },
        tuple(
            alias
            for alias in config.servers
            if alias not in assumed and not covers(alias) and server in (None, alias)
        ),
    )


def _patterns(unused: Sequence[str], used: Sequence[str]) -> Iterator[str]:
    """Globs for the unused tools that match none of the used ones; names where that takes none together."""
    groups: dict[str, list[str]] = {}
    for name in unused:
        groups.setdefault(name.partition("_")[0], []).append(name)
    for prefix, names in groups.items():
        is_free = not any(name.startswith(f"{prefix}_") for name in used)
        if len(names) > 2 and is_free and all(name.startswith(f"{prefix}_") for name in names):
            yield f"{prefix}_*"
        else:
            yield from names


def _word(text: str) -> str:
    from shlex import quote

    return quote(text)


def _label(one: ToolUsage) -> str:
    if one.tool == OTHERS:
        return "other tools"
    return f"{one.server}/{one.tool}" if one.server else f"{one.tool} (unknown)"


def _percentiles(durations: Durations) -> dict[str, JSON]:
    both = {"p50_ms": durations.percentile(0.5), "p95_ms": durations.percentile(0.95)}
    return {key: None if ms is None else round(ms, 1) for key, ms in both.items()}


def _servers_json(report: UsageReport) -> JSON:
    found: dict[str, dict[str, int]] = {}
    for one in report.usage.tools.values():
        sums = found.setdefault(one.server, dict.fromkeys(_SUMS, 0))
        for key, value in picked(one, "calls errors refused over_quota").items():
            sums[key] += value
        sums["result_tokens"] += one.tokens
    for (server, _), tokens in report.costs.items():
        sums = found.setdefault(server, dict.fromkeys(_SUMS, 0))
        sums["definition_tokens"] = sums.get("definition_tokens", 0) + tokens
    return found


# For people


def _print(screen: Screen, report: UsageReport, empty: str) -> None:
    most_used = report.usage.most_used
    if not most_used:
        screen.note(empty)
        return
    head = ("tool", "calls", "errors", "p50", "p95", "mean result", "definition")
    rows: list[list[Cell]] = [[(name, "dim") for name in head]]
    rows += [_row(one, report.costs.get((one.server, one.tool))) for one in most_used[:_MOST_ROWS]]
    screen.rows(rows, indent=0)
    if len(most_used) > _MOST_ROWS:
        screen.note(f"and {len(most_used) - _MOST_ROWS} more; --json lists all")
    failed = sum(one.errors for one in most_used)
    tokens = sum(one.tokens for one in most_used)
    total = report.usage.total
    counts = f"{total:,} call{'' if total == 1 else 's'}, {failed:,} error{'' if failed == 1 else 's'}"
    line = f"{counts}, about {tokens:,} tokens of results, in {short_path(report.path)}"
    screen.line((one_line(line), "bold"))
    if report.definitions.tokens:
        total, never = sum(report.costs.values()), len(report.never_called)
        screen.line(f"{counted(len(report.costs), 'definition')}: about {total:,} tokens per request")
        unused = sum(report.costs[key] for key in report.never_called)
        if never:
            screen.line(f"never called: {counted(never, 'tool')}, about {unused:,} tokens per request")
    if report.definitions.unknown:
        names = ", ".join(map(exact, report.definitions.unknown))
        screen.note(f"the tools of {names} are not known yet; 'toolbus tools' lists them")
    for one in report.advice():
        _print_advice(screen, one)


def _row(one: ToolUsage, definition: int | None) -> list[Cell]:
    times = [_ms(one.durations.percentile(share)) for share in (0.5, 0.95)]
    over = f", {one.over_quota:,} over quota" if one.over_quota else ""
    errors = f"{one.errors:,}" + (f" (+{one.refused:,} refused{over})" if one.refused else "")
    mean = f"~{one.tokens // one.calls:,} tokens" if one.calls else ""
    cost = "" if definition is None else f"~{definition:,} tokens"
    return [
        (exact(_label(one)), "cyan"),
        f"{one.calls:,}",
        (errors, "red" if one.errors else ""),
        *times,
        mean,
        cost,
    ]


def _ms(ms: float | None) -> str:
    if ms is None:
        return ""
    return f"{ms:,.1f} ms" if ms < 100 else f"{ms:,.0f} ms" if ms < 10_000 else f"{ms / 1000:,.1f} s"


def _print_advice(screen: Screen, one: Advice) -> None:
    screen.line((exact(one.text), "yellow"))
    if one.exclude:
        screen.line(f"  exclude: [{', '.join(map(_yaml_word, one.exclude))}]")
    for line in one.commands[:_MOST_COMMANDS]:
        screen.line(f"  {exact(line)}")
    if len(one.commands) > _MOST_COMMANDS:
        screen.note(f"  and {len(one.commands) - _MOST_COMMANDS} more commands, or the line exclude above")


def _yaml_word(text: str) -> str:
    import json

    return text if text.replace("_", "").replace("-", "").isalnum() else json.dumps(text, ensure_ascii=False)
