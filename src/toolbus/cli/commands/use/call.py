"""`toolbus call`: call one tool."""

from collections.abc import Coroutine, Mapping
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from toolbus.bus.inner import calls_of
from toolbus.cli.command import CommandResult, Invocation, bus_command
from toolbus.cli.commands.use.resume import chosen_action, resumed
from toolbus.cli.completion import tool_names
from toolbus.cli.errors import Usage
from toolbus.cli.input.arguments import GivenArguments, check_out_folder, given, hint, read
from toolbus.cli.listing_cache import CachedListing
from toolbus.cli.output.results import call_outcome, call_progress
from toolbus.cli.output.screen import Screen
from toolbus.cli.parameters import (
    Accept,
    Args,
    ArgsFile,
    Cancel,
    Decline,
    OnInput,
    Out,
    Timeout,
    ToolArguments,
)
from toolbus.core.ask.interactions import REFUSED_BY_GUARD, Stopwatch
from toolbus.core.values.errors import CallDenied, ToolNotFound
from toolbus.core.values.records import JSON, ToolSpec
from toolbus.schema.node import declared
from toolbus.shape.as_tools import LIST_RESOURCES, READ_RESOURCE
from toolbus.shape.naming import may_name

if TYPE_CHECKING:
    from toolbus.bus.toolbus import Toolbus
    from toolbus.config import BusConfig
    from toolbus.core.operation.events import Event, Warned


@partial(bus_command, tapes=True)
def call(
    own: Invocation,
    name: Annotated[
        str | None,
        typer.Argument(metavar="NAME", help="Tool name, or SERVER/TOOL.", autocompletion=tool_names),
    ] = None,
    pairs: ToolArguments = None,
    args: Args = None,
    args_file: ArgsFile = None,
    timeout: Timeout = None,
    out: Out = None,
    on_input: OnInput = "ask",
    resume: Annotated[
        str | None,
        typer.Option(
            "--resume",
            metavar="FILE",
            help="Answer the call in this file, which '--on-input suspend' printed; - for stdin.",
        ),
    ] = None,
    accept: Accept = False,
    decline: Decline = False,
    cancel: Cancel = False,
) -> Coroutine[Any, Any, CommandResult | int]:
    """Call a tool and print the result; exit 1 if the tool fails.

    With --resume, answer a suspended call: KEY=VALUE fills in its form, or pass --accept, --decline or
    --cancel.

    \b
    toolbus call inn/book guest=Ann --on-input suspend > call.json
    toolbus call --resume call.json seats=2
    """
    if resume is not None:
        if args is not None or args_file is not None:
            raise Usage("--resume continues a call that has its arguments; leave out --args and --args-file")
        answers = [*([] if name is None else [name]), *(pairs or [])]
        action = chosen_action(accept=accept, decline=decline, cancel=cancel)
        return resumed(own, resume, answers, action, timeout=timeout, out=out, on_input=on_input)
    if accept or decline or cancel:
        raise Usage("--accept, --decline and --cancel answer a call that waits; name its file with --resume")
    if name is None:
        raise Usage("missing argument 'NAME'; see 'toolbus call --help'")
    words = given(pairs or [], args, args_file)
    check_out_folder(out)
    return _called(own, name, words, timeout, out, on_input)


async def _called(
    own: Invocation,
    name: str,
    words: GivenArguments,
    timeout: float | None,
    out: Path | None,
    on_input: Literal["ask", "suspend"],
) -> CommandResult:
    from toolbus.cli.session import command_line, start_idle_servers

    screen, config, drift = own.screen, own.config, _Drift(own.screen)
    async with own.bus(_servers_to_start(config, name), drift.note_refusal, asks=on_input == "ask") as bus:
        if name not in bus.catalog:
            # The server may be misspelt: with all of them up, the error can suggest the right name.
            await start_idle_servers(screen, bus, config)
        spec = await _found(config, bus, name)
        if spec.origin.server not in config.servers:
            await start_idle_servers(screen, bus, config)  # a built-in tool, which covers all servers
        drift.note(spec)
        if config.policy:
            _note_dead_rules(screen, config, bus)
        _reject_unknown(words.whole, spec)
        arguments = read(words, spec)
        watch = Stopwatch()
        with call_progress(screen, spec.name) as progressed:
            result = await bus.view(caller=command_line()).call(
                spec.name, arguments, timeout=timeout, on_progress=progressed, on_input=on_input
            )
    return call_outcome(screen, spec, result, out, watch.seconds)


class _Drift:
    """Differences from the lockfile that servers have when they start."""

    def __init__(self, screen: Screen) -> None:
        self._screen = screen
        self._warned: dict[str, Warned] = {}

    def note_refusal(self, event: "Event") -> None:
        """Print a refusal of the guard; keep differences."""
        from toolbus.core.operation.events import Warned
        from toolbus.lock.drift import NOT_AS_LOCKED

        if isinstance(event, Warned) and REFUSED_BY_GUARD in event.message:
            self._screen.note(f"warning: server {event.server!r}: {event.message}")
        elif isinstance(event, Warned) and NOT_AS_LOCKED in event.message:
            self._warned[event.message] = event

    def note(self, spec: ToolSpec) -> None:
        """Print what differs of this tool, or of how its server is started."""
        for one in self._warned.values():
            if one.server == spec.origin.server and one.tool in (None, spec.origin.tool):
                what = f"tool {one.tool!r}" if one.tool else f"server {one.server!r}"
                self._screen.note(f"warning: {what}: {one.message}")


async def _found(config: "BusConfig", bus: "Toolbus", name: str) -> ToolSpec:
    """The tool of that name; `CallDenied` if a rule denies the one that was most likely meant."""
    try:
        return await calls_of(bus).find(name)
    except ToolNotFound as error:
        if not config.policy:
            raise
        from toolbus.bus.rules.effects import whole_catalog  # it imports the bus, which takes time

        denied = {spec.name: spec for spec in whole_catalog(config, bus) if spec.name not in bus.catalog}
        own = [] if error.close_matches else [one for one, spec in denied.items() if name == spec.origin.tool]
        for likely in own or get_close_matches(name, [*denied, *bus.catalog.names], n=1):
            refused = calls_of(bus).missing(likely, [])
            if isinstance(refused, CallDenied):
                raise refused from error
        raise


def _note_dead_rules(screen: Screen, config: "BusConfig", bus: "Toolbus") -> None:
    from toolbus.bus.rules.effects import warnings  # it imports the bus, which takes time

    for warning in warnings(config, bus):
        screen.note(warning)


def _reject_unknown(arguments: Mapping[str, JSON], spec: ToolSpec) -> None:
    """Raise `Usage` for a name in the JSON object that the tool's schema forbids."""
    schema = spec.input_schema
    if schema.get("additionalProperties") is not False or "patternProperties" in schema:
        return
    known, _ = declared(schema)
    for name in arguments:
        if name not in known:
            raise Usage(f"{name}: no such argument; {hint(name, known)}")


def _servers_to_start(config: "BusConfig", name: str) -> list[str]:
    """The servers to start for this tool; raises `ToolNotFound` if the cache shows a misspelling."""
    from toolbus.cli.session import BUS

    likely = candidate_servers(config, name)
    listed = BUS.get().listings(config)
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


def _reject_misspelling(config: "BusConfig", name: str, listed: Mapping[str, CachedListing]) -> None:
    """Raise `ToolNotFound` if a cached or built-in tool has a similar name."""
    from toolbus.lock.file import NAME, lock_path

    tools = [(alias, *pair) for alias, listing in listed.items() for pair in listing.origins.items()]
    own = [LIST_RESOURCES.name, READ_RESOURCE.name] if config.resource_tools in (True, "bus") else []
    if name in own:
        return
    known = [f"{alias}/{tool}" if "/" in name else public for alias, public, tool in tools]
    alike = [public for _, public, tool in tools if tool == name]
    is_locked = config.file is not None and lock_path(config.file).exists()
    step = (
        f"not in {NAME}; 'toolbus lock diff' shows what is new"
        if is_locked
        else "run 'toolbus tools' to refresh the list"
    )
    error = ToolNotFound(name, known + own, alike=alike, remark=f" ({step})")
    if error.close_matches:
        raise error


def candidate_servers(config: "BusConfig", name: str) -> list[str]:
    """The servers that may have a tool of this name; the others are not started."""
    prefixes = {alias: server.prefix for alias, server in config.servers.items()}
    return [
        alias
        for alias in config.servers
        if name.startswith(f"{alias}/") or may_name(config.naming, prefixes, alias, name)
    ]
