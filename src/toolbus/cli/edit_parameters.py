"""The commands that change the servers of the config: their words and options."""

from typing import Annotated

import typer

from toolbus.cli.completion.candidates import all_server_names
from toolbus.cli.options import Settings, with_settings

_Name = Annotated[
    str,
    typer.Argument(metavar="NAME", help="The server's name in the config.", autocompletion=all_server_names),
]


def register(app: typer.Typer) -> None:
    """Add these commands to the program."""
    for command in (_add, _remove, _enable, _disable):
        app.command(command.__name__.removeprefix("_"))(with_settings(command))


def _add(
    settings: Settings,
    name: Annotated[str, typer.Argument(metavar="NAME", help="What to call the server.")],
    words: Annotated[
        list[str] | None,
        typer.Argument(metavar="URL | -- COMMAND", help="Its URL; or after -- its command, with arguments."),
    ] = None,
    env: Annotated[
        list[str] | None,
        typer.Option("--env", metavar="KEY=VALUE", help="A variable for the command; may be repeated."),
    ] = None,
    header: Annotated[
        list[str] | None,
        typer.Option("--header", metavar="KEY=VALUE", help="A header for the URL; may be repeated."),
    ] = None,
    transport: Annotated[
        str | None,
        typer.Option("--transport", metavar="NAME", help="streamable-http or sse; by default from the URL."),
    ] = None,
    cwd: Annotated[
        str | None, typer.Option("--cwd", metavar="DIR", help="The folder that the command runs in.")
    ] = None,
) -> int:
    """Add a server to the config; without a config, start one.

    \b
    toolbus add search https://example.com/mcp --header "Authorization=Bearer abc"
    toolbus add files -- npx -y @modelcontextprotocol/server-filesystem .
    """
    from toolbus.cli.commands.edit import Wanted, add

    wanted = Wanted(words=words or (), env=env or (), headers=header or (), transport=transport, cwd=cwd)
    return add(settings, name, wanted)


def _remove(settings: Settings, name: _Name) -> int:
    """Remove a server from the config."""
    from toolbus.cli.commands.edit import remove

    return remove(settings, name)


def _enable(settings: Settings, name: _Name) -> int:
    """Switch a server of the config on."""
    from toolbus.cli.commands.edit import switch

    return switch(settings, name, on=True)


def _disable(settings: Settings, name: _Name) -> int:
    """Switch a server of the config off; it stays in the file."""
    from toolbus.cli.commands.edit import switch

    return switch(settings, name, on=False)
