"""`toolbus run`: run a script that calls tools."""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from toolbus.cli.commands.use.call import CallOptions, call_progress, candidate_servers
from toolbus.cli.errors import FAILED, Usage
from toolbus.cli.input.arguments import content
from toolbus.cli.input.elicitation import terminal_interactions
from toolbus.cli.options import SharedOptions
from toolbus.cli.output import results
from toolbus.cli.output.screen import Screen, escaped_json
from toolbus.cli.session import async_command, command_line, load_trusted_config, open_bus, selected_servers
from toolbus.code.names import words
from toolbus.config import BusConfig
from toolbus.core.ask.interactions import Stopwatch
from toolbus.core.values.records import JSON, ToolResult
from toolbus.schema.values import entries_of

_AWAITED = re.compile(r"\bawait\s+(\w+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """The options of `run`."""

    timeout: float | None = None
    check: bool = False
    stubs: bool = False


@async_command
async def run(
    settings: SharedOptions, file: str | None, arguments: Sequence[str], options: RunOptions
) -> int:
    """Run the script; exit code 1 if it fails."""
    CallOptions(timeout=options.timeout).check()
    script = None if file is None else _script(file)
    if script is None and not options.stubs:
        raise Usage("name a script, or - for stdin; --stubs shows what it can call")
    screen, config = Screen(settings), load_trusted_config(settings)
    servers = _servers(config, script)
    async with open_bus(screen, config, servers, None, terminal_interactions(screen)) as bus:
        scripts = bus.view(caller=command_line()).scripts
        if options.stubs:
            return _print_stubs(screen, scripts.stubs(script))
        assert script is not None, "it was checked above"
        inputs = {"args": [*arguments]}
        if options.check:
            return _print_problem(screen, *await scripts.examine(script, inputs))
        watch = Stopwatch()
        with call_progress(screen, "script") as progressed:
            result = await scripts.run(script, inputs, timeout=options.timeout, on_progress=progressed)
    return print_outcome(screen, result, watch.seconds)


def _script(file: str) -> str:
    try:
        return content(file, "SCRIPT").decode()
    except UnicodeDecodeError:
        raise Usage(f"SCRIPT: {file!r} is not text in UTF-8") from None


def _servers(config: BusConfig, script: str | None) -> list[str]:
    """The servers whose tools the script may name; the others start when they are needed.

    All of them, if it calls a tool that no server seems to have: what is near it is then found.
    """
    every = selected_servers(config, ())
    awaited = set(_AWAITED.findall(script or "")) - {"asyncio"}
    if script is None or not all(candidate_servers(config, name) for name in awaited):
        return every
    likely = {alias for word in words(script) for alias in candidate_servers(config, word)}
    return [alias for alias in every if alias in likely]


def _print_stubs(screen: Screen, stubs: str) -> int:
    if screen.as_json:
        screen.json({"stubs": stubs})
    else:
        print(stubs, flush=True)
    return 0


def _print_problem(screen: Screen, problem: str | None, notes: Sequence[str]) -> int:
    if screen.as_json:
        screen.json({"ok": problem is None, "problem": problem, "notes": [*notes]})
    elif problem is not None:
        screen.note(problem)
    elif notes:
        screen.note("\n".join(["it may run, although:", *notes]))
    return 0 if problem is None else FAILED


def print_outcome(screen: Screen, result: ToolResult, seconds: float) -> int:
    """Print what came of a script, or the suspended script; return the exit code."""
    waiting = None if result.pending is None else json.loads(result.pending.to_json())
    if screen.as_json:
        facts: dict[str, JSON] = {"is_error": result.is_error, "text": result.text}
        facts |= entries_of(result.structured)
        # With the keys of a pending call, so that `resume` accepts it.
        screen.json({**facts, "elapsed_ms": round(seconds * 1000, 1), **(waiting or {})})
    elif waiting is not None:
        print(escaped_json(waiting), flush=True)
        screen.note(f"{result.pending}; to answer, run: toolbus resume FILE")
    else:
        # Its text has all that a person reads; the rest is for programs.
        results.print_result(screen, replace(result, structured=None), {})
    return FAILED if result.is_error else 0
