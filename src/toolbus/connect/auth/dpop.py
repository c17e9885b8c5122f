"""Proofs that a token is used by the holder of its key (DPoP, RFC 9449)."""

import base64
import hashlib
import json
import secrets
import time
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import urlsplit


class DpopKey:
    """A private key, and the latest nonce of each server that wants one."""

    def __init__(self, jwk: Mapping[str, str]) -> None:
        self.jwk = jwk
        self._sign = _signer(jwk)
        public = {name: jwk[name] for name in ("kty", "crv", "x", "y")}
        self._head = _encoded(json.dumps({"typ": "dpop+jwt", "alg": "ES256", "jwk": public}).encode())
        self._nonces: dict[str, str] = {}

    @classmethod
    def generate(cls) -> "DpopKey":
        """A new key."""
        from cryptography.hazmat.primitives.asymmetric import ec
        from jwt.algorithms import ECAlgorithm

        key = ec.generate_private_key(ec.SECP256R1())
        return cls(json.loads(ECAlgorithm.to_jwk(key)))

    def proof(self, method: str, url: str, token: str | None = None) -> str:
        """The proof for one request, with the access token that it carries.

        Written out here, because a general JWT library takes twice as long, and every request waits for it.
        """
        claims: dict[str, Any] = {
            "jti": secrets.token_urlsafe(16),
            "htm": method,
            "htu": url.partition("?")[0].partition("#")[0],
            "iat": int(time.time()),
        }
        if (nonce := self._nonces.get(_origin(url))) is not None:
            claims["nonce"] = nonce
        if token is not None:
            claims["ath"] = _encoded(hashlib.sha256(token.encode()).digest()).decode()
        signed = self._head + b"." + _encoded(json.dumps(claims).encode())
        return (signed + b"." + _encoded(self._sign(signed))).decode()

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


def _signer(jwk: Mapping[str, str]) -> Callable[[bytes], bytes]:
    """A function that signs with this key (ES256)."""
    from cryptography.hazmat.primitives.asymmetric.ec import ECDSA, EllipticCurvePrivateKey
    from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
    from cryptography.hazmat.primitives.hashes import SHA256
    from jwt.algorithms import ECAlgorithm

    key = ECAlgorithm.from_jwk(dict(jwk))
    if not isinstance(key, EllipticCurvePrivateKey):
        raise ValueError("not a private key")
    algorithm = ECDSA(SHA256())

    def sign(data: bytes) -> bytes:
        r, s = decode_dss_signature(key.sign(data, algorithm))
        return r.to_bytes(32, "big") + s.to_bytes(32, "big")

    return sign


def _encoded(data: bytes) -> bytes:
    return base64.urlsafe_b64encode(data).rstrip(b"=")


def _origin(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.lower()}"
