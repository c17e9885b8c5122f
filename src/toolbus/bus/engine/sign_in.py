"""Let a person sign in to a server, with the secrets and the token store of somebody."""

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING

from toolbus.config import ServerConfig
from toolbus.connect.auth.credentials import LinkOwner
from toolbus.core.ask.interactions import LoginHandler
from toolbus.core.values.errors import SignInFailed

if TYPE_CHECKING:
    from toolbus.state.tokens.tokens import Login

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
    client = OAuthClient(server, await resolve(server, identity.secrets), identity.tokens, identity.user)
    try:
        async with asyncio.timeout(SIGN_IN_WITHIN):
            return await client.sign_in(handler, scopes=scopes, device=device)
    except TimeoutError:
        reason = f"nobody signed in within {SIGN_IN_WITHIN / 60:g} min"
        raise SignInFailed(server.alias, "sign-in", reason, hint="run it again") from None
