"""The command that finds tools."""

from typing import Annotated

import typer

from toolbus.cli.options import Settings, with_bus_settings


def add_search_commands(app: typer.Typer) -> None:
    """Add `search` to the program."""
    app.command()(with_bus_settings(search))


def search(
    settings: Settings,
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
