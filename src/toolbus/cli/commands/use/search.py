"""`toolbus search`: find tools by what they do."""

import time
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from toolbus.bus.inner import calls_of
from toolbus.cli.command import CommandResult, Invocation, bus_command
from toolbus.cli.commands.use.tools import locked_bus
from toolbus.cli.errors import FAILED, Usage
from toolbus.cli.output.screen import Screen, one_line, picked, visible
from toolbus.cli.parameters import Wait
from toolbus.core.values.records import JSON
from toolbus.search.hit import SearchHit, SearchState

if TYPE_CHECKING:
    from toolbus.bus.view import View

_SHOWN_EVERY = 3.0
_ENCODER_WITHIN = 10.0
"""Seconds in which an encoder reads the tools, unless the user waits longer."""


@partial(bus_command, tapes=True)
async def search(
    own: Invocation,
    words: Annotated[list[str], typer.Argument(metavar="WORDS", help="The task for the tool, or its name.")],
    limit: Annotated[
        int, typer.Option("--limit", metavar="COUNT", min=1, help="Show at most this many.")
    ] = 8,
    registry: Annotated[
        bool,
        typer.Option("--registry", help="Search the MCP registry for servers to add; needs no config."),
    ] = False,
    wait: Wait = 0,
) -> CommandResult:
    """Find tools by what they do, or by name, best first.

    With --registry, find servers by their names instead, and add one with 'toolbus add NAME'.

    With a lockfile, no server is started unless you --wait for them. Tools that do nearly the same are listed
    together. An encoder has 10 seconds to read the tools, or as long as --wait; what it has read is kept.
    """
    query = " ".join(words)
    if not query.strip():
        raise Usage("nothing to search for; say what the tool should do")
    if registry:
        return await _servers(own, query.split(), limit)
    screen, selected = own.screen, own.selected()
    missing: list[str] = []
    if wait == 0 and (locked := locked_bus(own.config, selected)) is not None:
        state = await _read_by_encoder(screen, locked, _ENCODER_WITHIN)
        hits = locked.search(query, limit)
    else:
        async with own.bus(selected, wait=wait) as bus:
            await calls_of(bus).refresh()
            state = await _read_by_encoder(screen, bus, max(wait, _ENCODER_WITHIN))
            hits = bus.search(query, limit)
            missing = [alias for alias, status in bus.servers.items() if status.state != "ready"]

    def lines() -> None:
        for hit in hits:
            _print_hit(screen, hit)
        if not hits:
            screen.note(f"no tool fits {visible(query)!r}; see all with 'toolbus tools'")
        if missing:
            screen.note(f"not searched, because not connected: {', '.join(map(visible, missing))}")
        if state.encoder and not state.ready:
            screen.note(f"found by words, because {_unread(state)}; run it again to go on, or --wait 1m")

    encoder = {"name": state.encoder, **picked(state, "encoded total reason")}
    document = {"query": query, "hits": list(map(_hit_json, hits)), "missing": missing, "encoder": encoder}
    return CommandResult(document, lines, 0 if hits else FAILED)


async def _servers(own: Invocation, words: list[str], limit: int) -> CommandResult:
    # Here, because a search for tools does not need it.
    from toolbus.cli.commands.config.published import found_servers

    return await found_servers(own, words, limit)


async def _read_by_encoder(screen: Screen, bus: "View", wait: float) -> SearchState:
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


def _print_hit(screen: Screen, hit: SearchHit) -> None:
    about = one_line(hit.spec.description)
    screen.line((visible(hit.name), "bold cyan"), f"  {about}" if about else "")
    also = f"; also {', '.join(map(visible, hit.alternatives))}" if hit.alternatives else ""
    screen.line((f"    {visible(hit.spec.origin.server)}; {visible(hit.reason)}{also}", "dim"))


def _hit_json(hit: SearchHit) -> JSON:
    spec = hit.spec
    return {
        "name": hit.name,
        "server": spec.origin.server,
        "description": spec.description,
        **picked(hit, "score reason"),
        "alternatives": [*hit.alternatives],
    }
