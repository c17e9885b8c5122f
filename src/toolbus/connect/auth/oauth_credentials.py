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
from typing import Any

from mcp.client.auth.utils import issuers_match, union_scopes

from toolbus.config import Resolved, ServerConfig
from toolbus.connect.auth.challenge import Challenge, challenge_of
from toolbus.connect.auth.credentials import Refusal
from toolbus.connect.auth.dpop import DpopKey
from toolbus.connect.auth.failure import AuthFailure, PersonNeeded, Unreachable
from toolbus.connect.auth.identity import Identity
from toolbus.connect.auth.oauth_client import as_error
from toolbus.connect.auth.oauth_flow import OAuthFlow
from toolbus.connect.auth.static import static_headers
from toolbus.connect.transports.wire_error import WireError
from toolbus.core.errors import ConnectFailed, LoginRequired, SignInFailed, TokenStoreError, ToolbusError
from toolbus.core.interactions import ANSWER_WITHIN
from toolbus.core.login import LoginHandler
from toolbus.state.tokens.login import Login

logger = logging.getLogger("toolbus")

RENEW_AT = 0.8
"""The part of a token's life after which it is renewed, if it is in use."""
EXPIRY_MARGIN = 0.05
"""The last part of a token's life, in which it may expire on the way; at most `MAX_MARGIN` seconds."""
MAX_MARGIN = 30.0
MAX_STEP_UPS = 2
"""How often one request may lead to a question for more permissions."""
ASK_AGAIN_AFTER = 300.0
"""Seconds until a person who has declined is asked again."""

WATCH_INTERVAL = 5.0
"""Seconds between looks at the stored logins while somebody has to sign in."""
NOBODY = "nobody has signed in"
_CHECK = "check auth.scopes, auth.resource and auth.issuer"


class OAuthCredentials:
    """The tokens of one user for one server."""

    def __init__(self, config: ServerConfig, identity: Identity) -> None:
        self._config = config
        self._identity = identity
        self.handler: LoginHandler | None = None
        self.answer_within = ANSWER_WITHIN
        self.paused: Callable[[], AbstractContextManager[None]] = nullcontext
        """Pauses the deadlines of the requests while a person signs in."""
        self.warn: Callable[[str], None] = logger.warning
        self._login: Login | None = None
        self._valid_until = 0.0
        """Before this time the token is used as it is."""
        self._headers: Mapping[str, str] = {}
        self._key: DpopKey | None = None
        self._why_none = NOBODY
        """Why there is no login."""
        self._is_loaded = False
        self._is_used = False
        """Whether the token was used since it was issued."""
        self.signed_in: Callable[[], None] = lambda: None
        """Called when somebody has signed in elsewhere, so that the server can be used."""
        self._renewal: asyncio.Task[None] | None = None
        self.more_needed: Callable[[str], None] = lambda reason: None
        """Called when a request needs permissions that somebody has to sign in for; the rest still works."""
        self._early_renewal: asyncio.Task[None] | None = None
        self._watch: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._declined_at = -ASK_AGAIN_AFTER

    def use(self, values: Resolved) -> None:
        """Use the values of a new attempt to connect."""
        self._values = values
        self._flow = OAuthFlow(self._config, values, self._identity.tokens, self._identity.user)
        self._static = static_headers(values)
        self._static.pop("authorization", None)
        if self._login is not None:
            self._adopt(self._login)
        else:
            self._is_loaded = False  # somebody may have signed in since the last attempt

    def close(self) -> None:
        """Stop renewing."""
        if self._timer is not None:
            self._timer.cancel()
        for task in (self._renewal, self._watch):
            if task is not None:
                task.cancel()

    def headers(self, method: str, url: str) -> Mapping[str, str] | None:
        login = self._login
        if login is None:
            # Without a token the server decides whether one is needed.
            return self._static if self._is_loaded else None
        if time.time() >= self._valid_until:
            return None
        self._is_used = True
        if self._key is None:
            return self._headers
        return {**self._headers, "dpop": self._key.proof(method, url, login.access)}

    async def renew(self) -> None:
        """Load the login, and renew it if it has expired."""
        await self._wait_for_early_renewal()
        if self._login is None or time.time() >= self._valid_until:
            await self._shared(self._load_or_refresh, 401)

    async def refused(self, refusal: Refusal) -> bool:
        challenge = challenge_of(refusal.headers)
        await self._wait_for_early_renewal()
        if self._key is not None and self._key.learn_nonce(refusal.url, refusal.headers):
            return True
        if not self._is_current(refusal.sent):
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

    async def _step_up(self, refusal: Refusal, challenge: Challenge) -> bool:
        """Ask for the permissions that a request needs, unless they were granted already."""
        granted = set((self._login.scope or "").split()) if self._login else set[str]()
        needed = set((challenge.scope or "").split())
        if not challenge.needs_scope or refusal.earlier >= MAX_STEP_UPS or (needed and needed <= granted):
            return False
        await self._shared(lambda: self._extend(challenge), 403)
        return True

    def _is_current(self, sent: Mapping[str, str]) -> bool:
        current = self._headers if self._login is not None else self._static
        return sent.get("authorization") == current.get("authorization")

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
            cause = f"the login cannot be renewed: {reason}"
            error = ConnectFailed(server, "sign-in", cause, hint="it is tried again")
            return WireError(cause, sent=False, lost=False, reported=error)
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
        if await self._take_stored(None if self._login is None else self._login.access):
            return
        async with self._flow.lock():
            rejected = None if self._login is None else self._login.access
            if await self._take_stored(rejected):
                return  # another process has renewed it
            stored = await self._flow.login() or self._login
            if stored is None or not stored.access:
                self._drop()
            elif stored.refresh is not None:
                try:
                    await self._keep(await self._flow.refresh(stored))
                except PersonNeeded as needed:
                    self._drop(needed.reason)
            elif self._flow.is_personal:
                self._drop("the login has expired")
            else:
                await self._keep(await self._flow.obtain())

    async def _replace(self, challenge: Challenge) -> None:
        """Replace a token that the server rejected, or get the first one."""
        before = self._login
        if not self._flow.is_personal:
            await self._keep(await self._flow.obtain(challenge))
            return
        reason = self._why_none
        if before is None:
            if await self._take_stored(None):
                return
        else:
            async with self._flow.lock():
                if await self._take_stored(before.access):
                    return
                stored = await self._flow.login() or before
                # The server may have moved to another authorization server, which must not see these.
                _, server = await self._flow.discover(challenge)
                if issuers_match(stored.issuer, server.issuer):
                    try:
                        await self._keep(await self._flow.refresh(stored))
                        return
                    except PersonNeeded as needed:
                        reason = needed.reason
                else:
                    reason = "the server has moved to another authorization server"
        await self._ask(challenge, reason)

    async def _extend(self, challenge: Challenge) -> None:
        """Get a token with more permissions."""
        if not self._flow.is_personal:
            await self._keep(await self._flow.obtain(challenge))
        elif self._login is None or not await self._take_stored(self._login.access):
            await self._ask(challenge, "the login lacks permissions")

    async def _ask(self, challenge: Challenge, reason: str) -> None:
        """Let a person sign in, if that is possible here."""
        # What was granted before must not get lost.
        granted = None if self._login is None else self._login.scope
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
                    login = await self._flow.sign_in(self.handler, challenge=challenge)
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
            rejected = None if self._login is None else self._login.access
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
            or _usable_until(stored) <= time.time()
        ):
            return False
        self._adopt(stored)
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
        except ToolbusError as error:
            self.warn(f"the new login could not be stored: {error}")

    def _drop(self, reason: str = NOBODY) -> None:
        self._login, self._is_loaded, self._why_none = None, True, reason

    def _adopt(self, login: Login) -> None:
        self._values.redacted.learn(login.access)
        if login.refresh:
            self._values.redacted.learn(login.refresh)
        self._login, self._is_loaded, self._is_used = login, True, False
        self._headers = {**self._static, "authorization": f"{login.type} {login.access}"}
        if login.jwk is None:
            self._key = None
        elif self._key is None or self._key.jwk != login.jwk:
            self._key = DpopKey(login.jwk)
        self._valid_until = _usable_until(login)
        self._schedule(login)

    def _schedule(self, login: Login) -> None:
        """Renew the token in the background before it expires."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if login.expires_at is not None and (login.refresh is not None or not self._flow.is_personal):
            lifetime = login.expires_at - login.renewed_at
            delay = login.renewed_at + RENEW_AT * lifetime - time.time()
            self._timer = asyncio.get_running_loop().call_later(max(0.0, delay), self._renew_early)

    def _renew_early(self) -> None:
        self._timer = None
        if self._is_used and (self._renewal is None or self._renewal.done()):
            self._renewal = self._early_renewal = _started(self._renew_quietly())

    async def _wait_for_early_renewal(self) -> None:
        """Wait for a renewal in the background, which reports no failure."""
        if self._early_renewal is not None and not self._early_renewal.done():
            await asyncio.wait({self._early_renewal})

    async def _renew_quietly(self) -> None:
        """Renew a token that is still valid: if that fails, nothing is lost yet."""
        login = self._login
        if login is None:
            return
        try:
            async with self._flow.lock():
                if await self._take_stored(login.access):
                    return
                renewed = await (self._flow.refresh(login) if login.refresh else self._flow.obtain())
                await self._keep(renewed)
        except (AuthFailure, ToolbusError) as error:
            reason = self._values.redacted(str(error))
            logger.debug("the login of server %r was not renewed early: %s", self._config.alias, reason)


def _started(work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
    task = asyncio.get_running_loop().create_task(work, name="toolbus renew login")
    # All who waited for it may have gone.
    task.add_done_callback(lambda done: done.cancelled() or done.exception())
    return task


def _usable_until(login: Login) -> float:
    """The time until which the token is sent; a request takes a moment to arrive."""
    if login.expires_at is None:
        return float("inf")
    lifetime = max(0.0, login.expires_at - login.renewed_at)
    return login.expires_at - min(MAX_MARGIN, EXPIRY_MARGIN * lifetime)
