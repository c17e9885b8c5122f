"""Sign in to a server, and sign out again: for programs that do it outside of a connection."""

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from toolbus.config import Resolved, ServerConfig
from toolbus.connect.auth.failure import AuthFailure
from toolbus.connect.auth.oauth.flow import OAuthFlow
from toolbus.core.ask.interactions import LoginHandler
from toolbus.core.values.errors import SignInFailed
from toolbus.state.tokens.login import Login
from toolbus.state.tokens.tokens import TokenSource

Result = TypeVar("Result")


class OAuthClient:
    """The login of one user to one server; failures are `SignInFailed`, or `TokenStoreError`."""

    def __init__(self, config: ServerConfig, values: Resolved, tokens: TokenSource, user: str = "") -> None:
        self._alias = config.alias
        self._redacted = values.redacted
        self._flow = OAuthFlow(config, values, tokens, user)

    @property
    def resource(self) -> str:
        """The server, as the name of its tokens."""
        return self._flow.resource

    async def login(self) -> Login | None:
        """The stored login."""
        return await self._reported(self._flow.login())

    async def discover(self) -> None:
        """Find out whether a person could sign in: the server, and its authorization server, are asked."""
        await self._reported(self._flow.discover_for_person())

    async def sign_in(
        self, handler: LoginHandler, *, scopes: Sequence[str] = (), device: bool = False
    ) -> Login:
        """Let a person sign in, in a browser or with a code on another device, and store the login."""
        return await self._reported(self._sign_in(handler, scopes, device))

    async def _sign_in(self, handler: LoginHandler, scopes: Sequence[str], device: bool) -> Login:
        login = await self._flow.sign_in(handler, scopes=scopes, device=device)
        async with self._flow.lock():
            await self._flow.save(login)
        return login

    async def sign_out(self, *, revoke: bool = False) -> bool | None:
        """Forget the login; returns whether it was revoked, None if there was none."""
        return await self._reported(self._flow.sign_out(revoke=revoke))

    async def _reported(self, work: Awaitable[Result]) -> Result:
        # Not a context manager: the failure would be the context of our error, and may quote a secret.
        try:
            return await work
        except AuthFailure as failure:
            reported = as_error(failure, self._alias, self._redacted)
        raise reported


def as_error(failure: AuthFailure, server: str, redacted: Callable[[str], str]) -> SignInFailed:
    """The error that a user gets."""
    return SignInFailed(
        server, failure.step or "sign-in", redacted(failure.reason), hint=redacted(failure.hint)
    )
