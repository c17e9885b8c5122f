"""Sign in to a server of a config, for the commands that do so: `login`, `chat` and `watch`."""

import asyncio
import shlex
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from toolbus.bus.engine.stores import sign_in as bus_sign_in
from toolbus.bus.engine.stores import store_for_command, tokens_in
from toolbus.cli.errors import NoSignIn
from toolbus.cli.output.screen import short_path
from toolbus.cli.terminal import client_terminal
from toolbus.config import BusConfig, Secrets, ServerConfig
from toolbus.connect.auth.identity import LinkOwner
from toolbus.core.values.errors import ConfigError, LoginRequired
from toolbus.core.values.login import LoginHandler
from toolbus.state.tokens.tokens import TokenSource

if TYPE_CHECKING:
    from toolbus.bus.toolbus import Toolbus
    from toolbus.connect.auth.oauth.sign_in import OAuthClient
    from toolbus.state.tokens.login import Login

RETRY_SECONDS = 1.0
_LINES = {
    ".json": '"auth": "oauth"',
    ".jsonc": '"auth": "oauth"',
    ".toml": 'auth = "oauth"',
}


@dataclass(frozen=True, slots=True, kw_only=True)
class LoginOptions:
    """The options of `toolbus login`."""

    user: str = ""
    opens_browser: bool = True
    scopes: Sequence[str] = ()
    device: bool = False


def signs_in_by_itself(server: ServerConfig) -> bool:
    """Whether it gets its tokens without a person."""
    return server.auth is not None and server.auth.type not in ("oauth", "bearer")


def check_sign_in(config: BusConfig, alias: str) -> None:
    """Raise `NoSignIn` unless a person can sign in to the server, with what to change."""
    server = config.servers[alias]
    if server.mistake is not None:
        raise server.mistake
    if server.auth is not None and server.auth.type == "oauth":
        return
    if server.url is None:
        raise NoSignIn(f"server {alias!r} is a process, and has no sign-in; pass it credentials with env")
    if server.auth is not None or any(name.lower() == "authorization" for name in server.headers):
        raise NoSignIn(
            f"server {alias!r} has its credentials in the config; to sign in instead, replace them with "
            "auth: oauth"
        )
    suffix = "" if config.file is None else config.file[config.file.rfind(".") :].lower()
    where = f" in {short_path(config.file)}" if config.file else ""
    line = _LINES.get(suffix, "auth: oauth")
    raise NoSignIn(f"server {alias!r} has no auth: oauth{where}: add it next to its url", (f"    {line}",))


def tokens_of(config: BusConfig) -> TokenSource:
    """The token store of the config; in the background bus, the one that it uses."""
    if (client := client_terminal()) is not None:
        return client.bus.tokens
    return tokens_in(config, store_for_command(config))


def lasting_tokens(config: BusConfig) -> TokenSource:
    """The token store, for a command that ends at once; ConfigError if it would keep nothing."""
    if config.tokens == "memory":
        problem = "tokens: memory keeps nothing when a command ends; use auto, keyring or file:DIR"
        raise ConfigError(problem, file=config.file)
    return tokens_of(config)


async def oauth_client(config: BusConfig, alias: str, tokens: TokenSource, user: str = "") -> "OAuthClient":
    """The client that signs this user in and out; raises if a secret of the entry is missing."""
    # Imported here: it takes the SDK with it.
    from toolbus.connect.auth.oauth.sign_in import OAuthClient
    from toolbus.connect.opening.early import resolve

    server = config.servers[alias]
    secrets = Secrets(None, config.folder, config.reviewed, user)
    return OAuthClient(server, await resolve(server, secrets), tokens, user)


async def sign_in(
    config: BusConfig, alias: str, tokens: TokenSource, handler: LoginHandler, options: LoginOptions
) -> "Login":
    """Let a person sign in; `SignInFailed` if that fails, or takes too long."""
    secrets = Secrets(None, config.folder, config.reviewed, options.user)
    identity = LinkOwner(secrets=secrets, tokens=tokens, user=options.user)
    return await bus_sign_in(
        config.servers[alias], identity, handler, scopes=options.scopes, device=options.device
    )


def signed_in_line(alias: str, login: "Login", place: str) -> str:
    """The outcome: who, until when, and where the tokens are."""
    who = f" as {login.user}" if login.user else ""
    until = "" if login.expires_at is None else f" until {_clock(login.expires_at)}"
    renewed = " (renewed automatically)" if login.refresh else ", not renewed"
    return f"signed in to {alias}{who}{until}{renewed if until else ''}; tokens are in {place}"


def _clock(at: float) -> str:
    """The time of day, with the date unless it is today."""
    then, now = time.localtime(at), time.localtime()
    return time.strftime("%H:%M" if then[:3] == now[:3] else "%Y-%m-%d %H:%M", then)


def waiting_for_sign_in(bus: "Toolbus") -> list[str]:
    """The servers that wait for somebody to sign in."""
    return [alias for alias, error in bus.failures.items() if isinstance(error, LoginRequired)]


def needed_scopes(error: str, server: str) -> tuple[str, ...] | None:
    """The scopes of the login that an error asks for; None if it does not ask for one."""
    try:
        words = shlex.split(error.rpartition("sign in: ")[2])
    except ValueError:
        return None
    if words[:3] != ["toolbus", "login", server] or "--user" in words:
        return None
    return tuple(" ".join(words[4:]).split()) if words[3:4] == ["--scopes"] else ()


async def connect_signed_in(bus: "Toolbus", alias: str) -> None:
    """Connect a server after somebody has signed in to it."""
    try:
        await bus.connect(alias)
    except LoginRequired:
        # It was tried in the second before, and is not tried more often than that.
        await asyncio.sleep(RETRY_SECONDS)
        await bus.connect(alias)
