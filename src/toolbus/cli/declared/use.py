"""Arguments and options of the commands that use tools: scripts, search and skills."""

from typing import Annotated

import typer

from toolbus.cli.declared.parameters import Servers, Timeout
from toolbus.cli.options import SharedOptions, with_bus_settings


def add_run_commands(app: typer.Typer) -> None:
    """Add `run` to the program."""
    app.command(name="run")(with_bus_settings(run_script))


def run_script(
    settings: SharedOptions,
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


def add_search_commands(app: typer.Typer) -> None:
    """Add `search` to the program."""
    app.command()(with_bus_settings(search))


def search(
    settings: SharedOptions,
    words: Annotated[
        list[str], typer.Argument(metavar="WORDS", help="What the tool should do, or its name.")
    ],
    limit: Annotated[
        int, typer.Option("--limit", metavar="COUNT", min=1, help="Show at most this many.")
    ] = 8,
    wait: Annotated[
        float,
        typer.Option(
            "--wait",
            metavar="SECONDS",
            min=0,
            help="Wait up to this long until an encoder has read the tools.",
        ),
    ] = 10,
) -> int:
    """Find tools by what they do, or by name, best first.

    With a lockfile no server is started. Tools that do nearly the same are listed together. What an encoder
    has read is kept for the next search.
    """
    from toolbus.cli.commands.use.search import run

    return run(settings, " ".join(words), limit, wait)


SkillName = Annotated[
    str, typer.Argument(metavar="SKILL", help="The name of a skill, server/name, or its URI.")
]
SkillPath = Annotated[
    str | None, typer.Argument(metavar="FILE", help="A file of the skill, by default its SKILL.md.")
]


def add_skill_commands(app: typer.Typer) -> None:
    """Add `skills` and `skill` to the program."""
    app.command()(with_bus_settings(skills))
    app.command()(with_bus_settings(skill))


def skills(settings: SharedOptions, servers: Servers = None) -> int:
    """List skills: instructions for a task, with their files.

    Nothing of a skill is read for that.
    """
    from toolbus.cli.commands.use.skills import run

    return run(settings, servers or [])


def skill(settings: SharedOptions, name: SkillName, path: SkillPath = None) -> int:
    """Print a skill, or a file of it, if it is as the server listed it.

    toolbus skill handbook/refunds references/LIMITS.md
    """
    from toolbus.cli.commands.use.skill import run

    return run(settings, name, path)
