"""The credentials of a server that wants OAuth tokens, for one user.

A valid token costs a request nothing: it is in memory. One renewal serves all requests that wait for it, in
all processes, and a token in use is renewed before it expires. A person is asked only if the authorization
server has rejected the renewal, never because a server could not be reached.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine, Generator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from typing import Any

from mcp.client.auth.utils import issuers_match, union_scopes

from toolbus.config import Resolved, ServerConfig
from toolbus.connect.auth.credentials import HttpRefusal, LinkOwner, static_headers
from toolbus.connect.auth.discovery import Challenge, challenge_of
from toolbus.connect.auth.failure import AuthFailure, PersonNeeded, Unreachable
from toolbus.connect.auth.flow import OAuthFlow, as_error
from toolbus.connect.auth.tokens import TokenInUse, usable_until
from toolbus.connect.transports.wire.pending import WireError
from toolbus.core.ask.interactions import ANSWER_WITHIN, LoginHandler, LoginRequest
from toolbus.core.values.errors import (
    ConnectFailed,
    LoginRequired,
    SignInFailed,
    TokenStoreError,
    ToolbusError,
)
from toolbus.state.tokens.tokens import Login

logger = logging.getLogger("toolbus")

MAX_STEP_UPS = 2
"""The number of times that one request may ask for more permissions."""
ASK_AGAIN_AFTER = 300.0
"""Seconds until a person who has declined is asked again."""

WATCH_INTERVAL = 5.0
"""Seconds between looks at the stored logins while somebody has to sign in."""
NOBODY = "nobody has signed in"
SIGNED_OUT = "you have signed out"
_CHECK = "check auth.scopes, auth.resource and auth.issuer"


class OAuthCredentials:
    """The tokens of one user for one server."""

    def __init__(self, config: ServerConfig, identity: LinkOwner) -> None:
        self._config = config
        self._identity = identity
        self.handler: LoginHandler | None = None
        self.answer_within = ANSWER_WITHIN
        self.paused: Callable[[], AbstractContextManager[None]] = nullcontext
        """Pauses the deadlines of the requests while a person signs in."""
        self.warn: Callable[[str], None] = logger.warning
        self._token = TokenInUse(self._renew_early)
        self._why_none = NOBODY
        """The reason why there is no login."""
        self._is_stored = False
        """Whether the login was stored, so that it is gone once it is there no longer."""
        self._is_loaded = False
        self.signed_in: Callable[[], None] = lambda: None
        """Called when somebody has signed in elsewhere, so that the server can be used."""
        self._renewal: asyncio.Task[None] | None = None
        self.more_needed: Callable[[str], None] = lambda reason: None
        """Called when a request needs permissions that somebody has to sign in for; the rest still works."""
        self._early_renewal: asyncio.Task[None] | None = None
        self._watch: asyncio.Task[None] | None = None
        self._declined_at = -ASK_AGAIN_AFTER

    def use(self, values: Resolved) -> None:
        """Use the values of a new attempt to connect."""
        self._values = values
        self._flow = OAuthFlow(self._config, values, self._identity)
        static = static_headers(values, self._identity.forwarded(self._config))
        static.pop("authorization", None)
        self._token.add_headers(static)
        if self._token.login is not None:
            self._adopt(self._token.login)
        else:
            self._is_loaded = False  # somebody may have signed in since the last attempt

    def close(self) -> None:
        self._token.close()
        for task in (self._renewal, self._watch):
            if task is not None:
                task.cancel()

    def headers(self, method: str, url: str) -> Mapping[str, str] | None:
        # Without a token the server decides whether one is needed.
        return self._token.headers(method, url) if self._is_loaded else None

    async def renew(self) -> None:
        await self._wait_for_early_renewal()
        if not self._token.is_valid:
            await self._shared(self._load_or_refresh, 401)

    async def refused(self, refusal: HttpRefusal) -> bool:
        challenge = challenge_of(refusal.headers)
        await self._wait_for_early_renewal()
        key = self._token.key
        if key is not None and key.learn_nonce(refusal.url, refusal.headers):
            return True
        if not self._token.is_in(refusal.sent):
            return True  # it was renewed meanwhile
        if refusal.status == 403:
            return await self._step_up(refusal, challenge)
        if refusal.earlier and "authorization" in refusal.sent:
            failure = AuthFailure(
                "the server rejects a token that was just issued", step="token", hint=_CHECK
            )
            raise self._wire_error(failure, 401)
        await self._shared(lambda: self._replace(challenge), 401)
        return True

    async def _step_up(self, refusal: HttpRefusal, challenge: Challenge) -> bool:
        """Ask for the permissions that a request needs, unless they were granted already."""
        granted = set((self._token.login.scope or "").split()) if self._token.login else set[str]()
        needed = set((challenge.scope or "").split())
        if not challenge.needs_scope or refusal.earlier >= MAX_STEP_UPS or (needed and needed <= granted):
            return False
        await self._shared(lambda: self._extend(challenge), 403)
        return True

    async def _shared(self, work: Callable[[], Coroutine[Any, Any, None]], status: int) -> None:
        """Join the renewal that is going on, or start one; a waiter that is cancelled does not end it."""
        if self._renewal is None or self._renewal.done():
            self._renewal = _started(work())
        renewal = self._renewal
        try:
            await asyncio.shield(renewal)
        except asyncio.CancelledError:
            if not renewal.cancelled():
                raise
            error = WireError("the connection was closed during the sign-in", sent=False)
        except AuthFailure as failure:
            error = self._wire_error(failure, status)
        except ToolbusError as failure:  # of the store, or of a secret that is read anew
            step = "store" if isinstance(failure, TokenStoreError) else "token"
            problem = SignInFailed(self._config.alias, step, self._values.redacted(str(failure)))
            error = WireError(str(failure), sent=False, lost=False, status=status, reported=problem)
        else:
            return
        raise error  # outside of `except`: what it came from may quote a secret

    def _wire_error(self, failure: AuthFailure, status: int) -> WireError:
        server, redacted = self._config.alias, self._values.redacted
        reason = redacted(failure.reason)
        if isinstance(failure, Unreachable):
            hint = failure.hint or "check the network, and try again"
            error = ConnectFailed(server, "sign-in", reason, hint=hint)
            error.sent = False
            return WireError(f"signing in failed: {reason}", sent=False, lost=False, reported=error)
        if isinstance(failure, PersonNeeded) and self._flow.is_personal:
            error = LoginRequired(
                server, reason, user=self._identity.user, scopes=failure.scopes, status=status
            )
        else:
            error = as_error(failure, server, redacted)
        return WireError(reason, sent=False, lost=False, status=status, reported=error)

    # In the task of a renewal

    async def _load_or_refresh(self) -> None:
        """Take the stored login if it is valid, else renew it; without either, the server decides."""
        if await self._take_stored(None if self._token.login is None else self._token.login.access):
            return
        async with self._flow.lock():
            rejected = None if self._token.login is None else self._token.login.access
            if await self._take_stored(rejected):
                return  # another process has renewed it
            stored = await self._to_renew()
            if self._flow.is_exchange:  # not only if the server asks: it has to know for whom it works
                await self._keep(await self._flow.obtain(known=stored))
            elif stored is None or not stored.access:
                self._drop(SIGNED_OUT if self._is_stored else NOBODY)
            else:
                try:
                    await self._renew(stored)
                except PersonNeeded as needed:
                    await self._store_rejected(stored)
                    self._drop(needed.reason)

    async def _renew(self, login: Login) -> None:
        renew = self._flow.refresh(login) if self._flow.is_personal else self._flow.obtain(known=login)
        await self._keep(await renew)

    async def _to_renew(self) -> Login | None:
        """The login to renew: the stored one; for a program or an unstored login, the one in memory."""
        if not self._flow.is_personal:
            return self._token.login
        stored = await self._flow.login()
        return self._token.login if stored is None and not self._is_stored else stored

    async def _store_rejected(self, login: Login) -> None:
        """Store that a login cannot be renewed any more, so that no program tries."""
        if login.refresh is not None:
            with self._storing():
                await self._flow.save(replace(login, refresh=None))

    async def _replace(self, challenge: Challenge) -> None:
        """Replace a token that the server rejected, or get the first one."""
        before = self._token.login
        if not self._flow.is_personal:
            async with self._flow.lock():
                if before is None or not await self._take_stored(before.access):
                    await self._keep(await self._flow.obtain(challenge, before))
            return
        reason = self._why_none
        if before is None:
            if await self._take_stored(None):
                return
        else:
            async with self._flow.lock():
                if await self._take_stored(before.access):
                    return
                reason = await self._refresh_rejected(challenge)
                if not reason:
                    return
        await self._ask(challenge, reason)

    async def _refresh_rejected(self, challenge: Challenge) -> str:
        """Renew a login whose token the server rejected; returns why somebody has to sign in, if so."""
        stored = await self._to_renew()
        if stored is None:
            return SIGNED_OUT
        # The server may have moved to another authorization server, which must not see these.
        _, server = await self._flow.discover(challenge)
        if not issuers_match(stored.issuer, server.issuer):
            return "the server has moved to another authorization server"
        try:
            await self._keep(await self._flow.refresh(stored))
        except PersonNeeded as needed:
            await self._store_rejected(stored)
            return needed.reason
        return ""

    async def _extend(self, challenge: Challenge) -> None:
        """Get a token with more permissions."""
        if not self._flow.is_personal:
            await self._keep(await self._flow.obtain(challenge, self._token.login))
        elif self._token.login is None or not await self._take_stored(self._token.login.access):
            await self._ask(challenge, "the login lacks permissions")

    async def _ask(self, challenge: Challenge, reason: str) -> None:
        """Let a person sign in, if that is possible here."""
        # What was granted before must not get lost.
        granted = None if self._token.login is None else self._token.login.scope
        needed = PersonNeeded(
            reason, scopes=union_scopes(granted, challenge.scope) or "" if challenge.needs_scope else ""
        )
        if self.handler is None or time.monotonic() < self._declined_at + ASK_AGAIN_AFTER:
            if challenge.needs_scope and not self._is_watching:
                self.more_needed(reason)
            self._watch_store()
            raise needed
        try:
            with self.paused():
                async with asyncio.timeout(self.answer_within):
                    login = await self._flow.sign_in(_guarded(self.handler), challenge=challenge)
        except TimeoutError:
            self._declined_at = time.monotonic()
            raise PersonNeeded("nobody signed in in time") from None
        except PersonNeeded:
            self._declined_at = time.monotonic()
            raise
        self._adopt(login)
        with self._storing():
            async with self._flow.lock():
                await self._flow.save(login)

    def _watch_store(self) -> None:
        """Look from time to time whether somebody has signed in elsewhere: `toolbus login`."""
        if not self._is_watching:
            rejected = None if self._token.login is None else self._token.login.access
            self._watch = asyncio.get_running_loop().create_task(
                self._wait_for_login(rejected), name="toolbus wait for login"
            )

    @property
    def _is_watching(self) -> bool:
        return self._watch is not None and not self._watch.done()

    async def _wait_for_login(self, rejected: str | None) -> None:
        while True:
            await asyncio.sleep(WATCH_INTERVAL)
            try:
                if await self._take_stored(rejected):
                    self.signed_in()
                    return
            except (AuthFailure, ToolbusError) as error:
                logger.debug("stored logins cannot be read: %s", self._values.redacted(str(error)))

    async def _take_stored(self, rejected: str | None) -> bool:
        """Use the stored login if it is valid and not the one that was rejected."""
        stored = await self._flow.login()
        if (
            stored is None
            or not stored.access
            or stored.access == rejected
            or usable_until(stored) <= time.time()
        ):
            return False
        self._adopt(stored)
        self._is_stored = True
        return True

    async def _keep(self, login: Login) -> None:
        """Use a login, and store it; if that fails it is still good for this process."""
        self._adopt(login)
        with self._storing():
            await self._flow.save(login)

    @contextmanager
    def _storing(self) -> Generator[None]:
        try:
            yield
            self._is_stored = True
        except ToolbusError as error:
            self.warn(f"the new login could not be stored: {error}")

    def _drop(self, reason: str = NOBODY) -> None:
        self._token.clear()
        self._is_loaded, self._why_none = True, reason

    def _adopt(self, login: Login) -> None:
        self._values.redacted.learn(login.access)
        if login.refresh:
            self._values.redacted.learn(login.refresh)
        self._is_loaded = True
        self._token.set(login, renews=login.refresh is not None or not self._flow.is_personal)

    def _renew_early(self) -> None:
        if self._renewal is None or self._renewal.done():
            self._renewal = self._early_renewal = _started(self._renew_quietly())

    async def _wait_for_early_renewal(self) -> None:
        """Wait for a renewal in the background, which reports no failure."""
        if self._early_renewal is not None and not self._early_renewal.done():
            await asyncio.wait({self._early_renewal})

    async def _renew_quietly(self) -> None:
        """Renew a token that is still valid: if that fails, nothing is lost yet."""
        login = self._token.login
        if login is None:
            return
        try:
            async with self._flow.lock():
                if await self._take_stored(login.access):
                    return
                if (stored := await self._to_renew()) is not None:
                    await self._renew(stored)
        except (AuthFailure, ToolbusError) as error:
            reason = self._values.redacted(str(error))
            logger.debug("the login of server %r was not renewed early: %s", self._config.alias, reason)


def _started(work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
    task = asyncio.get_running_loop().create_task(work, name="toolbus renew login")
    # All who waited for it may have gone.
    task.add_done_callback(lambda done: done.cancelled() or done.exception())
    return task


def _guarded(handler: LoginHandler) -> LoginHandler:
    """The handler of the host, whose failure is not one of the server."""

    async def ask(request: LoginRequest) -> str | None:
        try:
            return await handler(request)
        except ToolbusError:
            raise
        except Exception as error:  # the host's code: whatever it raises, nobody signs in
            raise AuthFailure(f"the login handler raised {type(error).__name__}", step="sign-in") from error

    return ask
