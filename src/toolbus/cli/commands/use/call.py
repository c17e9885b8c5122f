"""`toolbus call`: call one tool."""

import asyncio
import json
import math
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from toolbus.cli.errors import FAILED, Usage
from toolbus.cli.input.arguments import GivenArguments, read
from toolbus.cli.input.elicitation import terminal_interactions
from toolbus.cli.listing_cache import CachedListing, fresh_listings
from toolbus.cli.options import SharedOptions
from toolbus.cli.output import results
from toolbus.cli.output.screen import Screen, escaped_json, one_line
from toolbus.cli.session import (
    UNATTENDED,
    async_command,
    command_line,
    load_trusted_config,
    open_bus,
    start_idle_servers,
)
from toolbus.cli.terminal import client_terminal, here
from toolbus.config import BusConfig
from toolbus.core.ask.interactions import REFUSED_BY_GUARD, Stopwatch
from toolbus.core.operation.events import Event, Warned
from toolbus.core.values.errors import CallRefused, ToolNotFound
from toolbus.core.values.records import JSON, Progress, ToolResult, ToolSpec
from toolbus.lock.drift import NOT_AS_LOCKED
from toolbus.lock.file import NAME, lock_path
from toolbus.shape import LIST_RESOURCES, READ_RESOURCE, declared, may_name

if TYPE_CHECKING:
    from toolbus.bus.toolbus import Toolbus


@dataclass(frozen=True, slots=True, kw_only=True)
class CallOptions:
    """The options of `call` and `resume`."""

    timeout: float | None = None
    out: Path | None = None
    on_input: Literal["ask", "suspend"] = "ask"

    def check(self) -> None:
        """Raise `Usage` if a value is invalid."""
        if self.timeout is not None and not (self.timeout > 0 and math.isfinite(self.timeout)):
            raise Usage(f"--timeout {self.timeout:g}: expected a number of seconds above 0")
        check_out_folder(self.out)


def check_out_folder(out: Path | None) -> None:
    """Raise `Usage` if the path is not a folder."""
    if out is not None and here(out).exists() and not here(out).is_dir():
        raise Usage(f"--out {str(out)!r} is a file; name a folder")


@async_command
async def run(settings: SharedOptions, name: str, given: GivenArguments, options: CallOptions) -> int:
    """Call the tool; exit code 1 if it fails."""
    options.check()
    screen, config = Screen(settings), load_trusted_config(settings)
    interactions = terminal_interactions(screen) if options.on_input == "ask" else UNATTENDED

    drift: dict[str, Warned] = {}

    def note_refusal(event: Event) -> None:
        if isinstance(event, Warned) and REFUSED_BY_GUARD in event.message:
            screen.note(f"warning: server {event.server!r}: {event.message}")
        elif isinstance(event, Warned) and NOT_AS_LOCKED in event.message:
            drift[event.message] = event

    # What the background bus lists is known, and need not be looked up.
    in_background = client_terminal() is not None
    servers = candidate_servers(config, name) if in_background else _servers_to_start(config, name)
    async with open_bus(screen, config, servers, note_refusal, interactions) as bus:
        if name not in bus.catalog:
            # The server may be misspelt: with all of them up, the error can suggest the right name.
            await start_idle_servers(screen, bus, config)
        spec = await _found(config, bus, name)
        if spec.origin.server not in config.servers:
            await start_idle_servers(screen, bus, config)  # a built-in tool, which covers all servers
        _note_drift(screen, spec, drift.values())
        if config.policy:
            _note_dead_rules(screen, config, bus)
        _reject_unknown(given.whole, spec)
        arguments = read(given, spec)
        watch = Stopwatch()
        with call_progress(screen, spec.name) as progressed:
            result = await bus.view(caller=command_line()).call(
                spec.name,
                arguments,
                timeout=options.timeout,
                on_progress=progressed,
                on_input=options.on_input,
            )
    return print_outcome(screen, spec, result, options.out, watch.seconds)


async def _found(config: BusConfig, bus: "Toolbus", name: str) -> ToolSpec:
    """The tool of that name; `CallRefused` if a rule denies the one that was most likely meant."""
    try:
        return await bus.find(name)
    except ToolNotFound as error:
        if not config.policy:
            raise
        from toolbus.cli.policy_facts import whole_catalog  # it imports the bus, which takes time

        denied = {spec.name: spec for spec in whole_catalog(config, bus) if spec.name not in bus.catalog}
        own = [] if error.close_matches else [one for one, spec in denied.items() if name == spec.origin.tool]
        for likely in own or get_close_matches(name, [*denied, *bus.catalog.names], n=1):
            refused = bus.missing(likely, [])
            if isinstance(refused, CallRefused):
                raise refused from error
        raise


def _note_drift(screen: Screen, spec: ToolSpec, drift: Iterable[Warned]) -> None:
    """Print what differs from the lockfile of this tool, or of how its server is started."""
    for one in drift:
        if one.server == spec.origin.server and one.tool in (None, spec.origin.tool):
            what = f"tool {one.tool!r}" if one.tool else f"server {one.server!r}"
            screen.note(f"warning: {what}: {one.message}")


def _note_dead_rules(screen: Screen, config: BusConfig, bus: "Toolbus") -> None:
    from toolbus.cli.policy_facts import warnings  # it imports the bus, which takes time

    for warning in warnings(config, bus):
        screen.note(warning)


@contextmanager
def call_progress(screen: Screen, name: str) -> Generator[Progress]:
    """Show a progress line; yields the callback that updates it."""
    with screen.spinner(name) as spinner:
        loop = asyncio.get_running_loop()

        def show(done: float, total: float | None, message: str | None) -> None:
            spinner.set_progress(done, total)
            spinner.set_text(one_line(message or name))

        def progressed(done: float, total: float | None, message: str | None) -> None:
            # Not in the loop of a background bus, which must not wait for a terminal.
            with suppress(RuntimeError):  # the command is over
                loop.call_soon_threadsafe(show, done, total, message)

        yield progressed


def print_outcome(
    screen: Screen, spec: ToolSpec, result: ToolResult, out: Path | None, seconds: float
) -> int:
    """Print the result, or the pending call if it was suspended; return the exit code."""
    files: results.SavedFiles = {} if out is None else results.save_blobs(result, out, spec.name)
    waiting = None if result.pending is None else result.pending.to_json()
    if screen.as_json:
        screen.json(
            {
                **_facts(spec),
                "is_error": result.is_error,
                "text": result.text,
                "content": results.content_json(result, files),
                "structured": result.structured,
                "elapsed_ms": round(seconds * 1000, 1),
                # The same keys as without --json, so that `resume` accepts both.
                **({} if waiting is None else json.loads(waiting)),
            }
        )
    elif waiting is not None:
        print(escaped_json(json.loads(waiting)), flush=True)
        screen.note(f"{result.pending}; to answer, run: toolbus resume FILE")
    else:
        results.print_result(screen, result, files)
    return FAILED if result.is_error else 0


def _reject_unknown(arguments: Mapping[str, JSON], spec: ToolSpec) -> None:
    """Raise `Usage` for a name in the JSON object that the tool's schema forbids."""
    schema = spec.input_schema
    if schema.get("additionalProperties") is not False or "patternProperties" in schema:
        return
    known, _ = declared(schema)
    for name in arguments:
        if name not in known:
            close = get_close_matches(name, known, n=1)
            hint = f"did you mean {close[0]!r}?" if close else f"it takes {', '.join(known) or 'none'}"
            raise Usage(f"{name}: no such argument; {hint}")


def _facts(spec: ToolSpec) -> dict[str, str]:
    return {"name": spec.name, "server": spec.origin.server, "tool": spec.origin.tool}


def _servers_to_start(config: BusConfig, name: str) -> list[str]:
    """The servers to start for this tool; raises `ToolNotFound` if the cache shows a misspelling."""
    likely = candidate_servers(config, name)
    listed = fresh_listings(config)
    if not all(alias in listed for alias in likely):
        return likely
    for alias in likely:
        if name in listed[alias].origins or name.removeprefix(f"{alias}/") in listed[alias].origins.values():
            return [alias]
    if any(rule.do == "deny" for rule in config.policy):
        return likely  # what a rule denies is not listed, and the error names the rule
    # If several servers may have a name, it depends on which of them were up when it was listed.
    if len(listed) == len(config.servers) and len(likely) <= 1:
        _reject_misspelling(config, name, listed)
    return likely


def _reject_misspelling(config: BusConfig, name: str, listed: Mapping[str, CachedListing]) -> None:
    """Raise `ToolNotFound` if a cached or built-in tool has a similar name."""
    tools = [(alias, *pair) for alias, listing in listed.items() for pair in listing.origins.items()]
    own = [LIST_RESOURCES.name, READ_RESOURCE.name] if config.resource_tools in (True, "bus") else []
    if name in own:
        return
    known = [f"{alias}/{tool}" if "/" in name else public for alias, public, tool in tools]
    alike = [public for _, public, tool in tools if tool == name]
    is_locked = config.file is not None and lock_path(config.file).exists()
    step = (
        f"not in {NAME}; 'toolbus diff' shows what is new"
        if is_locked
        else "run 'toolbus tools' to refresh the list"
    )
    error = ToolNotFound(name, known + own, alike=alike, remark=f" ({step})")
    if error.close_matches:
        raise error


def candidate_servers(config: BusConfig, name: str) -> list[str]:
    """The servers that may have a tool of this name; the others are not started."""
    prefixes = {alias: server.prefix for alias, server in config.servers.items()}
    return [
        alias
        for alias in config.servers
        if name.startswith(f"{alias}/") or may_name(config.naming, prefixes, alias, name)
    ]
