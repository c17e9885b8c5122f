"""The store of a config, the values in it instead of in files of the user, and sign-ins."""

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from toolbus.config import BusConfig, GetSecret, Secrets, ServerConfig
from toolbus.config.secrets.lookup import MissingValue
from toolbus.config.secrets.reference import Reference, parsed
from toolbus.config.settings.store import StoreSetting
from toolbus.connect.auth.credentials import LinkOwner
from toolbus.core.ask.interactions import LoginHandler
from toolbus.core.values.errors import ConfigError, SignInFailed
from toolbus.policy.answers import StoredAnswers, file_answers
from toolbus.state.store.database import StoreUrl, parse_store_url
from toolbus.state.store.store import Store
from toolbus.state.tokens.store import KeptTokens, TokenLocks
from toolbus.state.tokens.tokens import TokenSource, open_tokens

if TYPE_CHECKING:
    from toolbus.state.tokens.tokens import Login

_COMMAND_PATIENCE = 3.0


def store_of(config: BusConfig, get_secret: GetSecret | None = None) -> Store | None:
    """The store of a config, which is opened when it is first used; None if it has none."""
    return None if config.store is None else Store(partial(store_url, config, config.store, get_secret))


def store_for_command(config: BusConfig) -> Store | None:
    """The same for a command, whose user waits: if the database does not respond, it fails soon."""
    store = store_of(config)
    if store is not None:
        store.patience = _COMMAND_PATIENCE
    return store


def tokens_in(config: BusConfig, store: Store | None) -> TokenSource:
    """The tokens of a config: `auto` is the store, if there is one."""
    if store is None or config.store is None or config.tokens != "auto":
        return open_tokens(config.tokens)
    return TokenSource(KeptTokens(store, "check the database", config.store.seconds), TokenLocks([store]))


def answers_of(config: BusConfig) -> StoredAnswers | None:
    """The lasting answers of a config, for commands; None if it has no file to keep them for."""
    store = store_for_command(config)
    if store is not None:
        return StoredAnswers(store)
    return None if config.file is None else file_answers(config.file)


async def store_url(
    config: BusConfig, setting: StoreSetting, get_secret: GetSecret | None = None
) -> StoreUrl:
    """The URL with its references looked up; ConfigError if one has no value, or it is not a URL."""
    secrets, url = Secrets(get_secret, config.folder, config.reviewed), ""
    for part in parsed(setting.url, key="store.url"):
        if isinstance(part, Reference):
            found = await secrets.find(part)
            if isinstance(found, MissingValue):
                raise ConfigError(f"{part.label} {found.reason}", key="store.url")
            url += found.value
        else:
            url += part
    try:
        return parse_store_url(url, config.folder)
    except ValueError as error:
        raise ConfigError(str(error), key="store.url") from None


# Sign-ins

SIGN_IN_WITHIN = 1800.0
"""Seconds that a person has; codes for other devices live about as long."""


async def sign_in(
    server: ServerConfig,
    identity: LinkOwner,
    handler: LoginHandler,
    *,
    scopes: Sequence[str] = (),
    device: bool = False,
) -> "Login":
    """Sign in and store the login; `SignInFailed` if that fails, or takes too long."""
    # Imported here: it takes the SDK with it.
    from toolbus.connect.auth.flow import OAuthClient
    from toolbus.connect.opening.attempt import resolve

    if server.mistake is not None:
        raise server.mistake
    if server.auth is None or server.auth.type != "oauth":
        reason = "nobody can sign in, because its config has no auth: oauth"
        raise SignInFailed(server.alias, "sign-in", reason, hint="add it next to its url")
    client = OAuthClient(server, await resolve(server, identity.secrets), identity)
    try:
        async with asyncio.timeout(SIGN_IN_WITHIN):
            return await client.sign_in(handler, scopes=scopes, device=device)
    except TimeoutError:
        reason = f"nobody signed in within {SIGN_IN_WITHIN / 60:g} min"
        raise SignInFailed(server.alias, "sign-in", reason, hint="run it again") from None
