"""`toolbus login` and `logout`: sign in to servers, show who is signed in, and sign out."""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from toolbus.cli.command import CommandResult, Invocation, config_command
from toolbus.cli.completion import server_names
from toolbus.cli.errors import FAILED, Usage
from toolbus.cli.output.screen import Cell, visible
from toolbus.core.values.errors import ServerError, SignInFailed, ToolbusError, problem_of
from toolbus.core.values.records import JSON

if TYPE_CHECKING:
    from toolbus.config import BusConfig, ServerConfig
    from toolbus.state.tokens.tokens import Login, TokenSource

UNITS = (("d", 86400), ("h", 3600), ("min", 60), ("s", 1))
_Server = Annotated[
    str,
    typer.Argument(metavar="SERVER", help="The server's name in the config.", autocompletion=server_names),
]
_User = Annotated[
    str,
    typer.Option("--user", metavar="NAME", show_default=False, help="Whose login; default: the only user's."),
]


@config_command
async def login(
    own: Invocation,
    server: Annotated[
        str | None,
        typer.Argument(
            metavar="SERVER",
            help="The server's name in the config; without it, show who is signed in to which server.",
            autocompletion=server_names,
        ),
    ] = None,
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
) -> CommandResult:
    """Sign in to a server; without SERVER, list the logins.

    The server has auth: oauth in the config. Opens your browser, if there is one, and waits until it
    comes back. If it cannot (over SSH, in a container), paste the URL of the page it ends on, or the code
    in it.
    """
    if server is None:
        if user or no_browser or scopes or device:
            raise Usage("name the server to sign in to; without options, 'toolbus login' lists the logins")
        return await list_logins(own)
    from toolbus.cli import sign_in
    from toolbus.cli.sign_in import LoginPrompt

    [alias] = own.selected([server])
    if sign_in.signs_in_by_itself(own.config.servers[alias]):
        document = {"server": alias, "user": "", "signs_in_by_itself": True}
        return CommandResult(document, f"server {alias!r} signs in by itself; nothing to do")
    sign_in.check_sign_in(own.config, alias)
    tokens = sign_in.lasting_tokens(own.config)
    options = sign_in.LoginOptions(
        user=user,
        opens_browser=not no_browser,
        scopes=tuple(scopes.replace(",", " ").split()),
        device=device,
    )
    with own.screen.spinner(f"contacting {alias}"):
        prompt = LoginPrompt(own.screen, opens_browser=options.opens_browser)
        signed_in = await sign_in.sign_in(own.config, alias, tokens, prompt, options)
    document = {"server": alias, **_login_json(signed_in), "tokens": tokens.place}
    return CommandResult(document, sign_in.signed_in_line(alias, signed_in, tokens.place))


@config_command
async def logout(
    own: Invocation,
    server: _Server,
    user: _User = "",
    revoke: Annotated[
        bool, typer.Option("--revoke", help="Also have the authorization server revoke the tokens.")
    ] = False,
) -> CommandResult:
    """Sign out of a server: forget its tokens."""
    from toolbus.cli import sign_in

    [alias] = own.selected([server])
    if not sign_in.signs_in_by_itself(own.config.servers[alias]):
        sign_in.check_sign_in(own.config, alias)
    tokens = sign_in.lasting_tokens(own.config)
    with own.screen.spinner(f"signing out of {alias}"):
        client = await sign_in.oauth_client(own.config, alias, tokens, user)
        known = await client.login()
        # A record without tokens is only the registration of the client.
        was_signed_in = known is not None and bool(known.access)
        try:
            revoked = await client.sign_out(revoke=revoke and was_signed_in)
        except SignInFailed as error:
            step = "try again, or sign out without --revoke" if revoke else error.hint
            raise ServerError(alias, f"not signed out: {error.reason}; {step}") from error
        others = [] if was_signed_in else await tokens.logins(client.resource)
    is_revoked = bool(revoked) if revoke and was_signed_in else None
    document = {
        "server": alias,
        "user": user,
        "removed": was_signed_in,
        "revoked": is_revoked,
        "tokens": tokens.place,
    }
    who = f"{alias} as {user}" if user else alias
    if was_signed_in:
        line = f"signed out of {who}; {_removed(tokens.place, is_revoked)}"
    else:
        users = [login.user for login in others if login.access]
        line = f"not signed in to {who}; nothing was removed{_signed_in(users)}"
    return CommandResult(document, line, FAILED if is_revoked is False else 0)


def _signed_in(users: Sequence[str]) -> str:
    """The users who are signed in, and the option for each."""
    options = [f"--user {shlex.quote(user)}" if user else "without --user" for user in users]
    return f"; signed in: {', '.join(options)}" if options else ""


def _removed(place: str, is_revoked: bool | None) -> str:
    done = f"the tokens were removed from {place}"
    if is_revoked is None:
        return done
    if is_revoked:
        return f"{done}, and the authorization server has revoked them"
    return (
        f"{done}, but the authorization server did not confirm that it revoked them; revoke the access there"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Row:
    """The login of one user, or a server without one."""

    alias: str
    login: "Login | None" = None
    remark: str = ""
    """Instead of a login."""
    problem: str = ""
    """The reason why it is not known whether there is a login."""


@config_command
async def logins(own: Invocation) -> CommandResult:
    """Show who is signed in to which server."""
    return await list_logins(own)


async def list_logins(own: Invocation) -> CommandResult:
    """The logins to the servers of the config, and the servers without one."""
    from toolbus.cli.sign_in import lasting_tokens

    screen, tokens = own.screen, lasting_tokens(own.config)
    servers = [
        server
        for server in own.config.servers.values()
        if server.auth is not None and server.auth.type != "bearer" and server.mistake is None
    ]
    rows = [row for server in servers for row in await _rows(own.config, server, tokens)]

    def lines() -> None:
        if not rows:
            screen.note("no server has auth: oauth; see 'toolbus login --help'")
            return
        screen.table(("server", "user", "issuer", "scopes", "expires in", "renews"), map(_cells, rows))
        for row in rows:
            if row.problem:
                screen.note(f"{row.alias}: {row.problem}")
        screen.note(f"tokens are in {tokens.place}")

    return CommandResult({"tokens": tokens.place, "logins": list(map(_row_json, rows))}, lines)


async def _rows(config: "BusConfig", server: "ServerConfig", tokens: "TokenSource") -> list[_Row]:
    from toolbus.cli.sign_in import oauth_client, signs_in_by_itself

    try:
        client = await oauth_client(config, server.alias, tokens)
        found = [login for login in await tokens.logins(client.resource) if login.access]
    except ToolbusError as error:
        return [_Row(alias=server.alias, remark="unknown, see below", problem=problem_of(error))]
    missing = "signs in by itself" if signs_in_by_itself(server) else "not signed in"
    return [_Row(alias=server.alias, login=login) for login in found] or [
        _Row(alias=server.alias, remark=missing)
    ]


def _cells(row: _Row) -> list[Cell]:
    login = row.login
    if login is None:
        return [(row.alias, "bold"), "", (visible(row.remark), "yellow"), "", "", ""]
    left = login.expires_in
    return [
        (row.alias, "bold"),
        visible(login.user) or "-",
        visible(login.issuer),
        visible(login.scope or "") or "-",
        "unknown" if left is None else duration(left) if left > 0 else "expired",
        "yes" if login.refresh else "no",
    ]


def _row_json(row: _Row) -> JSON:
    if row.login is None:
        return {"server": row.alias, "signed_in": False, "remark": row.problem or row.remark}
    return {"server": row.alias, "signed_in": True, **_login_json(row.login)}


def _login_json(login: "Login") -> dict[str, JSON]:
    """The public facts about a login."""
    return {
        "user": login.user,
        "issuer": login.issuer,
        "scopes": (login.scope or "").split(),
        "expires_at": login.expires_at,
        "can_refresh": login.refresh is not None,
    }


def duration(seconds: float) -> str:
    """A time span in its largest unit: `58 min`."""
    for unit, size in UNITS:
        if seconds >= size:
            return f"{seconds // size:.0f} {unit}"
    return "0 s"
