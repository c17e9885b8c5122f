"""Tokens of an authorization server: whether they are for this gateway, and whose they are.

A token is only ever checked. It is never passed on to a server behind the gateway, and never logged.
"""

import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from hashlib import sha256
from math import isfinite
from typing import Any, cast

import jwt

from toolbus.config.settings.serve import TokenIssuer
from toolbus.gateway.access.identity import Denied, Identity
from toolbus.gateway.access.issuer import Issuer
from toolbus.gateway.protocol.principal import client_user, subject_user

ALGORITHMS = ("RS256", "RS384", "RS512", "ES256", "ES384", "ES512", "EdDSA")
"""Signatures that only the issuer can make."""
LEEWAY = 10.0
"""Seconds that clocks may differ."""
REMEMBER_JWT = 300.0
"""Seconds for which a token is not checked again."""
REMEMBER_OPAQUE = 30.0
"""The same for a token that was asked about: so long a revoked one may still be used."""
_MOST_REMEMBERED = 10_000
_MOST_CHARACTERS = 16_384
_TYPES = ("jwt", "at+jwt", "application/at+jwt")


class Tokens:
    """Checks the tokens of one issuer."""

    def __init__(
        self,
        settings: TokenIssuer,
        issuer: Issuer,
        default_view: str,
        *,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._settings = settings
        self._issuer = issuer
        self._default_view = default_view
        self._now = now
        self._remembered: OrderedDict[tuple[bytes, frozenset[str]], tuple[Identity, float]] = OrderedDict()
        """Those that were accepted, and until when they need no further check."""

    async def identity(self, token: str, audiences: Iterable[str]) -> Identity:
        """Who holds a token for one of the audiences; raises `Denied`, `CannotTell`."""
        wanted = frozenset(audiences)
        place = (sha256(token.encode(errors="surrogateescape")).digest(), wanted)
        known = self._remembered.get(place)
        if known is not None:
            if self._now() < known[1]:
                return known[0]
            del self._remembered[place]
        is_jwt = token.count(".") == 2
        claims = await (self._signed(token, wanted) if is_jwt else self._asked(token, wanted))
        identity = self._holder(claims)
        expires = float("inf") if identity.expires is None else identity.expires
        seconds = REMEMBER_JWT if is_jwt else REMEMBER_OPAQUE
        self._remembered[place] = identity, min(expires, self._now() + seconds)
        if len(self._remembered) > _MOST_REMEMBERED:
            self._remembered.popitem(last=False)
        return identity

    async def _signed(self, token: str, audiences: frozenset[str]) -> Mapping[str, Any]:
        """The claims of a JWT."""
        if len(token) > _MOST_CHARACTERS:
            raise Denied("the token is too long")
        try:
            header = jwt.get_unverified_header(token)
        except (jwt.PyJWTError, ValueError, RecursionError):
            raise Denied("the token is not valid") from None
        algorithm, kid = header.get("alg"), header.get("kid")
        if algorithm not in ALGORITHMS or "crit" in header:
            raise Denied("the token is signed in a way that is not accepted")
        if str(header.get("typ", "JWT")).lower() not in _TYPES:
            raise Denied("the token is not an access token")
        key = await self._issuer.key(kid if isinstance(kid, str) else None, algorithm)
        try:
            claims = jwt.decode(
                token,
                key,
                algorithms=[algorithm],
                issuer=self._issuer.name,
                audience=sorted(audiences),
                # The times are checked below, for all kinds of tokens.
                options={
                    "require": ["exp", "iss", "aud"],
                    "verify_exp": False,
                    "verify_nbf": False,
                    "verify_iat": False,
                },
            )
        except jwt.InvalidAudienceError:
            raise Denied("the token is for another audience") from None
        except jwt.InvalidIssuerError:
            raise Denied("the token is of another issuer") from None
        except (jwt.PyJWTError, ValueError, RecursionError):
            raise Denied("the token is not valid") from None
        return claims

    async def _asked(self, token: str, audiences: frozenset[str]) -> Mapping[str, Any]:
        """What the issuer says about a token that is not a JWT."""
        if self._settings.introspection is None or len(token) > _MOST_CHARACTERS:
            raise Denied("the token is not a JWT")
        claims = await self._issuer.introspect(token)
        if claims.get("iss", self._issuer.name) != self._issuer.name:
            raise Denied("the token is of another issuer")
        aud = claims.get("aud")
        if not audiences & set(_texts(aud)):
            raise Denied("the token is for another audience")
        return claims

    def _holder(self, claims: Mapping[str, Any]) -> Identity:
        expires = _time(claims, "exp")
        if expires is not None and self._now() >= expires + LEEWAY:
            raise Denied("the token has expired")
        if self._now() + LEEWAY < (_time(claims, "nbf") or 0):
            raise Denied("the token is not valid yet")
        if claims.get("cnf"):
            # It is bound to a key of its client, and nobody proved to have that key.
            raise Denied("the token is bound to a key (DPoP or mTLS), which is not supported")
        subject, client = _text(claims, "sub"), _text(claims, "client_id") or _text(claims, "azp")
        if not subject and not client:
            raise Denied("the token does not say whose it is")
        return Identity(
            kind="subject" if subject else "client",
            name=subject or client,
            issuer=self._settings.issuer,
            user=self._user(claims, client),
            views=self._views(claims),
            expires=expires,
        )

    def _user(self, claims: Mapping[str, Any], client: str) -> str:
        claim = self._settings.user
        if not claim:
            return ""
        user = _text(claims, claim)
        if user.strip():
            return subject_user(user)
        # A token that no person asked for names its client instead (RFC 9068).
        if client.strip() and claim == "sub" and not user:
            return client_user(client)
        raise Denied(f"the token has no {claim!r}, which names the user")

    def _views(self, claims: Mapping[str, Any]) -> tuple[str, ...]:
        if not self._settings.scopes:
            return (self._default_view,)
        texts = [*_texts(claims.get("scope")), *_texts(claims.get("scp"))]
        granted = {scope for text in texts for scope in text.split()}
        views = (view for scope, view in self._settings.scopes.items() if scope in granted)
        return tuple(dict.fromkeys(views))


def _text(claims: Mapping[str, Any], name: str) -> str:
    value = claims.get(name)
    return value if isinstance(value, str) else ""


def _texts(value: Any) -> list[str]:
    """One text, or a list of them."""
    listed = cast("list[Any]", value) if isinstance(value, list) else [value]
    return [one for one in listed if isinstance(one, str)]


def _time(claims: Mapping[str, Any], name: str) -> float | None:
    value = claims.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not isfinite(value):
        raise Denied(f"the token has an invalid {name!r}")
    return float(value)
