"""`toolbus tools`: list servers and their tools, or what the tools cost in tokens."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from toolbus.bus.inner import calls_of, tenant_of
from toolbus.cli.command import CommandResult, Invocation, bus_command
from toolbus.cli.errors import FAILED
from toolbus.cli.input.arguments import described
from toolbus.cli.options import suggested
from toolbus.cli.output.headline import print_headline
from toolbus.cli.output.results import named_json
from toolbus.cli.output.screen import Cell, Screen, about, one_line, picked, quoted, short_path, visible
from toolbus.cli.parameters import ServersOrTargets, Wait
from toolbus.core.text.display import counted
from toolbus.core.values.apps import app_of
from toolbus.core.values.catalog import Catalog
from toolbus.core.values.errors import problem_of
from toolbus.core.values.records import JSON, OWN, Inventory, ServerStatus, ToolSpec
from toolbus.schema.node import Schema
from toolbus.shape.cost import PROVIDERS, definition_tokens, sent_tokens
from toolbus.shape.select import unmatched

if TYPE_CHECKING:
    from toolbus.bus.rules.effects import Effects
    from toolbus.bus.toolbus import Toolbus
    from toolbus.config import BusConfig, ServerConfig
    from toolbus.config.settings.expose import ExposeMode
    from toolbus.lock.drift import HeldTool

MAX_OPTIONAL = 3
"""The maximum number of optional arguments shown by name."""
MOST_FOUND = 20
"""The maximum number of tools that `--search` lists."""
NO_MARKS: Mapping[str, str] = {}
APP_ONLY = "app only"
_SHORT_MODES: "tuple[ExposeMode, ...]" = ("search", "code")


@partial(bus_command, imports=True, tapes=True)
async def tools(
    own: Invocation,
    servers: ServersOrTargets = None,
    search: Annotated[
        str | None,
        typer.Option(
            "--search",
            metavar="WORDS",
            hidden=True,
            help="Show only the tools that fit these words best; the old spelling of 'toolbus search'.",
        ),
    ] = None,
    full: Annotated[bool, typer.Option("--full", help="Show arguments, annotations and overrides.")] = False,
    cost: Annotated[
        bool, typer.Option("--cost", help="Show how many tokens each tool takes, highest first.")
    ] = False,
    wait: Wait = 0,
) -> CommandResult:
    """List servers and their tools.

    With a lockfile, no server is started unless you --wait for them.
    """
    if search is not None and not own.settings.json:
        own.screen.note("'toolbus tools --search' is now 'toolbus search'")
    selected, named = own.selected(servers), servers or ()
    if cost:
        return await _costs(own, selected, named, search, wait)
    if wait == 0 and (locked := locked_bus(own.config, selected)) is not None:
        return _locked(own.screen, locked, selected, named, search, full=full)
    async with own.bus(selected, wait=wait) as bus:
        await calls_of(bus).refresh()
        statuses = {alias: status for alias, status in bus.servers.items() if alias in selected}
        up = [alias for alias, status in statuses.items() if status.state == "ready"]
        found = _Listing(own.screen, bus, selected, named, search, ruled_for=up)
        warnings = {alias: _warnings(bus.inventories[alias], own.config.servers[alias]) for alias in selected}
    for one in found.held.values():
        if one.kind != "launch":  # which is the error of the server
            warnings[one.server].append(held_line(one))

    def lines() -> None:
        for alias in found.shown:
            print_server(
                own.screen, alias, statuses[alias], found.tools_of(alias), warnings[alias], full, found.marks
            )
        found.print_rest()

    return CommandResult(found.document(statuses, "servers"), lines, exit_code(own.config, statuses, named))


class _Listing:
    """The tools of the selected servers; those that fit, if some are searched for."""

    def __init__(
        self,
        screen: Screen,
        bus: "Toolbus",
        selected: Sequence[str],
        named: Sequence[str],
        search: str | None,
        ruled_for: Iterable[str],
    ) -> None:
        self._screen, self._config, self._search, self._is_whole = screen, bus.config, search, not named
        # Built-in tools belong to no server: listed unless servers are named.
        self._listed = [spec for spec in bus.catalog if not named or spec.origin.server in selected]
        self._found = self._listed if search is None else matching(bus, self._listed, search)
        self._ruled = _ruled(bus.config, bus, ruled_for)
        self.held = {key: one for key, one in bus.held.items() if one.server in selected}
        self.marks = _marks(self._ruled)
        """The effect of the policy on tools, by their names."""
        self.shown = [alias for alias in selected if search is None or self.tools_of(alias)]

    def tools_of(self, alias: str) -> list[ToolSpec]:
        """The tools of one server."""
        return [spec for spec in self._found if spec.origin.server == alias]

    def print_rest(self) -> None:
        """Print the built-in tools, and notes."""
        if built_in := self.tools_of(OWN):
            self._screen.line(("toolbus", "bold"), (f"  {counted(len(built_in), 'built-in tool')}", "dim"))
            self._screen.rows(tool_rows(built_in))
        if self._ruled is not None:
            _note_policy(self._screen, self._ruled)
        if self._config.disabled and self._is_whole:
            self._screen.note(f"disabled: {', '.join(map(visible, self._config.disabled))}")
        if self._search is not None:
            self._screen.note(f"{len(self._found)} of {len(self._listed)} tools match {self._search!r}")

    def document(self, statuses: Mapping[str, ServerStatus], source: str) -> JSON:
        """The document of `--json`."""
        ruled = self._ruled
        denied = {} if ruled is None else {"denied": [str(spec.origin) for spec in ruled.denied]}
        return {
            "servers": servers_json(statuses),
            "tools": [
                _tool_json(spec) | ({} if ruled is None else {"asks": self.marks.get(spec.name) == "asks"})
                for spec in self._found
            ],
            "held": {key: one.reason for key, one in self.held.items()},
            **denied,
            "source": source,
        }


def locked_bus(config: "BusConfig", servers: Iterable[str]) -> "Toolbus | None":
    """A bus that is not started, if the tools of these servers are known from a lockfile."""
    from toolbus.lock.file import lock_path

    if config.file is None or not lock_path(config.file).exists():
        return None
    from toolbus.bus.toolbus import Toolbus

    bus = Toolbus(config)
    return bus if bus.lock is not None and all(map(tenant_of(bus).approvals.covers, servers)) else None


def held_line(one: "HeldTool") -> str:
    """Something that is held, for the list of its server."""
    what = f"tool {quoted(one.name)}" if one.kind == "tool" else f"{one.kind} {one.name}".strip()
    return f"{what}: on hold: {suggested(one.reason)}"


def _locked(
    screen: Screen,
    bus: "Toolbus",
    selected: Sequence[str],
    named: Sequence[str],
    search: str | None,
    *,
    full: bool,
) -> CommandResult:
    """The tools in the lockfile, without contacting a server."""
    config, file = bus.config, bus.lock
    assert file is not None, "it is locked"
    found = _Listing(screen, bus, selected, named, search, ruled_for=selected)
    unusable = {
        alias: problem for alias in selected if (problem := _unusable(config.servers[alias], found.held))
    }
    statuses = {alias: status for alias, status in bus.servers.items() if alias in selected}

    def lines() -> None:
        for alias in found.shown:
            own = found.tools_of(alias)
            locked: Sequence[Cell] = (("locked", "green"), (f"  {counted(len(own), 'tool')}", "dim"))
            screen.line((alias, "bold"), "  ", *unusable.get(alias, locked))
            _print_tools(screen, own, full=full, marks=found.marks)
        found.print_rest()
        screen.note(f"from {short_path(file.path)}; to contact the servers first: toolbus tools --wait 10s")

    return CommandResult(
        found.document(statuses, "lock"), lines, _exit_code(config, unusable, selected, named)
    )


def _unusable(server: "ServerConfig", held: "Mapping[str, HeldTool]") -> Sequence[Cell] | None:
    """The reason why no tool of a server can be called, whether it runs or not."""
    from toolbus.lock.drift import label_of

    if server.mistake is not None:
        return ("failed", "red"), f"  {visible(problem_of(server.mistake))}"
    launch = held.get(label_of(server.alias, "launch"))
    return None if launch is None else (("on hold", "yellow"), f"  {visible(suggested(launch.reason))}")


def servers_json(statuses: Mapping[str, ServerStatus]) -> JSON:
    """The servers' state as JSON."""
    return {
        alias: picked(status, "state era protocol tools")
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


def _ruled(config: "BusConfig", bus: "Toolbus", servers: Iterable[str]) -> "Effects | None":
    """The effects of the policy on the tools of these servers; None without a policy."""
    if not config.policy:
        return None
    from toolbus.bus.rules.effects import effects, whole_catalog  # they import the bus

    return effects(config, whole_catalog(config, bus), {alias: bus.inventories[alias] for alias in servers})


def _marks(ruled: "Effects | None") -> dict[str, str]:
    """The marks of tools under the policy, by name: `asks`, or `never` if that was answered."""
    if ruled is None:
        return {}
    marks = {spec.name: ruled.answered.get(spec.name, "asks") for spec in ruled.asked}
    return {name: mark for name, mark in marks.items() if mark != "always"}


def _note_policy(screen: Screen, ruled: "Effects") -> None:
    for dead in ruled.dead:
        if not dead.is_note:
            screen.note(f"warning: {dead}")
    if ruled.denied:
        are = "tool is" if len(ruled.denied) == 1 else "tools are"
        screen.note(f"{len(ruled.denied)} {are} denied by the policy; 'toolbus policy' lists them")


def tool_rows(tools: Iterable[ToolSpec], marks: Mapping[str, str] = NO_MARKS) -> list[list[Cell]]:
    """One row per tool: name, its mark if any has one, arguments, description."""
    listed = list(tools)
    marked = {spec.name: ", ".join(filter(None, (marks.get(spec.name), _app_mark(spec)))) for spec in listed}
    return [
        [
            (spec.name, "cyan"),
            *([(marked[spec.name], "magenta")] if any(marked.values()) else []),
            (visible(_argument_summary(spec)), "yellow"),
            one_line(spec.description or spec.title or ""),
        ]
        for spec in listed
    ]


def _app_mark(spec: ToolSpec) -> str:
    """The mark of a tool that has an app, or that only apps get."""
    if spec.is_app_only:
        return APP_ONLY
    return "" if app_of(spec.meta) is None else "app"


def _warnings(stock: Inventory, server: "ServerConfig") -> list[str]:
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
        screen.rows([[(visible(warning), "yellow")]], max_lines=None)
    _print_tools(screen, tools, full=full, marks=marks)


def _print_tools(screen: Screen, tools: Sequence[ToolSpec], *, full: bool, marks: Mapping[str, str]) -> None:
    if full:
        for spec in tools:
            _print_tool(screen, spec, marks.get(spec.name))
    else:
        screen.rows(tool_rows(tools, marks))


def _print_tool(screen: Screen, spec: ToolSpec, mark: str | None) -> None:
    """Print everything about one tool."""
    origin = "" if spec.name == spec.origin.tool else f"  {visible(str(spec.origin))}"
    screen.line("\n  ", (spec.name, "bold cyan"), (origin, "dim"))
    for line in visible(spec.description).strip().splitlines():
        screen.line(f"    {line}")
    arguments: list[list[Cell]] = [
        [
            (visible(name), "yellow"),
            (visible(kind) + (", required" if required else ""), "dim"),
            about(description),
        ]
        for name, kind, required, description in described(spec)
    ]
    screen.rows(arguments, indent=4, max_lines=None)
    hints = ", ".join(
        f"{name}: {str(value).lower()}" for name, value in spec.annotations.items() if name != "title"
    )
    app = app_of(spec.meta)
    said = "a person may be asked" if mark == "asks" else "denied: you answered never"
    facts = [
        visible(hints),
        f"{APP_ONLY}: for its user interface, not for models" if spec.is_app_only else "",
        "" if app is None else f"app: {visible(app)}",
        "" if mark is None else f"policy: {said}",
        *(f"{change.shaper}: changed {', '.join(change.fields)}" for change in spec.history),
    ]
    for fact in filter(None, facts):
        screen.line((f"    {fact}", "dim"))


def _tool_json(spec: ToolSpec) -> dict[str, JSON]:
    app = app_of(spec.meta)
    return {
        **named_json(spec),
        **picked(spec, "description input_schema annotations"),
        **({"app_only": True} if spec.is_app_only else {}),
        **({} if app is None else {"app": app}),
    }


def exit_code(config: "BusConfig", statuses: Mapping[str, ServerStatus], named: Sequence[str]) -> int:
    """1 if a server is down that was named or is required, or if all are down."""
    down = [alias for alias, status in statuses.items() if status.state != "ready"]
    return _exit_code(config, down, statuses, named)


def _exit_code(
    config: "BusConfig", down: Collection[str], selected: Collection[str], named: Sequence[str]
) -> int:
    needed = any(alias in named or config.servers[alias].required for alias in down)
    return FAILED if needed or len(down) == len(selected) else 0


# What the tools cost


async def _costs(
    own: Invocation, selected: Sequence[str], named: Sequence[str], search: str | None, wait: float
) -> CommandResult:
    """Count the tokens that the tools of these servers take, by provider."""
    screen, config = own.screen, own.config
    async with own.bus(selected, wait=wait) as bus:
        await calls_of(bus).refresh()
        statuses = {alias: status for alias, status in bus.servers.items() if alias in selected}
        listed = [spec for spec in bus.catalog.for_models if spec.origin.server in selected]
        found = listed if search is None else matching(bus, listed, search)
    from toolbus.bus.catalog.exposure import Exposure  # it imports the bus

    by_name: dict[str, dict[str, int]] = {}
    for spec in found:
        try:
            by_name[spec.name] = definition_tokens(spec)
        except Exception as error:  # one tool that cannot be converted must not affect the others
            screen.note(f"skipped {spec.name}: {type(error).__name__}: {error}")
    owners = {spec.name: spec.origin.server for spec in found if spec.name in by_name}
    by_server = {
        alias: _sum([cost for name, cost in by_name.items() if owners[name] == alias])
        for alias in selected
        if alias in owners.values()
    }
    catalog = Catalog(spec for spec in found if spec.name in by_name)
    modes = {"all": _sum([*by_name.values()])}
    for mode in _SHORT_MODES:
        shown = Exposure(mode=mode, always=config.always).shown(catalog)
        modes[mode] = _sum([definition_tokens(spec) for spec in shown])
    as_sent = sum(map(sent_tokens, catalog))
    document = {
        "servers": servers_json(statuses),
        "tokens": by_server,
        "tools": [
            {"name": name, "server": owners[name], "tokens": by_name[name]} for name in _sorted(by_name)
        ],
        "as_sent": as_sent,
        "expose": modes,
    }
    return CommandResult(
        document,
        lambda: _print_costs(screen, by_name, by_server, modes, as_sent),
        exit_code(config, statuses, named),
    )


def _sum(costs: Sequence[dict[str, int]]) -> dict[str, int]:
    return {dialect: sum(cost[dialect] for cost in costs) for dialect in PROVIDERS}


def _sorted(costs: dict[str, dict[str, int]]) -> list[str]:
    return sorted(costs, key=lambda name: (-max(costs[name].values()), name))


def _print_costs(
    screen: Screen,
    costs: dict[str, dict[str, int]],
    by_server: dict[str, dict[str, int]],
    modes: dict[str, dict[str, int]],
    as_sent: int,
) -> None:
    rows: list[list[Cell]] = [[(name, "dim") for name in ("estimated tokens", *PROVIDERS)]]
    rows += [_cost_row(name, costs[name], "cyan") for name in _sorted(costs)]
    rows += [_cost_row(f"{alias} total", by_server[alias], "bold") for alias in _sorted(by_server)]
    rows += [_cost_row("total", _sum(list(costs.values())), "bold")]
    rows += [_cost_row("as sent by the servers", dict.fromkeys(PROVIDERS, as_sent), "dim")]
    rows += [_cost_row(f"with expose: {mode}", cost, "bold") for mode, cost in modes.items()]
    screen.rows(rows, indent=0)


def _cost_row(name: str, cost: dict[str, int], style: str) -> list[Cell]:
    return [(name, style), *(f"{cost[dialect]:>{len(dialect)},}" for dialect in PROVIDERS)]
