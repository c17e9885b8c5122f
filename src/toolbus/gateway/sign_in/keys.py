"""The keys of the authorization server, all made from one stored secret.

Clients carry signed texts for us: registrations, waiting requests, codes and refresh tokens. So none
of it has to be stored before a person agrees, and every replica knows its own signature.
"""

import base64
import binascii
import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from hmac import compare_digest, digest
from struct import Struct
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from jwt.algorithms import ECAlgorithm

from toolbus.core.values.records import JSONObject
from toolbus.gateway.sign_in.grants import SECRET
from toolbus.state.seal import KEY_BYTES
from toolbus.state.values import Values

ALGORITHM = "ES256"
_TIME = Struct(">d")
_ROTATED_BYTES = 2 * KEY_BYTES + _TIME.size
_ORDER = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
"""The number of points of P-256."""


class SignInKeys:
    """Signs what clients carry, and the access tokens; accepts for a while what a replaced secret signed."""

    def __init__(self, secret: bytes, replaced: "Replaced | None" = None) -> None:
        """`secret` has 32 random bytes."""
        self._secret = secret
        self._replaced = replaced
        self._signing_key = self._derived("signatures", 32)

    @property
    def _all(self) -> "list[SignInKeys]":
        """These keys, and those before them as long as they count."""
        older = self._replaced
        return [self] if older is None or older.has_ended else [self, older.keys]

    def signer(self, purpose: str, text: str, signature: str) -> "SignInKeys | None":
        """The keys that made a signature of a text: these, or those before them; None if we did not."""
        return next((one for one in self._all if one._made(purpose, text, signature)), None)

    def signed(self, purpose: str, payload: JSONObject) -> str:
        """The payload as a text that anyone can read, but nobody else can make."""
        text = _base64(json.dumps(payload, separators=(",", ":"), ensure_ascii=False).encode())
        return f"{text}.{self.signature(purpose, text)}"

    def opened(self, purpose: str, text: str) -> dict[str, Any] | None:
        """The payload; None if we did not sign it for this purpose."""
        content, _, signature = text.rpartition(".")
        if not self.is_signature(purpose, content, signature):
            return None
        try:
            return json.loads(base64.urlsafe_b64decode(content + "=" * (-len(content) % 4)))
        except (binascii.Error, ValueError):  # no signature is on such a text
            return None

    def signature(self, purpose: str, text: str) -> str:
        """The signature of a text for one purpose."""
        signed = f"{purpose}\0{text}".encode(errors="surrogateescape")
        return _base64(digest(self._signing_key, signed, sha256))

    def is_signature(self, purpose: str, text: str, signature: str) -> bool:
        """Whether it is the signature of a text."""
        return self.signer(purpose, text, signature) is not None

    def _made(self, purpose: str, text: str, signature: str) -> bool:
        own = self.signature(purpose, text)
        return compare_digest(own.encode(), signature.encode(errors="surrogateescape"))

    @cached_property
    def _key(self) -> ec.EllipticCurvePrivateKey:
        number = int.from_bytes(self._derived("access tokens", 48))
        return ec.derive_private_key(number % (_ORDER - 1) + 1, ec.SECP256R1())

    @cached_property
    def public_key(self) -> dict[str, Any]:
        """The key that checks access tokens, as a JSON Web Key."""
        made = ECAlgorithm.to_jwk(self._key.public_key(), as_dict=True)
        members = {name: made[name] for name in ("crv", "kty", "x", "y")}
        thumbprint = _base64(sha256(json.dumps(members, separators=(",", ":")).encode()).digest())
        return {**members, "kid": thumbprint, "use": "sig", "alg": ALGORITHM}

    @property
    def public_keys(self) -> list[dict[str, Any]]:
        """The keys that check access tokens."""
        return [one.public_key for one in self._all]

    def token(self, claims: Mapping[str, Any]) -> str:
        """An access token with these claims."""
        headers = {"typ": "at+jwt", "kid": self.public_key["kid"]}
        return jwt.encode(dict(claims), self._key, ALGORITHM, headers)

    def claims(self, token: str) -> dict[str, Any] | None:
        """The claims of one of our access tokens, not checked; None for any other text."""
        found = (one._claims(token) for one in self._all)
        return next((claims for claims in found if claims is not None), None)

    def _claims(self, token: str) -> dict[str, Any] | None:
        try:
            decoded = jwt.decode_complete(
                token,
                self._key.public_key(),
                algorithms=[ALGORITHM],
                options={
                    "require": ["exp", "iss", "aud", "sub"],
                    "verify_aud": False,
                    "verify_exp": False,
                    "verify_iat": False,
                },
            )
        except (jwt.PyJWTError, ValueError, RecursionError):
            return None
        return decoded["payload"] if decoded["header"].get("typ") == "at+jwt" else None

    def _derived(self, purpose: str, size: int) -> bytes:
        info = f"toolbus sign-in: {purpose}".encode()
        return HKDF(algorithm=SHA256(), length=size, salt=None, info=info).derive(self._secret)


@dataclass(frozen=True, slots=True)
class Replaced:
    """The keys before the last rotation."""

    keys: SignInKeys
    until: float
    """The time until which their signatures count."""
    now: Callable[[], float]

    @property
    def has_ended(self) -> bool:
        return self.now() >= self.until


async def kept_secret(values: Values) -> bytes:
    """The stored secret of all who share some values; it is made when it is first needed.

    After a rotation it is followed by the time until which the one before it counts, and by that one.
    """
    secret = await values.get(SECRET, "key")
    if secret is None:
        await values.add(SECRET, "key", os.urandom(KEY_BYTES))
        # Of several processes that start at once, all use the same one.
        secret = await values.get(SECRET, "key")
    if secret is None or len(secret) not in (KEY_BYTES, _ROTATED_BYTES):
        place = values.place_of(SECRET, "key")
        raise ValueError(f"{place} is damaged; delete it, and have everyone sign in again")
    return secret


def keys_of(secret: bytes, now: Callable[[], float]) -> SignInKeys:
    """The keys that are made from a stored secret."""
    current, rest = secret[:KEY_BYTES], secret[KEY_BYTES:]
    if not rest:
        return SignInKeys(current)
    [until] = _TIME.unpack(rest[: _TIME.size])
    return SignInKeys(current, Replaced(SignInKeys(rest[_TIME.size :]), until, now))


async def rotate(values: Values, seconds: float) -> float:
    """Replace the secret; returns the time until which signatures of the one before count."""
    old, until = await kept_secret(values), values.now() + seconds
    await values.put(SECRET, "key", os.urandom(KEY_BYTES) + _TIME.pack(until) + old[:KEY_BYTES])
    return until


def _base64(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).decode().rstrip("=")
