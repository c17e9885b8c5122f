"""The token that requests carry, with the proof that its holder sends it (DPoP, RFC 9449)."""

import asyncio
import base64
import hashlib
import json
import secrets
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from toolbus.state.tokens.tokens import Login

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey


class DpopKey:
    """A private key, and the latest nonce of each server that wants one."""

    def __init__(self, jwk: Mapping[str, str]) -> None:
        self.jwk = jwk
        self._key = _private_key(jwk)
        public = {name: jwk[name] for name in ("kty", "crv", "x", "y")}
        self._head: dict[str, Any] = {"typ": "dpop+jwt", "jwk": public}
        self._nonces: dict[str, str] = {}

    @classmethod
    def generate(cls) -> "DpopKey":
        from cryptography.hazmat.primitives.asymmetric import ec
        from jwt.algorithms import ECAlgorithm

        key = ec.generate_private_key(ec.SECP256R1())
        return cls(json.loads(ECAlgorithm.to_jwk(key)))

    def proof(self, method: str, url: str, token: str | None = None) -> str:
        """The proof for one request, with the access token that it carries."""
        import jwt

        claims: dict[str, Any] = {
            "jti": secrets.token_urlsafe(16),
            "htm": method,
            "htu": url.partition("?")[0].partition("#")[0],
            "iat": int(time.time()),
        }
        if (nonce := self._nonces.get(_origin(url))) is not None:
            claims["nonce"] = nonce
        if token is not None:
            digest = hashlib.sha256(token.encode()).digest()
            claims["ath"] = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
        return jwt.encode(claims, self._key, algorithm="ES256", headers=self._head)

    def learn_nonce(self, url: str, headers: Mapping[str, str]) -> bool:
        """Keep the nonce of a response; returns whether it is a new one."""
        nonce, origin = headers.get("dpop-nonce"), _origin(url)
        if not nonce or len(nonce) > 1_000 or self._nonces.get(origin) == nonce:
            return False
        self._nonces[origin] = nonce
        return True

    def __repr__(self) -> str:
        return "DpopKey(***)"

    def __reduce__(self) -> Any:
        raise TypeError("a private key is not pickled")


def _private_key(jwk: Mapping[str, str]) -> "EllipticCurvePrivateKey":
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
    from jwt.algorithms import ECAlgorithm

    key = ECAlgorithm.from_jwk(dict(jwk))
    if not isinstance(key, EllipticCurvePrivateKey):
        raise ValueError("not a private key")
    return key


def _origin(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.lower()}"


RENEW_AT = 0.8
"""The part of a token's life after which it is renewed, if it is in use."""
EXPIRY_MARGIN = 0.05
"""The last part of a token's life, in which it may expire on the way; at most `MAX_MARGIN` seconds."""
MAX_MARGIN = 30.0


class TokenInUse:
    """The current login, or none."""

    def __init__(self, renew_early: Callable[[], None]) -> None:
        """`renew_early` is called some time before a token expires, if it was used."""
        self.login: Login | None = None
        self.key: DpopKey | None = None
        self._renew_early = renew_early
        self._static: Mapping[str, str] = {}
        self._headers: Mapping[str, str] = {}
        self._valid_until = 0.0
        self._is_used = False
        """Whether it was used since it was issued."""
        self._timer: asyncio.TimerHandle | None = None

    def add_headers(self, static: Mapping[str, str]) -> None:
        self._static = static
        self._set_headers()

    def set(self, login: Login, *, renews: bool) -> None:
        self.login, self._is_used, self._valid_until = login, False, usable_until(login)
        if login.jwk is None:
            self.key = None
        elif self.key is None or self.key.jwk != login.jwk:
            self.key = DpopKey(login.jwk)
        self._set_headers()
        self._schedule(login, renews)

    def clear(self) -> None:
        self.login = None
        self._set_headers()
        self.close()

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    @property
    def is_valid(self) -> bool:
        return self.login is not None and time.time() < self._valid_until

    def headers(self, method: str, url: str) -> Mapping[str, str] | None:
        """The headers of a request, even without a login; None if the login has expired."""
        login = self.login
        if login is None:
            return self._headers
        if time.time() >= self._valid_until:
            return None
        self._is_used = True
        if self.key is None:
            return self._headers
        return {**self._headers, "dpop": self.key.proof(method, url, login.access)}

    def is_in(self, sent: Mapping[str, str]) -> bool:
        """Whether a request carried this one."""
        return sent.get("authorization") == self._headers.get("authorization")

    def _set_headers(self) -> None:
        login = self.login
        token = {} if login is None else {"authorization": f"{login.type} {login.access}"}
        self._headers = {**self._static, **token}

    def _schedule(self, login: Login, renews: bool) -> None:
        self.close()
        if login.expires_at is not None and renews:
            lifetime = login.expires_at - login.renewed_at
            delay = login.renewed_at + RENEW_AT * lifetime - time.time()
            self._timer = asyncio.get_running_loop().call_later(max(0.0, delay), self._time_to_renew)

    def _time_to_renew(self) -> None:
        self._timer = None
        if self._is_used:
            self._renew_early()


def usable_until(login: Login) -> float:
    """The time until which a token is sent; a request takes a moment to arrive."""
    if login.expires_at is None:
        return float("inf")
    lifetime = max(0.0, login.expires_at - login.renewed_at)
    return login.expires_at - min(MAX_MARGIN, EXPIRY_MARGIN * lifetime)
