"""Commands to sign in to servers and out again: their arguments and options."""

from typing import Annotated

import typer

from toolbus.cli.completion.candidates import server_names
from toolbus.cli.options import Settings, with_config_settings

_Server = Annotated[
    str,
    typer.Argument(metavar="SERVER", help="The server's name in the config.", autocompletion=server_names),
]
_User = Annotated[
    str,
    typer.Option("--user", metavar="NAME", show_default=False, help="Whose login; default: the only user's."),
]


def add_login_commands(app: typer.Typer) -> None:
    """Register these commands with the app."""
    app.command("login")(with_config_settings(_login))
    app.command("logins")(with_config_settings(_logins))
    app.command("logout")(with_config_settings(_logout))


def _login(
    settings: Settings,
    server: _Server,
    user: _User = "",
    no_browser: Annotated[
        bool, typer.Option("--no-browser", help="Do not open a browser; only print the URL.")
    ] = False,
    scopes: Annotated[
        str,
        typer.Option(
            "--scopes",
            metavar="'A B'",
            show_default=False,
            help="Scopes to request; default: those in the config, or those that the server asks for.",
        ),
    ] = "",
    device: Annotated[
        bool, typer.Option("--device", help="Sign in on another device, with a short code (device flow).")
    ] = False,
) -> int:
    """Sign in to a server that has auth: oauth.

    Opens your browser, if there is one, and waits until it comes back. If it cannot (over SSH, in a
    container), paste the URL of the page it ends on, or the code in it.
    """
    from toolbus.cli.commands.servers.login import login
    from toolbus.cli.sign_in import LoginOptions

    wanted = tuple(scopes.replace(",", " ").split())
    return login(
        settings, server, LoginOptions(user=user, opens_browser=not no_browser, scopes=wanted, device=device)
    )


def _logins(settings: Settings) -> int:
    """Show who is signed in to which server."""
    from toolbus.cli.commands.servers.login import logins

    return logins(settings)


def _logout(
    settings: Settings,
    server: _Server,
    user: _User = "",
    revoke: Annotated[
        bool, typer.Option("--revoke", help="Also have the authorization server revoke the tokens.")
    ] = False,
) -> int:
    """Sign out of a server: forget its tokens."""
    from toolbus.cli.commands.servers.login import logout

    return logout(settings, server, user, revoke=revoke)
