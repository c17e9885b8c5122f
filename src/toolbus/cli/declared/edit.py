"""Commands that edit the servers in the config: their arguments and options."""

from typing import Annotated

import typer

from toolbus.cli.completion.candidates import all_server_names
from toolbus.cli.options import Settings, with_settings

_Name = Annotated[
    str,
    typer.Argument(metavar="NAME", help="The server's name in the config.", autocompletion=all_server_names),
]


def add_edit_commands(app: typer.Typer) -> None:
    """Register these commands with the app."""
    for command in (_add, _remove, _enable, _disable):
        app.command(command.__name__.removeprefix("_"))(with_settings(command))


def _add(
    settings: Settings,
    name: Annotated[str, typer.Argument(metavar="NAME", help="A name for the server.")],
    target: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="URL | -- COMMAND", help="The server's URL; or after --, its command and arguments."
        ),
    ] = None,
    env: Annotated[
        list[str] | None,
        typer.Option("--env", metavar="KEY=VALUE", help="Environment variable for the command; repeatable."),
    ] = None,
    header: Annotated[
        list[str] | None,
        typer.Option("--header", metavar="KEY=VALUE", help="HTTP header for the URL; repeatable."),
    ] = None,
    auth: Annotated[
        str | None,
        typer.Option(
            "--auth",
            metavar="oauth|TOKEN",
            help="How to sign in to the URL: oauth for a sign-in page, or a token such as '${TOKEN}'.",
        ),
    ] = None,
    transport: Annotated[
        str | None,
        typer.Option(
            "--transport", metavar="NAME", help="streamable-http or sse; default: based on the URL."
        ),
    ] = None,
    cwd: Annotated[
        str | None, typer.Option("--cwd", metavar="DIR", help="Working directory of the command.")
    ] = None,
) -> int:
    """Add a server to the config; create the config if needed.

    \b
    toolbus add search https://example.com/mcp --header 'X-Api-Key=${SEARCH_KEY}'
    toolbus add linear https://mcp.linear.app/mcp --auth oauth
    toolbus add files -- npx -y @modelcontextprotocol/server-filesystem .
    """
    from toolbus.cli.commands.config.edit import NewServer, add

    server = NewServer(
        target=target or (), env=env or (), headers=header or (), auth=auth, transport=transport, cwd=cwd
    )
    return add(settings, name, server)


def _remove(settings: Settings, name: _Name) -> int:
    """Remove a server from the config."""
    from toolbus.cli.commands.config.edit import remove

    return remove(settings, name)


def _enable(settings: Settings, name: _Name) -> int:
    """Enable a server in the config."""
    from toolbus.cli.commands.config.edit import set_enabled

    return set_enabled(settings, name, enabled=True)


def _disable(settings: Settings, name: _Name) -> int:
    """Disable a server in the config without removing it."""
    from toolbus.cli.commands.config.edit import set_enabled

    return set_enabled(settings, name, enabled=False)
