"""The command that runs scripts."""

from typing import Annotated

import typer

from toolbus.cli.declared.parameters import Timeout
from toolbus.cli.options import Settings, with_bus_settings


def add_run_commands(app: typer.Typer) -> None:
    """Add `run` to the program."""
    app.command(name="run")(with_bus_settings(run_script))


def run_script(
    settings: Settings,
    script: Annotated[
        str | None, typer.Argument(metavar="SCRIPT", help="A Python file, or - for stdin.")
    ] = None,
    arguments: Annotated[
        list[str] | None, typer.Argument(metavar="ARGS", help="What the script gets as args.")
    ] = None,
    timeout: Timeout = None,
    check: Annotated[bool, typer.Option("--check", help="Only look for mistakes; run nothing.")] = False,
    stubs: Annotated[
        bool, typer.Option("--stubs", help="Print the functions that SCRIPT uses, or all without SCRIPT.")
    ] = False,
) -> int:
    """Run a Python script that calls tools, in a sandbox without files and network.

    Each tool is an async function: hits = await docs_search(query="rate limits"). The last expression is
    the result. If a person has to be asked and there is no terminal, prints the suspended script, for
    'toolbus resume'. Requires pip install "toolbus[code]".
    """
    from toolbus.cli.commands.use.run import RunOptions, run

    return run(settings, script, arguments or [], RunOptions(timeout=timeout, check=check, stubs=stubs))
