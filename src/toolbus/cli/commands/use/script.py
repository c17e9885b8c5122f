"""`toolbus script`: run a script that calls tools."""

import re
from typing import TYPE_CHECKING, Annotated

import typer

from toolbus.cli.command import CommandResult, Invocation, bus_group
from toolbus.cli.commands.use.call import candidate_servers
from toolbus.cli.errors import FAILED, Usage
from toolbus.cli.input.arguments import content
from toolbus.cli.output.results import call_progress, script_outcome
from toolbus.cli.parameters import Timeout
from toolbus.core.ask.interactions import Stopwatch

if TYPE_CHECKING:
    from toolbus.config import BusConfig

_AWAITED = re.compile(r"\bawait\s+(\w+)")


@bus_group
async def script(
    own: Invocation,
    file: Annotated[
        str | None, typer.Argument(metavar="SCRIPT", help="A Python file, or - for stdin.")
    ] = None,
    arguments: Annotated[
        list[str] | None, typer.Argument(metavar="ARGS", help="Arguments for the script, available as args.")
    ] = None,
    timeout: Timeout = None,
    check: Annotated[bool, typer.Option("--check", help="Only look for mistakes; run nothing.")] = False,
    stubs: Annotated[
        bool, typer.Option("--stubs", help="Print the functions that SCRIPT uses; without it, all.")
    ] = False,
) -> CommandResult:
    """Run a Python script that calls tools, in a sandbox.

    The sandbox has no files and no network. Each tool is an async function: hits = await
    docs_search(query="rate limits"). The last expression is the result. If a person has to be asked and
    there is no terminal, prints the suspended script, for 'toolbus call --resume'. Requires pip install
    "toolbus[code]".
    """
    code = None if file is None else _script(file)
    if code is None and not stubs:
        raise Usage("name a script, or - for stdin; --stubs shows what it can call")

    from toolbus.cli.session import command_line

    screen = own.screen
    async with own.bus(_servers(own.config, own.selected(), code), asks=True) as bus:
        scripts = bus.view(caller=command_line()).scripts
        if stubs:
            found = scripts.stubs(code)
            return CommandResult({"stubs": found}, lambda: print(found, flush=True))
        assert code is not None, "it was checked above"
        inputs = {"args": [*(arguments or [])]}
        if check:
            problem, notes = await scripts.examine(code, inputs)
            said = "\n".join(["it may run, although:", *notes]) if notes else None
            document = {"ok": problem is None, "problem": problem, "notes": [*notes]}
            shown = said if problem is None else problem
            return CommandResult(
                document, lambda: shown and screen.note(shown), 0 if problem is None else FAILED
            )
        watch = Stopwatch()
        with call_progress(screen, "script") as progressed:
            result = await scripts.run(code, inputs, timeout=timeout, on_progress=progressed)
    return script_outcome(screen, result, watch.seconds)


run = script  # its old name


def _script(file: str) -> str:
    try:
        return content(file, "SCRIPT").decode()
    except UnicodeDecodeError:
        raise Usage(f"SCRIPT: {file!r} is not text in UTF-8") from None


def _servers(config: "BusConfig", every: list[str], script: str | None) -> list[str]:
    """The servers whose tools the script may name; the others start when they are needed.

    If it calls a tool that no server seems to have, all servers start, to find similar names.
    """
    from toolbus.code.stubs import words

    awaited = set(_AWAITED.findall(script or "")) - {"asyncio"}
    if script is None or not all(candidate_servers(config, name) for name in awaited):
        return every
    likely = {alias for word in words(script) for alias in candidate_servers(config, word)}
    return [alias for alias in every if alias in likely]
