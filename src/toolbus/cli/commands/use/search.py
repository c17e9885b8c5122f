"""`toolbus search`: find tools by what they do."""

import time

from rich.text import Text

from toolbus.bus.view import View
from toolbus.cli.commands.use.tools import locked_bus
from toolbus.cli.errors import FAILED, Usage
from toolbus.cli.options import SharedOptions
from toolbus.cli.output.screen import Screen, one_line, visible
from toolbus.cli.session import async_command, load_trusted_config, open_bus, selected_servers
from toolbus.core.values.records import JSON
from toolbus.search.hit import Hit, SearchState

_SHOWN_EVERY = 3.0


@async_command
async def run(settings: SharedOptions, query: str, limit: int, wait: float) -> int:
    """Print the tools that fit; exit code 1 if there is none."""
    if not query.strip():
        raise Usage("nothing to search for; say what the tool should do")
    screen, config = Screen(settings), load_trusted_config(settings)
    selected = selected_servers(config, ())
    if (locked := locked_bus(config, selected)) is not None:
        state = await _read_by_encoder(screen, locked, wait)
        hits, missing = locked.search(query, limit), list[str]()
    else:
        async with open_bus(screen, config, selected) as bus:
            await bus.calls.refresh()
            state = await _read_by_encoder(screen, bus, wait)
            hits = bus.search(query, limit)
            missing = [alias for alias, status in bus.servers.items() if status.state != "ready"]
    if screen.as_json:
        found: list[JSON] = [_hit_json(hit) for hit in hits]
        screen.json({"query": query, "hits": found, "missing": [*missing], "encoder": _state_json(state)})
    else:
        for hit in hits:
            _print_hit(screen, hit)
        if not hits:
            screen.note(f"no tool fits {visible(query)!r}; see all with 'toolbus tools'")
        if missing:
            screen.note(f"not searched, because not connected: {', '.join(map(visible, missing))}")
        if state.encoder and not state.ready:
            screen.note(f"found by words, because {_unread(state)}; run it again to go on, or --wait longer")
    return 0 if hits else FAILED


async def _read_by_encoder(screen: Screen, bus: View, wait: float) -> SearchState:
    """Wait for the vectors of the tools, and show how many there are."""
    end = time.monotonic() + wait
    while True:
        left = end - time.monotonic()
        state = await bus.search_ready(max(0.0, min(_SHOWN_EVERY, left)))
        if state.ready or state.reason or left <= 0:
            return state
        if not screen.as_json and state.encoder:
            screen.note(f"{visible(state.encoder)} reads the tools: {state.encoded} of {state.total}")


def _unread(state: SearchState) -> str:
    if state.reason:
        return visible(state.reason)
    return f"{visible(state.encoder)} has read {state.encoded} of {state.total} tools"


def _state_json(state: SearchState) -> JSON:
    return {
        "name": state.encoder,
        "encoded": state.encoded,
        "total": state.total,
        "reason": state.reason,
    }


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
