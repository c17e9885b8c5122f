"""The checks of a careful resource server: signature, issuer, audience, expiry, scopes, and DPoP proofs."""

import base64
import hashlib
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import jwt

NONCE = "a nonce of the resource server"
PROOF_SECONDS = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused(Exception):
    """A request without a token that will do."""

    status: int
    challenge: str
    """The parameters of its challenge."""
    nonce: str | None = None


@dataclass(kw_only=True)
class TokenCheck:
    """Checks the requests to one resource."""

    issuer: str
    resource: str
    keys: jwt.PyJWKClient
    nonces: bool = False
    """Whether every proof needs our nonce."""
    proofs: set[str] = field(default_factory=set[str])
    """Those that were used."""

    def subject(self, method: str, headers: Mapping[str, str], scope: str) -> str:
        """The user of the request; raises `Refused`."""
        scheme, _, token = headers.get("authorization", "").partition(" ")
        if not token:
            raise Refused(status=401, challenge='scope="tools"')
        try:
            key = self.keys.get_signing_key_from_jwt(token)
            claims = jwt.decode(token, key, algorithms=["RS256"], audience=self.resource, issuer=self.issuer)
        except jwt.PyJWTError as error:
            raise self._invalid(str(error)) from error
        bound = claims.get("cnf", {}).get("jkt")
        if scheme.lower() != ("dpop" if bound else "bearer"):
            raise self._invalid(f"a token of another kind than {scheme}")
        if bound:
            self._check_proof(headers.get("dpop", ""), method, token, bound)
        if scope not in claims.get("scope", "").split():
            raise Refused(status=403, challenge=f'error="insufficient_scope", scope="{scope}"')
        return claims.get("sub") or claims["client_id"]

    def _invalid(self, why: str) -> Refused:
        return Refused(
            status=401, challenge=f'error="invalid_token", error_description="{why}", scope="tools"'
        )

    def _check_proof(self, proof: str, method: str, token: str, bound: str) -> None:
        try:
            header = jwt.get_unverified_header(proof)
            key: dict[str, Any] = header["jwk"]
            claims = jwt.decode(proof, jwt.PyJWK(key, "ES256"), algorithms=["ES256"])
        except (jwt.PyJWTError, KeyError) as error:
            raise self._invalid("no proof") from error
        if self.nonces and claims.get("nonce") != NONCE:
            raise Refused(status=401, challenge='error="use_dpop_nonce"', nonce=NONCE)
        fits = (
            header["typ"] == "dpop+jwt"
            and "d" not in key
            and _thumbprint(key) == bound
            and claims["htm"] == method
            and claims["htu"] == self.resource
            and claims["ath"] == _encoded(hashlib.sha256(token.encode()).digest())
            and abs(claims["iat"] - time.time()) < PROOF_SECONDS
            and claims["jti"] not in self.proofs
        )
        if not fits:
            raise self._invalid("a proof of something else, or used before")
        self.proofs.add(claims["jti"])


def _thumbprint(key: Mapping[str, Any]) -> str:
    members = json.dumps({name: key[name] for name in ("crv", "kty", "x", "y")}, separators=(",", ":"))
    return _encoded(hashlib.sha256(members.encode()).digest())


def _encoded(digest: bytes) -> str:
    return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
