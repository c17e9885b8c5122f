"""Proofs that a token is used by the holder of its key (DPoP, RFC 9449)."""

import base64
import hashlib
import json
import secrets
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

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
        """A new key."""
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
