"""`toolbus call`: one tool, once."""

import json
import math
import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Literal

from toolbus.cli.completion.listings import Listing, current
from toolbus.cli.input.arguments import Given, read
from toolbus.cli.input.questions import interactions
from toolbus.cli.options import Settings
from toolbus.cli.outcome import FAILED, Usage
from toolbus.cli.output import results
from toolbus.cli.output.screen import Screen, one_line
from toolbus.cli.session import UNATTENDED, awaken, configured, opened
from toolbus.cli.session import run as run_async
from toolbus.config import BusConfig
from toolbus.core.errors import ToolNotFound
from toolbus.core.records import JSON, Progress, ToolResult, ToolSpec
from toolbus.shape import LIST_RESOURCES, READ_RESOURCE, declared, may_name


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """The options that go with a call, or with the rest of one."""

    timeout: float | None = None
    out: Path | None = None
    on_input: Literal["ask", "suspend"] = "ask"

    def check(self) -> None:
        """`Usage` if one of them makes no sense."""
        if self.timeout is not None and not (self.timeout > 0 and math.isfinite(self.timeout)):
            raise Usage(f"--timeout {self.timeout:g}: expected a number of seconds above 0")
        check_folder(self.out)


def check_folder(out: Path | None) -> None:
    """`Usage` if nothing can be saved there."""
    if out is not None and out.exists() and not out.is_dir():
        raise Usage(f"--out {str(out)!r} is a file; name a folder")


def run(settings: Settings, name: str, given: Given, wanted: Wanted) -> int:
    """Call the tool; the exit code tells whether it succeeded."""
    wanted.check()
    return run_async(lambda: _called(settings, name, given, wanted))


async def _called(settings: Settings, name: str, given: Given, wanted: Wanted) -> int:
    screen, config = Screen(settings), configured(settings)
    person = interactions(screen) if wanted.on_input == "ask" else UNATTENDED
    async with opened(screen, config, _needed(config, name), interactions=person) as bus:
        if name not in bus.catalog:
            # Perhaps a misspelt server: with all of them up, the error can name what was meant.
            await awaken(screen, bus, config)
        spec = await bus.find(name)
        if spec.origin.server not in config.servers:
            await awaken(screen, bus, config)  # a tool of the bus itself, about all of them
        _refuse_unknown(given.whole, spec)
        arguments = read(given, spec)
        began = time.perf_counter()
        with progress(screen, spec.name) as progressed:
            result = await bus.call(
                spec.name,
                arguments,
                timeout=wanted.timeout,
                on_progress=progressed,
                on_input=wanted.on_input,
            )
    return told(screen, spec, result, wanted.out, time.perf_counter() - began)


@contextmanager
def progress(screen: Screen, name: str) -> Generator[Progress]:
    """A line that shows how far a call has come, told by what this gives."""
    with screen.moving(name) as moving:

        def progressed(done: float, total: float | None, message: str | None) -> None:
            moving.came(done, total)
            moving.say(one_line(message or name))

        yield progressed


def told(screen: Screen, spec: ToolSpec, result: ToolResult, out: Path | None, seconds: float) -> int:
    """Print what came of a call: a result, or the question that it waits with; gives the exit code."""
    files: results.Saved = {} if out is None else results.saved(result, out, spec.name)
    waiting = None if result.pending is None else result.pending.to_json()
    if screen.as_json:
        screen.json(
            {
                **_facts(spec),
                "is_error": result.is_error,
                "text": result.text,
                "content": results.as_json(result, files),
                "structured": result.structured,
                "elapsed_ms": round(seconds * 1000, 1),
                # As it is when it stands alone, so that `resume` takes either.
                **({} if waiting is None else json.loads(waiting)),
            }
        )
    elif waiting is not None:
        print(waiting, flush=True)
        screen.note(f"{result.pending}; to answer, run: toolbus resume FILE")
    else:
        results.show(screen, result, files)
    return FAILED if result.is_error else 0


def _refuse_unknown(arguments: Mapping[str, JSON], spec: ToolSpec) -> None:
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


def _needed(config: BusConfig, name: str) -> list[str]:
    """The servers to start for a tool of that name; `ToolNotFound` if the last listing shows a slip."""
    likely = _likely(config, name)
    listed = current(config)
    if not all(alias in listed for alias in likely):
        return likely
    for alias in likely:
        if name in listed[alias].origins or name.removeprefix(f"{alias}/") in listed[alias].origins.values():
            return [alias]
    # Names that several servers may have depend on which of them were up when they were listed.
    if len(listed) == len(config.servers) and len(likely) <= 1:
        _refuse_slip(config, name, listed)
    return likely


def _refuse_slip(config: BusConfig, name: str, listed: Mapping[str, Listing]) -> None:
    """`ToolNotFound` if a listed tool, or one of the bus itself, is spelt much like it."""
    tools = [(alias, *pair) for alias, listing in listed.items() for pair in listing.origins.items()]
    own = [LIST_RESOURCES.name, READ_RESOURCE.name] if config.resource_tools in (True, "bus") else []
    if name in own:
        return
    known = [f"{alias}/{tool}" if "/" in name else public for alias, public, tool in tools]
    alike = [public for _, public, tool in tools if tool == name]
    error = ToolNotFound(name, known + own, alike=alike, remark=" (run 'toolbus tools' to refresh the list)")
    if error.close_matches:
        raise error


def _likely(config: BusConfig, name: str) -> list[str]:
    """The servers that may have a tool of that name: the others need not be started."""
    prefixes = {alias: server.prefix for alias, server in config.servers.items()}
    return [
        alias
        for alias in config.servers
        if name.startswith(f"{alias}/") or may_name(config.naming, prefixes, alias, name)
    ]
