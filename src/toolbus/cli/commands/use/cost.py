"""`toolbus tools --cost`: how many tokens the tool definitions take, by provider."""

from collections.abc import Sequence

from rich.text import Text

from toolbus.bus.catalog.exposure import Exposure
from toolbus.cli.commands.use.tools import check_wait, exit_code, matching, servers_json
from toolbus.cli.options import Settings
from toolbus.cli.output.screen import Screen
from toolbus.cli.session import async_command, load_trusted_config, open_bus, selected_servers
from toolbus.config.settings.expose import ExposeMode
from toolbus.core.values.catalog import Catalog
from toolbus.shape.cost import PROVIDERS, definition_tokens, sent_tokens

_SHORT_MODES: tuple[ExposeMode, ...] = ("search", "code")


@async_command
async def run(settings: Settings, servers: Sequence[str], *, search: str | None, wait: float) -> int:
    """Print the token cost of these servers' tools, by default of all."""
    check_wait(wait)
    screen, config = Screen(settings), load_trusted_config(settings)
    selected = selected_servers(config, servers)
    async with open_bus(screen, config, selected, wait=wait) as bus:
        await bus.calls.refresh()
        statuses = {alias: status for alias, status in bus.servers.items() if alias in selected}
        listed = [spec for spec in bus.catalog.for_models if spec.origin.server in selected]
        found = listed if search is None else matching(bus, listed, search)
    costs: dict[str, dict[str, int]] = {}
    for spec in found:
        try:
            costs[spec.name] = definition_tokens(spec)
        except Exception as error:  # one tool that cannot be converted must not affect the others
            screen.note(f"skipped {spec.name}: {type(error).__name__}: {error}")
    owners = {spec.name: spec.origin.server for spec in found if spec.name in costs}
    by_server = {
        alias: _sum([cost for name, cost in costs.items() if owners[name] == alias])
        for alias in selected
        if alias in owners.values()
    }
    catalog = Catalog(spec for spec in found if spec.name in costs)
    modes = {"all": _sum([*costs.values()])}
    modes |= {mode: _mode_cost(catalog, mode, config.always) for mode in _SHORT_MODES}
    as_sent = sum(map(sent_tokens, catalog))
    if screen.as_json:
        tools = [{"name": name, "server": owners[name], "tokens": costs[name]} for name in _sorted(costs)]
        screen.json(
            {
                "servers": servers_json(statuses),
                "tokens": by_server,
                "tools": tools,
                "as_sent": as_sent,
                "expose": modes,
            }
        )
    else:
        _print_costs(screen, costs, by_server, modes, as_sent)
    return exit_code(config, statuses, servers)


def _mode_cost(catalog: Catalog, mode: ExposeMode, always: tuple[str, ...]) -> dict[str, int]:
    return _sum([definition_tokens(spec) for spec in Exposure(mode=mode, always=always).shown(catalog)])


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
    rows = [[Text("estimated tokens", style="dim"), *(Text(dialect, style="dim") for dialect in PROVIDERS)]]
    rows += [_cost_row(name, costs[name], "cyan") for name in _sorted(costs)]
    rows += [_cost_row(f"{alias} total", by_server[alias], "bold") for alias in _sorted(by_server)]
    rows += [_cost_row("total", _sum(list(costs.values())), "bold")]
    rows += [_cost_row("as sent by the servers", dict.fromkeys(PROVIDERS, as_sent), "dim")]
    rows += [_cost_row(f"with expose: {mode}", cost, "bold") for mode, cost in modes.items()]
    screen.rows(rows, indent=0)


def _cost_row(name: str, cost: dict[str, int], style: str) -> list[Text]:
    return [Text(name, style=style), *(Text(f"{cost[dialect]:>{len(dialect)},}") for dialect in PROVIDERS)]
