"""The tokens of the authorization server: issued for a grant, and worth nothing without it.

An access token is signed, so to check one takes no database: its grant is looked up in memory. A code and a
refresh token name their grant and their turn. One from an earlier turn was used before, so somebody has a
copy of it: then the grant is revoked.
"""

import asyncio
import logging
import re
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from toolbus.config.settings.serve import Serve
from toolbus.core.values.errors import StoreError
from toolbus.gateway.access.admission import CredentialDenied, CredentialHolder, CredentialUndecided
from toolbus.gateway.access.keys import LOOK_SECONDS, STALE_SECONDS
from toolbus.gateway.protocol.principal import Principal
from toolbus.gateway.sign_in.grants import GRANT, Grant, StoredGrants, Turn
from toolbus.state.values import Mirror, Values

if TYPE_CHECKING:
    from toolbus.gateway.sign_in.keys import SignInKeys

logger = logging.getLogger("toolbus")

CODE, REFRESH = "tbg_", "tbr_"
"""The first characters of a code, and of a refresh token."""
_FORM = re.compile(r"(tbg_|tbr_)([0-9a-f]{32})\.(\d{1,9})\.([A-Za-z0-9_-]{43})")
_MOST_REMEMBERED = 10_000
_MOST_CHARACTERS = 16_384


class SignInState:
    """The keys and the grants of the authorization server, shared by all its parts."""

    def __init__(self, values: Values, *, is_shared: bool = False) -> None:
        """`is_shared` says that others use the same values, in a database."""
        self.values = values
        self.grants = StoredGrants(values, Mirror(values, GRANT) if is_shared else None)
        self.note: Callable[[str], None] = logger.info
        """Reports what happens to grants; never a token."""
        self._keys: SignInKeys | None = None
        self._secret = b""
        self._looked = float("-inf")
        self._looking: asyncio.Task[None] | None = None
        self._opening = asyncio.Lock()

    @property
    def keys(self) -> "SignInKeys":
        assert self._keys is not None, "it is open"
        return self._keys

    async def open(self) -> None:
        """Read the keys and follow the grants; later, only look whether the keys were rotated.

        OSError, ValueError or StoreError if they cannot be read.
        """
        if self._keys is not None:
            if time.monotonic() - self._looked >= LOOK_SECONDS:
                self._looked = time.monotonic()
                # Nobody waits for a database that does not answer.
                self._looking = asyncio.create_task(self._look(), name="toolbus sign-in keys")
            return
        async with self._opening:
            if self.grants.mirror is not None:
                await self.grants.mirror.start()
            await self._read()
            self._looked = time.monotonic()

    async def _read(self) -> None:
        # Only for those who sign in: it imports all of cryptography.
        from toolbus.gateway.sign_in.keys import kept_secret, keys_of

        secret = await kept_secret(self.values)
        if secret != self._secret:
            self._keys, self._secret = keys_of(secret, self.values.now), secret

    async def _look(self) -> None:
        try:
            await self._read()
        except (StoreError, OSError, ValueError) as error:
            logger.warning("the keys of sign-ins cannot be read: %s", error)

    async def close(self) -> None:
        if self._looking is not None:
            self._looking.cancel()
        if self.grants.mirror is not None:
            await self.grants.mirror.close()


@dataclass(frozen=True, slots=True)
class CarriedTurn:
    """A code or a refresh token of ours."""

    grant: str
    number: int
    """The turn that it belongs to."""


def carried(keys: "SignInKeys", kind: str, grant: str, number: int) -> str:
    """The code or the refresh token for a turn of a grant."""
    named = f"{kind}{grant}.{number}"
    return f"{named}.{keys.signature('turn', named)}"


def read_carried(keys: "SignInKeys", kind: str, text: str) -> CarriedTurn | None:
    """The turn that a code or a refresh token stands for; None if we did not make it."""
    found = _FORM.fullmatch(text)
    if found is None or found[1] != kind:
        return None
    named, _, signature = text.rpartition(".")
    if not keys.is_signature("turn", named, signature):
        return None
    return CarriedTurn(found[2], int(found[3]))


async def current(state: SignInState, kind: str, text: str) -> tuple[Grant, Turn] | None:
    """The grant of a code or a refresh token that may be used; a used one ends the grant."""
    one = read_carried(state.keys, kind, text)
    found = None if one is None else await state.grants.found(one.grant)
    if one is None or found is None:
        return None
    if one.number != found[1].number:
        await end_stolen(state, found[0])
        return None
    return found


async def end_stolen(state: SignInState, grant: Grant) -> None:
    """Revoke a grant whose code or refresh token came a second time."""
    if await state.grants.end(grant.id):
        state.note(
            f"a used code or refresh token of {grant.client_name!r} came again, so the access that "
            f"{grant.person!r} gave to this client ended; their other clients keep theirs"
        )


def access_token(
    state: SignInState, issuer: str, grant: Grant, scopes: Iterable[str], seconds: float
) -> tuple[str, int]:
    """An access token for a grant, and the seconds for which it is valid."""
    now = state.values.now()
    seconds = max(1, int(min(seconds, grant.expires - now)))
    claims = {
        "iss": issuer,
        "sub": grant.person,
        "aud": grant.resource,
        "client_id": grant.client_id,
        "scope": " ".join(scopes),
        "grant": grant.id,
        "iat": int(now),
        "exp": int(now) + seconds,
        "jti": secrets.token_hex(16),
    }
    return state.keys.token(claims), seconds


class SignInTokens:
    """Checks the access tokens of our own authorization server."""

    def __init__(
        self, state: SignInState, serve: Serve, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._state = state
        self._issuer = serve.issuer or ""
        self._scopes = serve.scopes
        self._clock = clock
        self._grants: Mapping[str, Grant] = {}
        self._version: object = object()
        self._looked = float("-inf")
        self._remembered: OrderedDict[tuple[bytes, frozenset[str]], CredentialHolder] = OrderedDict()
        """The holders of tokens whose signature was checked."""
        self._keys: SignInKeys | None = None
        """The keys that checked them."""

    async def identity(self, token: str, audiences: Iterable[str]) -> CredentialHolder:
        """The holder of a token for one of the audiences; `CredentialDenied`, `CredentialUndecided`."""
        wanted = frozenset(audiences)
        place = (sha256(token.encode(errors="surrogateescape")).digest(), wanted)
        try:
            await self._state.open()
            if self._state.keys is not self._keys:  # they were rotated
                self._remembered.clear()
                self._keys = self._state.keys
            holder = self._remembered.get(place) or await self._checked(token, wanted)
        except (StoreError, OSError, ValueError) as error:
            logger.warning("a sign-in cannot be checked: %s", error)
            raise CredentialUndecided("the sign-ins cannot be read now") from None
        if place not in self._remembered:
            self._remembered[place] = holder
            if len(self._remembered) > _MOST_REMEMBERED:
                self._remembered.popitem(last=False)
        if holder.expires is not None and self._state.values.now() >= holder.expires:
            self._remembered.pop(place, None)
            raise CredentialDenied("the token has expired", is_guess=False)
        if not self.is_current:
            raise CredentialUndecided("the store of the sign-ins does not respond")
        self._look()
        if holder.key not in self._grants:
            raise CredentialDenied("the access was revoked; sign in again", is_guess=False)
        return holder

    @property
    def is_current(self) -> bool:
        """Whether it is known which grants are valid."""
        mirror = self._state.grants.mirror
        return mirror is None or mirror.age < STALE_SECONDS

    def has(self, principal: Principal) -> bool:
        """Whether the grant of a principal still lets it in as it did; a look in memory."""
        self._look()
        grant = self._grants.get(principal.key)
        return (
            grant is not None
            and (grant.person, grant.user) == (principal.name, principal.user)
            and principal.issuer == self._issuer
            and principal.view in grant.views
            and self._state.values.now() < grant.expires
        )

    async def _checked(self, token: str, audiences: frozenset[str]) -> CredentialHolder:
        claims = self._state.keys.claims(token) if len(token) <= _MOST_CHARACTERS else None
        if claims is None:
            raise CredentialDenied("the token is not valid")
        if claims["iss"] != self._issuer:
            raise CredentialDenied("the token is of another issuer")
        if claims["aud"] not in audiences:
            raise CredentialDenied("the token is for another audience")
        return self._holder(await self._grant(claims["grant"]), claims)

    async def _grant(self, grant_id: str) -> Grant:
        """The grant of a token that we signed; another replica may have stored it a moment ago."""
        self._look()
        if grant_id not in self._grants:
            self._looked = float("-inf")
            if self._state.grants.mirror is not None:
                await self._state.grants.mirror.look()
            self._look()
        if (grant := self._grants.get(grant_id)) is None:
            raise CredentialDenied("the access was revoked; sign in again", is_guess=False)
        return grant

    def _holder(self, grant: Grant, claims: Mapping[str, Any]) -> CredentialHolder:
        """The holder; its scopes count only for views that the person allowed."""
        given = {self._scopes.get(scope) for scope in claims["scope"].split()}
        return CredentialHolder(
            kind="subject",
            name=grant.person,
            issuer=self._issuer,
            user=grant.user,
            views=tuple(view for view in grant.views if view in given),
            expires=claims["exp"],
            key=grant.id,
            subject=f"{grant.id} {claims['scope']}",
        )

    def _look(self) -> None:
        now = self._clock()
        if now - self._looked < LOOK_SECONDS:
            return
        self._looked = now
        version = self._state.grants.version
        if version == self._version:
            return
        try:
            before, self._grants = self._grants, self._state.grants.by_id()
        except (OSError, ValueError) as error:
            self._grants = {}
            logger.warning("no sign-in is accepted: %s", error)
        else:
            now = self._state.values.now()
            for one in before.values():
                if one.id not in self._grants and now < one.expires:
                    self._state.note(f"the access of {one.client_name!r} for {one.person!r} was revoked")
        self._version = version
