"""`toolbus tools`: the servers and what they offer."""

import math
from collections.abc import Iterable, Sequence

from rich.text import Text

from toolbus.cli.input.arguments import described
from toolbus.cli.options import Settings
from toolbus.cli.outcome import FAILED, Usage
from toolbus.cli.output.screen import Screen, one_line, quoted, visible
from toolbus.cli.session import checked, configured, opened
from toolbus.cli.session import run as run_async
from toolbus.config import BusConfig, ServerConfig
from toolbus.core.records import JSON, Inventory, ServerStatus, ToolSpec
from toolbus.shape import unmatched

OPTIONAL = 3
"""How many optional arguments stand in a line."""
STYLES = {"ready": "green", "failed": "red", "auth_required": "red", "retrying": "yellow", "idle": "dim"}


def run(settings: Settings, servers: Sequence[str], *, search: str | None, full: bool, wait: float) -> int:
    """Print the tools of these servers, by default of all."""
    check_wait(wait)
    return run_async(lambda: _listed(settings, servers, search, full, wait))


def check_wait(seconds: float) -> None:
    """`Usage` if nobody can wait that long."""
    if not 0 <= seconds < math.inf:
        raise Usage(f"--wait {seconds:g}: expected a number of seconds, 0 or more")


async def _listed(
    settings: Settings, servers: Sequence[str], search: str | None, full: bool, wait: float
) -> int:
    screen, config = Screen(settings), configured(settings)
    wanted = checked(config, servers)
    async with opened(screen, config, wanted, wait=wait) as bus:
        statuses = {alias: status for alias, status in bus.servers.items() if alias in wanted}
        # The tools of the bus itself are nobody's: they are there unless servers are named.
        listed = [spec for spec in bus.catalog if not servers or spec.origin.server in wanted]
        warnings = {alias: _remarks(bus.inventories[alias], config.servers[alias]) for alias in wanted}
    found = listed if search is None else matching(listed, search)
    if screen.as_json:
        screen.json({"servers": servers_json(statuses), "tools": [_tool_json(spec) for spec in found]})
    else:
        for alias in wanted:
            own = [spec for spec in found if spec.origin.server == alias]
            if own or search is None:
                show_server(screen, alias, statuses[alias], own, warnings[alias], full)
        if of_bus := [spec for spec in found if spec.origin.server not in wanted]:
            screen.print(
                Text.assemble(("toolbus", "bold"), (f"  {counted(len(of_bus), 'built-in tool')}", "dim"))
            )
            screen.rows(rows_of(of_bus))
        if config.disabled and not servers:
            screen.note(f"disabled: {', '.join(map(visible, config.disabled))}")
        if search is not None:
            screen.note(f"{len(found)} of {len(listed)} tools match {search!r}")
    return exit_code(config, statuses, servers)


def servers_json(statuses: dict[str, ServerStatus]) -> JSON:
    """The state of the servers, for programs."""
    names = ("state", "era", "protocol", "tools", "error")
    return {alias: {name: getattr(status, name) for name in names} for alias, status in statuses.items()}


def matching(tools: Iterable[ToolSpec], words: str) -> list[ToolSpec]:
    """The tools that have all the words somewhere; those that have them in the name first."""
    wanted = words.lower().split()

    def text(spec: ToolSpec) -> str:
        arguments = " ".join(f"{name} {about}" for name, _, _, about in described(spec))
        return f"{spec.name} {spec.origin} {spec.title or ''} {spec.description} {arguments}".lower()

    found = [spec for spec in tools if all(word in text(spec) for word in wanted)]
    return sorted(found, key=lambda spec: -sum(word in spec.name.lower() for word in wanted))


def headline(alias: str, status: ServerStatus, offers: str | None = None) -> Text:
    """A server in one line: alias, state, era and version, and what it offers, by default its tools."""
    line = Text.assemble((alias, "bold"), "  ", (status.state, STYLES.get(status.state, "")))
    if status.protocol:
        line.append(f"  {status.protocol} ({status.era})", "dim")
    if status.state == "ready":
        line.append(f"  {offers or counted(status.tools, 'tool')}", "dim")
    return line


def counted(number: int, what: str) -> str:
    """`1 tool`, `2 tools`."""
    return f"{number} {what}{'' if number == 1 else 's'}"


def show_headline(screen: Screen, alias: str, status: ServerStatus, offers: str | None = None) -> None:
    """A server in one line, and below it why it is down."""
    screen.print(headline(alias, status, offers))
    if status.error:
        # Without the server's name, which stands in the line above.
        reason = status.error.removeprefix(f"server {alias!r}: ")
        screen.rows([[Text(visible(reason), style="red")]], most=None)


def rows_of(tools: Iterable[ToolSpec]) -> list[list[Text]]:
    """Each tool in one line: name, arguments, what it does."""
    return [
        [
            Text(spec.name, style="cyan"),
            Text(visible(_usage(spec)), style="yellow"),
            Text(one_line(spec.description or spec.title or "")),
        ]
        for spec in tools
    ]


def _remarks(stock: Inventory, server: ServerConfig) -> list[str]:
    """What is odd about its entry, and why tools that one might look for are not there."""
    missed = unmatched(stock.tools, server.include) if stock.tools else []
    return [
        *server.warnings,
        *stock.notes,
        *(f"tool {quoted(bad.tool)}: left out: {bad.reason}" for bad in stock.quarantined),
        *(f"include: no tool matches {pattern!r}" for pattern in missed),
    ]


def _usage(spec: ToolSpec) -> str:
    """The arguments: required ones, then optional ones in brackets."""
    arguments = described(spec)
    optional = [name for name, _, is_required, _ in arguments if not is_required]
    shown = optional if len(optional) <= OPTIONAL else [f"{len(optional)} more"]
    return " ".join(
        [name for name, _, required, _ in arguments if required] + [f"[{name}]" for name in shown]
    )


def show_server(
    screen: Screen,
    alias: str,
    status: ServerStatus,
    tools: Sequence[ToolSpec],
    warnings: Sequence[str] = (),
    full: bool = False,
) -> None:
    """A server and its tools."""
    show_headline(screen, alias, status)
    for warning in warnings:
        screen.rows([[Text(visible(warning), style="yellow")]], most=None)
    if full:
        for spec in tools:
            _show_tool(screen, spec)
    else:
        screen.rows(rows_of(tools))


def _show_tool(screen: Screen, spec: ToolSpec) -> None:
    """Everything about one tool."""
    own = Text("" if spec.name == spec.origin.tool else f"  {visible(str(spec.origin))}", style="dim")
    screen.print(Text("\n  ") + Text(spec.name, style="bold cyan") + own)
    for line in visible(spec.description).strip().splitlines():
        screen.print(Text(f"    {line}"))
    screen.rows(
        [
            [
                Text(visible(name), style="yellow"),
                Text(visible(kind) + (", required" if required else ""), style="dim"),
                Text(one_line(" ".join(about.split()))),
            ]
            for name, kind, required, about in described(spec)
        ],
        indent=4,
        most=None,
    )
    hints = ", ".join(
        f"{name}: {str(value).lower()}" for name, value in spec.annotations.items() if name != "title"
    )
    if hints:
        screen.print(Text(f"    {visible(hints)}", style="dim"))
    for change in spec.history:
        screen.print(Text(f"    {change.shaper}: changed {', '.join(change.fields)}", style="dim"))


def _tool_json(spec: ToolSpec) -> JSON:
    return {
        "name": spec.name,
        "server": spec.origin.server,
        "tool": spec.origin.tool,
        "description": spec.description,
        "input_schema": spec.input_schema,
        "annotations": spec.annotations,
    }


def exit_code(config: BusConfig, statuses: dict[str, ServerStatus], asked: Sequence[str]) -> int:
    """A server that is down is a failure if somebody insists on it, or if nothing else is up."""
    down = [alias for alias, status in statuses.items() if status.state != "ready"]
    insisted = any(alias in asked or config.servers[alias].required for alias in down)
    return FAILED if insisted or len(down) == len(statuses) else 0
