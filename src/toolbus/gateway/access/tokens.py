"""Tokens of an authorization server: whether they are for this gateway, and whose they are.

A token is only checked. It is never forwarded to a server behind the gateway, and never logged.

The documents of the authorization server are kept. They are read again when they are old or when a token
names an unknown key. That happens at most every few seconds: a client that sends tokens cannot make us send
requests.
"""

import asyncio
import base64
import logging
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from hashlib import sha256
from math import isfinite
from typing import Any, cast
from urllib.parse import quote_plus

import jwt
from jwt import PyJWK, PyJWTError

from toolbus.config import Secrets, ServerConfig
from toolbus.config.secrets.lookup import MissingValue
from toolbus.config.secrets.reference import Reference, parsed
from toolbus.config.settings.serve import TokenIssuer
from toolbus.connect.auth.discovery import (
    AuthorizationServer,
    ProtectedResource,
    find_authorization_server,
)
from toolbus.connect.auth.failure import AuthFailure
from toolbus.connect.auth.fetch import Fetch, FetchedReply
from toolbus.connect.http.url import parse_url
from toolbus.core.values.errors import SecretMissing
from toolbus.gateway.access.admission import CredentialDenied, CredentialHolder, CredentialUndecided
from toolbus.gateway.access.identity import grant_of
from toolbus.gateway.protocol.principal import client_user, subject_user

logger = logging.getLogger("toolbus")

# The authorization server

KEEP_SECONDS = 3600.0
"""The maximum age of the keys before they are requested again."""
LAST_RESORT_SECONDS = 24 * 3600.0
"""The maximum age of the keys while the issuer does not respond."""
AGAIN_SECONDS = 10.0
"""The minimum time between two requests."""
MIN_RSA_BITS = 2048
"""A shorter key can be computed from its public part (NIST SP 800-131A)."""
_CURVES = {"P-256": "ES256", "P-384": "ES384", "P-521": "ES512"}
_ALIAS = "serve.auth.oauth"
_MOST_QUESTIONS = 8
"""Questions about tokens at the same time."""


class Issuer:
    """The authorization server: its metadata and its keys."""

    def __init__(
        self, settings: TokenIssuer, secrets: Secrets, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._settings = settings
        self._secrets = secrets
        self._clock = clock
        asking = settings.introspection
        named = (settings.issuer, settings.jwks_url, None if asking is None else asking.url)
        # The user named these, so they may be in a private network.
        self.fetch = Fetch(
            ServerConfig(alias=_ALIAS, transport="streamable-http", url=settings.issuer),
            [parse_url(url) for url in named if url is not None],
        )
        self._name = settings.issuer
        self._metadata: Mapping[str, Any] = {}
        self._keys: tuple[Mapping[str, Any], ...] = ()
        self._read = float("-inf")
        self._asked = float("-inf")
        self._reading = asyncio.Lock()
        self._questions = asyncio.Semaphore(_MOST_QUESTIONS)
        self._secret: str | None = None

    @property
    def name(self) -> str:
        """The `iss` of its tokens."""
        return self._name

    async def key(self, kid: str | None, algorithm: str) -> PyJWK:
        """The key of a signature; `CredentialDenied` if none, `CredentialUndecided` if no response."""
        found = self._find(kid, algorithm)
        if found is None or self._clock() - self._read > KEEP_SECONDS:
            await self._refresh(self._read)
            found = self._find(kid, algorithm)
        if found is None:
            raise CredentialDenied("the token is signed with an unknown key")
        try:
            key = PyJWK(dict(found), algorithm)
        except (PyJWTError, ValueError, TypeError):  # it may have any content
            raise CredentialDenied("the token is signed with a key that cannot be used") from None
        # Checked here, because it depends on the version of PyJWT whether its own check is optional.
        if found["kty"] == "RSA" and key.key.key_size < MIN_RSA_BITS:
            raise CredentialDenied(f"the token is signed with an RSA key of less than {MIN_RSA_BITS} bits")
        return key

    async def check(self) -> None:
        """Read the keys of the issuer now; AuthFailure if that is not possible."""
        await self._read_keys()

    async def introspect(self, token: str) -> Mapping[str, Any]:
        """The issuer's response about a token; `CredentialDenied` if it is not active."""
        async with self._questions:
            try:
                url = await self._introspection_url()
                reply = await self.fetch.post_form(
                    url, {"token": token, "token_type_hint": "access_token"}, await self._credentials()
                )
            except (AuthFailure, SecretMissing) as failure:
                raise self._cannot_tell(failure) from None
        claims = reply.json()
        if reply.status != 200 or claims is None:
            self._secret = None  # perhaps there is another one by now
            raise self._cannot_tell(AuthFailure(f"asking about a token failed: {reply.problem}"))
        if claims.get("active") is not True:
            raise CredentialDenied("the token is not active")
        return claims

    def _find(self, kid: str | None, algorithm: str) -> Mapping[str, Any] | None:
        fitting = [key for key in self._keys if _fits(key, algorithm)]
        if kid is not None:
            return next((key for key in fitting if key.get("kid") == kid), None)
        return fitting[0] if len(fitting) == 1 else None

    async def _refresh(self, known: float) -> None:
        """Read the keys, unless that was done meanwhile or a moment ago."""
        async with self._reading:
            if self._read != known:
                return
            now = self._clock()
            if now - self._asked >= AGAIN_SECONDS:
                self._asked = now
                try:
                    self._keys = await self._read_keys()
                    self._read = now
                except AuthFailure as failure:
                    self._refuse_outdated(now, failure)
            else:
                self._refuse_outdated(now, AuthFailure("it did not respond a moment ago"))

    def _refuse_outdated(self, now: float, failure: AuthFailure) -> None:
        """Go on with the keys that are known, for a day."""
        if now - self._read > LAST_RESORT_SECONDS:
            raise self._cannot_tell(failure) from None
        logger.debug("the keys of %s are not read again: %s", self._name, failure.reason)

    async def _read_keys(self) -> tuple[Mapping[str, Any], ...]:
        url = self._settings.jwks_url or await self._endpoint("jwks_uri")
        document = _document(await self.fetch.get(url))
        keys: Any = document.get("keys")
        if not isinstance(keys, list):
            raise AuthFailure("its keys are not a list")
        found = [cast("dict[str, Any]", key) for key in cast("list[Any]", keys) if isinstance(key, dict)]
        return tuple(key for key in found if key.get("use", "sig") == "sig")

    async def server(self) -> AuthorizationServer:
        """The authorization server as its metadata describes it now."""
        found = await find_authorization_server(
            self.fetch, self._settings.issuer, ProtectedResource(), self._settings.issuer
        )
        self._name, self._metadata = found.issuer, found.metadata
        return found

    async def _endpoint(self, name: str) -> str:
        found = await self.server()
        if (url := found.endpoint(name)) is None:
            raise AuthFailure(f"its metadata has no {name}")
        return url

    async def _introspection_url(self) -> str:
        assert self._settings.introspection is not None, "asked only then"
        known = self._settings.introspection.url or self._metadata.get("introspection_endpoint")
        return known if isinstance(known, str) else await self._endpoint("introspection_endpoint")

    async def _credentials(self) -> dict[str, str]:
        asking = self._settings.introspection
        assert asking is not None, "asked only then"
        if self._secret is None:
            key = "introspection.client_secret"
            self._secret = await filled_secret(asking.client_secret, self._secrets, key)
        pair = f"{quote_plus(asking.client_id)}:{quote_plus(self._secret)}"
        return {"authorization": f"Basic {base64.b64encode(pair.encode()).decode()}"}

    def _cannot_tell(self, failure: Exception) -> CredentialUndecided:
        logger.warning("the authorization server %s cannot be used: %s", self._settings.issuer, failure)
        return CredentialUndecided("the authorization server does not respond")


def _document(reply: FetchedReply) -> Mapping[str, Any]:
    document = reply.json()
    if reply.status != 200 or document is None:
        raise AuthFailure(f"its keys cannot be read: {reply.problem}")
    return document


def _fits(key: Mapping[str, Any], algorithm: str) -> bool:
    """Whether a key makes signatures of that algorithm; never one that both sides share."""
    if key.get("alg", algorithm) != algorithm:
        return False
    match key.get("kty"):
        case "RSA":
            return algorithm in ("RS256", "RS384", "RS512")
        case "EC":
            return _CURVES.get(str(key.get("crv"))) == algorithm
        case "OKP":
            return algorithm == "EdDSA"
        case _:
            return False


async def filled_secret(text: str, secrets: Secrets, key: str) -> str:
    """A secret below `serve.auth.` with its references looked up; `SecretMissing` if one has no value."""
    parts: Sequence[str | Reference] = parsed(text, key=key)
    value = ""
    for part in parts:
        if isinstance(part, Reference):
            found = await secrets.find(part)
            if isinstance(found, MissingValue):
                raise SecretMissing(_ALIAS, key, part.label, found.reason)
            part = found.value
        value += part
    return value


# The tokens

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


class AccessTokens:
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
        self._remembered: OrderedDict[tuple[bytes, frozenset[str]], tuple[CredentialHolder, float]] = (
            OrderedDict()
        )
        """Those that were accepted, and until when they need no further check."""

    async def identity(self, token: str, audiences: Iterable[str]) -> CredentialHolder:
        """The holder of a token for one of the audiences; raises `CredentialDenied`, `CannotTell`."""
        wanted = frozenset(audiences)
        place = (sha256(token.encode(errors="surrogateescape")).digest(), wanted)
        known = self._remembered.get(place)
        if known is not None:
            if self._now() < known[1]:
                return known[0]
            del self._remembered[place]
        is_jwt = token.count(".") == 2
        claims = await (signed_claims(self._issuer, token, wanted) if is_jwt else self._asked(token, wanted))
        identity = self._holder(claims)
        expires = float("inf") if identity.expires is None else identity.expires
        seconds = REMEMBER_JWT if is_jwt else REMEMBER_OPAQUE
        self._remembered[place] = identity, min(expires, self._now() + seconds)
        if len(self._remembered) > _MOST_REMEMBERED:
            self._remembered.popitem(last=False)
        return identity

    async def _asked(self, token: str, audiences: frozenset[str]) -> Mapping[str, Any]:
        """The issuer's response about a token that is not a JWT."""
        if self._settings.introspection is None or len(token) > _MOST_CHARACTERS:
            raise CredentialDenied("the token is not a JWT")
        claims = await self._issuer.introspect(token)
        if claims.get("iss", self._issuer.name) != self._issuer.name:
            raise CredentialDenied("the token is of another issuer")
        aud = claims.get("aud")
        if not audiences & set(texts_in(aud)):
            raise CredentialDenied("the token is for another audience")
        return claims

    def _holder(self, claims: Mapping[str, Any]) -> CredentialHolder:
        expires = time_claim(claims, "exp")
        if expires is not None and self._now() >= expires + LEEWAY:
            raise CredentialDenied("the token has expired")
        if self._now() + LEEWAY < (time_claim(claims, "nbf") or 0):
            raise CredentialDenied("the token is not valid yet")
        if claims.get("cnf"):
            # It is bound to a key of its client, and nobody proved to have that key.
            raise CredentialDenied("the token is bound to a key (DPoP or mTLS), which is not supported")
        subject, client = _text(claims, "sub"), _text(claims, "client_id") or _text(claims, "azp")
        if not subject and not client:
            raise CredentialDenied("the token does not say whose it is")
        return CredentialHolder(
            kind="subject" if subject else "client",
            name=subject or client,
            issuer=self._settings.issuer,
            user=self._user(claims, client),
            views=self._views(claims),
            expires=expires,
            subject=grant_of(claims),
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
        raise CredentialDenied(f"the token has no {claim!r}, which names the user")

    def _views(self, claims: Mapping[str, Any]) -> tuple[str, ...]:
        if not self._settings.scopes:
            return (self._default_view,)
        texts = [*texts_in(claims.get("scope")), *texts_in(claims.get("scp"))]
        granted = {scope for text in texts for scope in text.split()}
        views = (view for scope, view in self._settings.scopes.items() if scope in granted)
        return tuple(dict.fromkeys(views))


async def signed_claims(
    issuer: Issuer, token: str, audiences: Iterable[str], types: Sequence[str] = _TYPES
) -> Mapping[str, Any]:
    """The claims of a JWT that an issuer signed for one of the audiences; its times are not checked.

    Raises `CredentialDenied`, or `CredentialUndecided` if the issuer does not respond.
    """
    if len(token) > _MOST_CHARACTERS:
        raise CredentialDenied("the token is too long")
    try:
        header = jwt.get_unverified_header(token)
    except (jwt.PyJWTError, ValueError, RecursionError):
        raise CredentialDenied("the token is not valid") from None
    algorithm, kid = header.get("alg"), header.get("kid")
    if algorithm not in ALGORITHMS or "crit" in header:
        raise CredentialDenied("the token is signed in a way that is not accepted")
    if str(header.get("typ", "JWT")).lower() not in types:
        raise CredentialDenied("the token is of another type")
    key = await issuer.key(kid if isinstance(kid, str) else None, algorithm)
    try:
        claims = jwt.decode(
            token,
            key,
            algorithms=[algorithm],
            issuer=issuer.name,
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
        raise CredentialDenied("the token is for another audience") from None
    except jwt.InvalidIssuerError:
        raise CredentialDenied("the token is of another issuer") from None
    except (jwt.PyJWTError, ValueError, RecursionError):
        raise CredentialDenied("the token is not valid") from None
    return claims


def _text(claims: Mapping[str, Any], name: str) -> str:
    value = claims.get(name)
    return value if isinstance(value, str) else ""


def texts_in(value: Any) -> list[str]:
    """The texts in a claim that is a text or a list of them."""
    listed = cast("list[Any]", value) if isinstance(value, list) else [value]
    return [one for one in listed if isinstance(one, str)]


def time_claim(claims: Mapping[str, Any], name: str) -> float | None:
    """A time in seconds since the epoch; `CredentialDenied` if it is something else."""
    value = claims.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not isfinite(value):
        raise CredentialDenied(f"the token has an invalid {name!r}")
    return float(value)
