"""The authorization server of a gateway: the keys of its signatures, and its answers about tokens.

Its documents are kept, and asked for again when they are old or when a token names an unknown key, but never
more often than every few seconds: whoever sends tokens cannot make us send requests.
"""

import asyncio
import base64
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast
from urllib.parse import quote_plus

from jwt import PyJWK, PyJWTError

from toolbus.config import Secrets, ServerConfig
from toolbus.config.secrets.lookup import MissingValue
from toolbus.config.secrets.reference import Reference, parsed
from toolbus.config.settings.serve import TokenIssuer
from toolbus.connect.auth.discovery import ProtectedResource, find_authorization_server
from toolbus.connect.auth.failure import AuthFailure
from toolbus.connect.auth.fetch import Fetch, FetchedReply
from toolbus.connect.http.url import parse_url
from toolbus.core.values.errors import SecretMissing
from toolbus.gateway.access.identity import CredentialDenied, CredentialUndecided

logger = logging.getLogger("toolbus")

KEEP_SECONDS = 3600.0
"""How old the keys may be before they are asked for again."""
LAST_RESORT_SECONDS = 24 * 3600.0
"""How old they may be while the issuer does not respond."""
AGAIN_SECONDS = 10.0
"""How often it is asked, at most."""
MIN_RSA_BITS = 2048
"""A shorter key can be computed from its public part (NIST SP 800-131A)."""
_CURVES = {"P-256": "ES256", "P-384": "ES384", "P-521": "ES512"}
_ALIAS = "serve.auth.oauth"
_MOST_QUESTIONS = 8
"""Questions about tokens at the same time."""


class Issuer:
    """What is known of the authorization server."""

    def __init__(
        self, settings: TokenIssuer, secrets: Secrets, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._settings = settings
        self._secrets = secrets
        self._clock = clock
        asking = settings.introspection
        named = (settings.issuer, settings.jwks_url, None if asking is None else asking.url)
        # The user named these, so they may be in a private network.
        self._fetch = Fetch(
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
        """What its tokens have in `iss`."""
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

    async def introspect(self, token: str) -> Mapping[str, Any]:
        """What the issuer says about a token; `CredentialDenied` if it is not active."""
        async with self._questions:
            try:
                url = await self._introspection_url()
                reply = await self._fetch.post_form(
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
        document = _document(await self._fetch.get(url))
        keys: Any = document.get("keys")
        if not isinstance(keys, list):
            raise AuthFailure("its keys are not a list")
        found = [cast("dict[str, Any]", key) for key in cast("list[Any]", keys) if isinstance(key, dict)]
        return tuple(key for key in found if key.get("use", "sig") == "sig")

    async def _endpoint(self, name: str) -> str:
        """The URL of an endpoint, as the metadata has it."""
        found = await find_authorization_server(
            self._fetch, self._settings.issuer, ProtectedResource(), self._settings.issuer
        )
        self._name, self._metadata = found.issuer, found.metadata
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
            self._secret = await _filled(asking.client_secret, self._secrets)
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


async def _filled(text: str, secrets: Secrets) -> str:
    """The text with its references filled in."""
    key = "serve.auth.oauth.introspection.client_secret"
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
