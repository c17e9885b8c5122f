"""`toolbus tools`: list servers and their tools."""

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from rich.text import Text

from toolbus.cli.errors import FAILED, Usage
from toolbus.cli.input.arguments import described
from toolbus.cli.options import Settings
from toolbus.cli.output.headline import print_headline
from toolbus.cli.output.screen import Screen, one_line, quoted, short_path, visible
from toolbus.cli.policy_facts import Effects, effects, whole_catalog
from toolbus.cli.session import async_command, load_trusted_config, open_bus, selected_servers
from toolbus.cli.suggested import suggested
from toolbus.config import BusConfig, ServerConfig
from toolbus.core.text.display import counted
from toolbus.core.values.errors import problem_of
from toolbus.core.values.records import JSON, OWN, Inventory, ServerStatus, ToolSpec
from toolbus.lock.drift import Held, label_of
from toolbus.lock.file import lock_path
from toolbus.schema.node import Schema
from toolbus.shape import unmatched

if TYPE_CHECKING:
    from toolbus.bus.toolbus import Toolbus

MAX_OPTIONAL = 3
"""How many optional arguments are shown by name."""
MOST_FOUND = 20
"""How many tools `--search` lists."""
NO_MARKS: Mapping[str, str] = {}
APP_ONLY = "app only"


@async_command
async def run(
    settings: Settings, servers: Sequence[str], *, search: str | None, full: bool, wait: float
) -> int:
    """Print these servers' tools, by default of all."""
    check_wait(wait)
    screen, config = Screen(settings), load_trusted_config(settings)
    selected = selected_servers(config, servers)
    if wait == 0 and (locked := locked_bus(config, selected)) is not None:
        return _print_locked(screen, locked, servers, search, full=full)
    async with open_bus(screen, config, selected, wait=wait) as bus:
        await bus.calls.refresh()
        statuses = {alias: status for alias, status in bus.servers.items() if alias in selected}
        # Built-in tools belong to no server: listed unless servers are named.
        listed = [spec for spec in bus.catalog if not servers or spec.origin.server in selected]
        warnings = {alias: _warnings(bus.inventories[alias], config.servers[alias]) for alias in selected}
        held = {key: one for key, one in bus.held.items() if one.server in selected}
        ruled = _ruled(config, bus, [a for a, status in statuses.items() if status.state == "ready"])
        found = listed if search is None else matching(bus, listed, search)
    for one in held.values():
        if one.kind != "launch":  # which is the error of the server
            warnings[one.server].append(held_line(one))
    if screen.as_json:
        screen.json(_listing_json(statuses, found, held, "servers", ruled))
    else:
        for alias in selected:
            own = [spec for spec in found if spec.origin.server == alias]
            if own or search is None:
                print_server(screen, alias, statuses[alias], own, warnings[alias], full, _marks(ruled))
        _print_built_in(screen, found)
        _note_policy(screen, ruled)
        if config.disabled and not servers:
            screen.note(f"disabled: {', '.join(map(visible, config.disabled))}")
        if search is not None:
            screen.note(f"{len(found)} of {len(listed)} tools match {search!r}")
    return exit_code(config, statuses, servers)


def locked_bus(config: BusConfig, servers: Iterable[str]) -> "Toolbus | None":
    """A bus that is not started, if the tools of these servers are known from a lockfile."""
    if config.file is None or not lock_path(config.file).exists():
        return None
    from toolbus.bus.toolbus import Toolbus

    bus = Toolbus(config)
    return bus if bus.lock is not None and all(map(bus.is_locked, servers)) else None


def held_line(one: Held) -> str:
    """Something that is held, for the list of its server."""
    what = f"tool {quoted(one.name)}" if one.kind == "tool" else f"{one.kind} {one.name}".strip()
    return f"{what}: held: {suggested(one.reason)}"


def _print_locked(
    screen: Screen, bus: "Toolbus", servers: Sequence[str], search: str | None, *, full: bool
) -> int:
    """Print the tools in the lockfile, without contacting a server."""
    config, file = bus.config, bus.lock
    assert file is not None, "it is locked"
    selected = selected_servers(config, servers)
    held = {key: one for key, one in bus.held.items() if one.server in selected}
    listed = [spec for spec in bus.catalog if not servers or spec.origin.server in selected]
    found = listed if search is None else matching(bus, listed, search)
    ruled = _ruled(config, bus, selected)
    unusable = {alias: problem for alias in selected if (problem := _unusable(config.servers[alias], held))}
    if screen.as_json:
        statuses = {alias: status for alias, status in bus.servers.items() if alias in selected}
        screen.json(_listing_json(statuses, found, held, "lock", ruled))
    else:
        for alias in selected:
            own = [spec for spec in found if spec.origin.server == alias]
            if own or search is None:
                state = unusable.get(alias) or Text.assemble(
                    ("locked", "green"), (f"  {counted(len(own), 'tool')}", "dim")
                )
                screen.print(Text.assemble((alias, "bold"), "  ", state))
                _print_tools(screen, own, full=full, marks=_marks(ruled))
        _print_built_in(screen, found)
        _note_policy(screen, ruled)
        if config.disabled and not servers:
            screen.note(f"disabled: {', '.join(map(visible, config.disabled))}")
        if search is not None:
            screen.note(f"{len(found)} of {len(listed)} tools match {search!r}")
        screen.note(f"from {short_path(file.path)}; to contact the servers first: toolbus tools --wait 10")
    return _exit_code(config, unusable, selected, servers)


def _unusable(server: ServerConfig, held: Mapping[str, Held]) -> Text | None:
    """Why no tool of a server can be called, whether it runs or not."""
    if server.mistake is not None:
        return Text.assemble(("failed", "red"), f"  {visible(problem_of(server.mistake))}")
    launch = held.get(label_of(server.alias, "launch"))
    return (
        None
        if launch is None
        else Text.assemble(("held", "yellow"), f"  {visible(suggested(launch.reason))}")
    )


def _print_built_in(screen: Screen, tools: Iterable[ToolSpec]) -> None:
    if built_in := [spec for spec in tools if spec.origin.server == OWN]:
        screen.print(
            Text.assemble(("toolbus", "bold"), (f"  {counted(len(built_in), 'built-in tool')}", "dim"))
        )
        screen.rows(tool_rows(built_in))


def check_wait(seconds: float) -> None:
    """Raise `Usage` if it is negative or infinite."""
    if not 0 <= seconds < math.inf:
        raise Usage(f"--wait {seconds:g}: expected a number of seconds, 0 or more")


def servers_json(statuses: dict[str, ServerStatus]) -> JSON:
    """The servers' state as JSON."""
    names = ("state", "era", "protocol", "tools")
    return {
        alias: {name: getattr(status, name) for name in names}
        | {"error": None if status.error is None else suggested(status.error)}
        for alias, status in statuses.items()
    }


def matching(bus: "Toolbus", tools: Iterable[ToolSpec], words: str) -> list[ToolSpec]:
    """The tools among these that fit best, as `bus.search` ranks them, or those that have this name."""
    listed = {spec.name: spec for spec in tools}
    if not words.strip():
        return list(listed.values())
    if not words.isalpha():  # `send` is also a word, `get_issue` is only a name
        named = [one for one in listed.values() if words in (one.name, one.origin.tool, str(one.origin))]
        if named:
            return named
    hits = bus.search(words, max(1, len(bus.catalog)))
    found = [name for hit in hits for name in (hit.name, *hit.alternatives) if name in listed]
    return [listed[name] for name in list(dict.fromkeys(found))[:MOST_FOUND]]


def _ruled(config: BusConfig, bus: "Toolbus", servers: Iterable[str]) -> Effects | None:
    """What the policy does to the tools of these servers; None without a policy."""
    if not config.policy:
        return None
    return effects(config, whole_catalog(config, bus), {alias: bus.inventories[alias] for alias in servers})


def _marks(ruled: Effects | None) -> dict[str, str]:
    """What the policy does to tools, by their names: `asks`, or `never` if that was answered."""
    if ruled is None:
        return {}
    marks = {spec.name: ruled.answered.get(spec.name, "asks") for spec in ruled.asked}
    return {name: mark for name, mark in marks.items() if mark != "always"}


def _note_policy(screen: Screen, ruled: Effects | None) -> None:
    if ruled is None:
        return
    for dead in ruled.dead:
        if not dead.is_note:
            screen.note(f"warning: {dead}")
    if ruled.denied:
        are = "tool is" if len(ruled.denied) == 1 else "tools are"
        screen.note(f"{len(ruled.denied)} {are} denied by the policy; 'toolbus policy' lists them")


def tool_rows(tools: Iterable[ToolSpec], marks: Mapping[str, str] = NO_MARKS) -> list[list[Text]]:
    """One row per tool: name, its mark if any has one, arguments, description."""
    listed = list(tools)
    marked = {spec.name: marks.get(spec.name) or (APP_ONLY if spec.is_app_only else "") for spec in listed}
    return [
        [
            Text(spec.name, style="cyan"),
            *([Text(marked[spec.name], style="magenta")] if any(marked.values()) else []),
            Text(visible(_argument_summary(spec)), style="yellow"),
            Text(one_line(spec.description or spec.title or "")),
        ]
        for spec in listed
    ]


def _warnings(stock: Inventory, server: ServerConfig) -> list[str]:
    """Warnings about the server's entry, and why tools are missing."""
    missed = unmatched(stock.tools, server.include) if stock.tools else []
    return [
        *server.warnings,
        *stock.notes,
        *(f"tool {quoted(bad.tool)}: left out: {bad.reason}" for bad in stock.quarantined),
        *(f"include: no tool matches {pattern!r}" for pattern in missed),
    ]


def _argument_summary(spec: ToolSpec) -> str:
    """Required arguments, then optional ones in brackets."""
    root = Schema(spec.input_schema)
    required, names = root.required({}), dict.fromkeys(root.properties)
    optional = [name for name in names if name not in required]
    shown = optional if len(optional) <= MAX_OPTIONAL else [f"{len(optional)} more"]
    listed = [name for name in [*names, *required] if name in required]
    return " ".join([*dict.fromkeys(listed), *(f"[{name}]" for name in shown)])


def print_server(
    screen: Screen,
    alias: str,
    status: ServerStatus,
    tools: Sequence[ToolSpec],
    warnings: Sequence[str] = (),
    full: bool = False,
    marks: Mapping[str, str] = NO_MARKS,
) -> None:
    """Print a server and its tools, with their marks."""
    print_headline(screen, alias, status)
    for warning in warnings:
        screen.rows([[Text(visible(warning), style="yellow")]], max_lines=None)
    _print_tools(screen, tools, full=full, marks=marks)


def _print_tools(screen: Screen, tools: Sequence[ToolSpec], *, full: bool, marks: Mapping[str, str]) -> None:
    if full:
        for spec in tools:
            _print_tool(screen, spec, marks.get(spec.name))
    else:
        screen.rows(tool_rows(tools, marks))


def _print_tool(screen: Screen, spec: ToolSpec, mark: str | None) -> None:
    """Print everything about one tool."""
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
        max_lines=None,
    )
    hints = ", ".join(
        f"{name}: {str(value).lower()}" for name, value in spec.annotations.items() if name != "title"
    )
    if hints:
        screen.print(Text(f"    {visible(hints)}", style="dim"))
    if spec.is_app_only:
        screen.print(Text(f"    {APP_ONLY}: for its user interface, not for models", style="dim"))
    if mark is not None:
        said = "a person may be asked" if mark == "asks" else "denied: you answered never"
        screen.print(Text(f"    policy: {said}", style="dim"))
    for change in spec.history:
        screen.print(Text(f"    {change.shaper}: changed {', '.join(change.fields)}", style="dim"))


def _listing_json(
    statuses: dict[str, ServerStatus],
    tools: Iterable[ToolSpec],
    held: Mapping[str, Held],
    source: str,
    ruled: Effects | None,
) -> JSON:
    asked = _marks(ruled)
    marks = {} if ruled is None else {"denied": [str(spec.origin) for spec in ruled.denied]}
    return {
        "servers": servers_json(statuses),
        "tools": [
            _tool_json(spec) | ({} if ruled is None else {"asks": asked.get(spec.name) == "asks"})
            for spec in tools
        ],
        "held": {key: one.reason for key, one in held.items()},
        **marks,
        "source": source,
    }


def _tool_json(spec: ToolSpec) -> dict[str, JSON]:
    return {
        "name": spec.name,
        "server": spec.origin.server,
        "tool": spec.origin.tool,
        "description": spec.description,
        "input_schema": spec.input_schema,
        "annotations": spec.annotations,
        **({"app_only": True} if spec.is_app_only else {}),
    }


def exit_code(config: BusConfig, statuses: Mapping[str, ServerStatus], named: Sequence[str]) -> int:
    """1 if a server is down that was named or is required, or if all are down."""
    down = [alias for alias, status in statuses.items() if status.state != "ready"]
    return _exit_code(config, down, statuses, named)


def _exit_code(
    config: BusConfig, down: Collection[str], selected: Collection[str], named: Sequence[str]
) -> int:
    needed = any(alias in named or config.servers[alias].required for alias in down)
    return FAILED if needed or len(down) == len(selected) else 0
