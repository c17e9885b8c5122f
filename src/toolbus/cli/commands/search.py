"""`toolbus search`: find tools by what they do."""

from rich.text import Text

from toolbus.cli.commands.tools import locked_bus
from toolbus.cli.errors import FAILED, Usage
from toolbus.cli.options import Settings
from toolbus.cli.output.screen import Screen, one_line, visible
from toolbus.cli.session import async_command, load_trusted_config, open_bus, selected_servers
from toolbus.core.records import JSON
from toolbus.search.hit import Hit


@async_command
async def run(settings: Settings, query: str, limit: int) -> int:
    """Print the tools that fit; exit code 1 if there is none."""
    if not query.strip():
        raise Usage("nothing to search for; say what the tool should do")
    screen, config = Screen(settings), load_trusted_config(settings)
    selected = selected_servers(config, ())
    if (locked := locked_bus(config, selected)) is not None:
        hits, missing = locked.search(query, limit), list[str]()
    else:
        async with open_bus(screen, config, selected) as bus:
            hits = bus.search(query, limit)
            missing = [alias for alias, status in bus.servers.items() if status.state != "ready"]
    if screen.as_json:
        screen.json({"query": query, "hits": [_hit_json(hit) for hit in hits], "missing": [*missing]})
    else:
        for hit in hits:
            _print_hit(screen, hit)
        if not hits:
            screen.note(f"no tool fits {visible(query)!r}; see all with 'toolbus tools'")
        if missing:
            screen.note(f"not searched, because not connected: {', '.join(map(visible, missing))}")
    return 0 if hits else FAILED


def _print_hit(screen: Screen, hit: Hit) -> None:
    about = one_line(hit.spec.description)
    screen.print(Text.assemble((visible(hit.name), "bold cyan"), f"  {about}" if about else ""))
    also = f"; also {', '.join(map(visible, hit.alternatives))}" if hit.alternatives else ""
    screen.print(Text(f"    {visible(hit.spec.origin.server)}; {visible(hit.reason)}{also}", style="dim"))


def _hit_json(hit: Hit) -> JSON:
    return {
        "name": hit.name,
        "server": hit.spec.origin.server,
        "description": hit.spec.description,
        "score": hit.score,
        "reason": hit.reason,
        "alternatives": [*hit.alternatives],
    }
