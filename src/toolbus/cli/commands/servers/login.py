"""`toolbus login`, `logins` and `logout`: sign in to servers, show who is signed in, and sign out."""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.text import Text

from toolbus.cli.errors import FAILED
from toolbus.cli.options import SharedOptions
from toolbus.cli.output.screen import Screen, visible
from toolbus.cli.session import async_command, load_trusted_config, selected_servers
from toolbus.cli.sign_in import (
    LoginOptions,
    LoginPrompt,
    check_sign_in,
    lasting_tokens,
    oauth_client,
    sign_in,
    signed_in_line,
    signs_in_by_itself,
)
from toolbus.config import BusConfig, ServerConfig
from toolbus.core.values.errors import ServerError, SignInFailed, ToolbusError, problem_of
from toolbus.core.values.records import JSON

if TYPE_CHECKING:
    from toolbus.state.tokens.login import Login
    from toolbus.state.tokens.tokens import TokenSource

UNITS = (("d", 86400), ("h", 3600), ("min", 60), ("s", 1))


@async_command
async def login(settings: SharedOptions, alias: str, options: LoginOptions) -> int:
    """Sign in to the server; the tokens are stored for all commands and programs."""
    screen, config = Screen(settings), load_trusted_config(settings)
    [alias] = selected_servers(config, [alias])
    if signs_in_by_itself(config.servers[alias]):
        return _print_nothing_to_do(screen, alias)
    check_sign_in(config, alias)
    tokens = lasting_tokens(config)
    with screen.spinner(f"contacting {alias}"):
        prompt = LoginPrompt(screen, opens_browser=options.opens_browser)
        signed_in = await sign_in(config, alias, tokens, prompt, options)
    if screen.as_json:
        screen.json({"server": alias, **_login_json(signed_in), "tokens": tokens.place})
    else:
        screen.print(Text(visible(signed_in_line(alias, signed_in, tokens.place))))
    return 0


def _print_nothing_to_do(screen: Screen, alias: str) -> int:
    if screen.as_json:
        screen.json({"server": alias, "user": "", "signs_in_by_itself": True})
    else:
        screen.print(Text(f"server {alias!r} signs in by itself; nothing to do"))
    return 0


@async_command
async def logout(settings: SharedOptions, alias: str, user: str, *, revoke: bool) -> int:
    """Forget a login; exit 1 if the authorization server was to revoke it and did not confirm that."""
    screen, config = Screen(settings), load_trusted_config(settings)
    [alias] = selected_servers(config, [alias])
    if not signs_in_by_itself(config.servers[alias]):
        check_sign_in(config, alias)
    tokens = lasting_tokens(config)
    with screen.spinner(f"signing out of {alias}"):
        client = await oauth_client(config, alias, tokens, user)
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
    if screen.as_json:
        facts = {"server": alias, "user": user, "removed": was_signed_in, "revoked": is_revoked}
        screen.json({**facts, "tokens": tokens.place})
        return FAILED if is_revoked is False else 0
    who = f"{alias} as {user}" if user else alias
    if was_signed_in:
        screen.print(Text(visible(f"signed out of {who}; {_removed(tokens.place, is_revoked)}")))
    else:
        users = [login.user for login in others if login.access]
        screen.print(Text(visible(f"not signed in to {who}; nothing was removed{_signed_in(users)}")))
    return FAILED if is_revoked is False else 0


def _signed_in(users: Sequence[str]) -> str:
    """Whose logins there are, and the option for each."""
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
    """What is known about the login of one user, or about a server without one."""

    alias: str
    login: "Login | None" = None
    remark: str = ""
    """Instead of a login."""
    problem: str = ""
    """Why it is not known whether there is one."""


@async_command
async def logins(settings: SharedOptions) -> int:
    """Show who is signed in to which server, never a token."""
    screen, config = Screen(settings), load_trusted_config(settings)
    tokens = lasting_tokens(config)
    servers = [
        server
        for server in config.servers.values()
        if server.auth is not None and server.auth.type != "bearer" and server.mistake is None
    ]
    rows = [row for server in servers for row in await _rows(config, server, tokens)]
    if screen.as_json:
        screen.json({"tokens": tokens.place, "logins": [_row_json(row) for row in rows]})
    elif rows:
        header = ("server", "user", "issuer", "scopes", "expires in", "renews")
        cells = [[Text(name, style="dim") for name in header], *map(_cells, rows)]
        screen.rows(cells, indent=0, max_lines=None)
        for row in rows:
            if row.problem:
                screen.note(f"{row.alias}: {row.problem}")
        screen.note(f"tokens are in {tokens.place}")
    else:
        screen.note("no server has auth: oauth; see 'toolbus login --help'")
    return 0


async def _rows(config: BusConfig, server: ServerConfig, tokens: "TokenSource") -> list[_Row]:
    try:
        client = await oauth_client(config, server.alias, tokens)
        found = [login for login in await tokens.logins(client.resource) if login.access]
    except ToolbusError as error:
        return [_Row(alias=server.alias, remark="unknown, see below", problem=problem_of(error))]
    missing = "signs in by itself" if signs_in_by_itself(server) else "not signed in"
    return [_Row(alias=server.alias, login=login) for login in found] or [
        _Row(alias=server.alias, remark=missing)
    ]


def _cells(row: _Row) -> list[Text]:
    login = row.login
    if login is None:
        return [
            Text(row.alias, style="bold"),
            Text(""),
            Text(visible(row.remark), style="yellow"),
            *[Text("")] * 3,
        ]
    left = login.expires_in
    return [
        Text(row.alias, style="bold"),
        Text(visible(login.user) or "-"),
        Text(visible(login.issuer)),
        Text(visible(login.scope or "") or "-"),
        Text("unknown" if left is None else duration(left) if left > 0 else "expired"),
        Text("yes" if login.refresh else "no"),
    ]


def _row_json(row: _Row) -> JSON:
    if row.login is None:
        return {"server": row.alias, "signed_in": False, "remark": row.problem or row.remark}
    return {"server": row.alias, "signed_in": True, **_login_json(row.login)}


def _login_json(login: "Login") -> dict[str, JSON]:
    """What anyone may know about a login."""
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
