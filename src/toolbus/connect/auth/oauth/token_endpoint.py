"""Requests for tokens: who asks, with which proof, and what comes back."""

import base64
import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from toolbus.connect.auth.failure import AuthFailure, Rejected
from toolbus.connect.auth.fetch import Fetch, Reply
from toolbus.connect.auth.oauth.client import Client
from toolbus.connect.auth.oauth.discovery import AuthorizationServer
from toolbus.connect.auth.oauth.dpop import DpopKey
from toolbus.connect.auth.text import shown

ASSERTION_LIFETIME = 300
MAX_LIFETIME = 10 * 365 * 86_400.0
_JWT_BEARER = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class TokenSet:
    """The tokens of one response."""

    access: str
    type: str
    expires_at: float | None
    refresh: str | None
    scope: str | None


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class TokenEndpoint:
    """The token endpoint of an authorization server, for one client."""

    fetch: Fetch
    server: AuthorizationServer
    client: Client
    key: DpopKey | None = None

    async def tokens(self, form: Mapping[str, str]) -> TokenSet:
        """Request tokens; Rejected with the error of the authorization server."""
        url = self.server.endpoint("token_endpoint", "/token")
        if url is None:
            raise AuthFailure(f"the authorization server {self.server.issuer} has no token endpoint")
        asked = time.time()
        reply = await self._post(url, form)
        if (
            self.key is not None
            and self.key.learn_nonce(url, reply.headers)
            and _error(reply) == "use_dpop_nonce"
        ):
            reply = await self._post(url, form)
        answer = reply.json()
        if reply.status != 200 or answer is None:
            raise _rejection(reply)
        return self._parsed(answer, asked)

    async def post(self, name: str, form: Mapping[str, str]) -> Reply:
        """Post to another endpoint of the authorization server, with the client's credentials."""
        url = self.server.endpoint(name)
        if url is None:
            raise AuthFailure(
                f"the authorization server {self.server.issuer} has no {name.replace('_', ' ')}"
            )
        form, headers = self._authenticated(form)
        return await self.fetch.post_form(url, form, headers)

    async def _post(self, url: str, form: Mapping[str, str]) -> Reply:
        form, headers = self._authenticated(form)
        if self.key is not None:
            headers["DPoP"] = self.key.proof("POST", url)
        return await self.fetch.post_form(url, form, headers)

    def _authenticated(self, form: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
        """The form and the headers, with what proves who the client is."""
        client, form, headers = self.client, dict(form), dict[str, str]()
        match client.method:
            case "client_secret_basic":
                pair = f"{quote(client.id, safe='')}:{quote(client.secret or '', safe='')}"
                headers["authorization"] = f"Basic {base64.b64encode(pair.encode()).decode()}"
            case "client_secret_post":
                form |= {"client_id": client.id, "client_secret": client.secret or ""}
            case "private_key_jwt":
                form |= {"client_assertion_type": _JWT_BEARER, "client_assertion": self._assertion()}
                form["client_id"] = client.id
            case _ if client.id:
                form["client_id"] = client.id
            case _:
                pass
        return form, headers

    def _assertion(self) -> str:
        import jwt

        now, client = int(time.time()), self.client
        claims = {"iss": client.id, "sub": client.id, "aud": self.server.issuer, "jti": uuid.uuid4().hex}
        times = {"iat": now, "exp": now + ASSERTION_LIFETIME}
        try:
            signing = jwt.PyJWT({"enforce_minimum_key_length": True})
            return signing.encode({**claims, **times}, client.key or "", algorithm=client.algorithm)
        except (ValueError, TypeError, NotImplementedError, jwt.PyJWTError) as error:
            reason = f"auth.key cannot sign with {client.algorithm} ({type(error).__name__})"
        raise AuthFailure(
            reason,
            hint="it must be a private key in PEM format for auth.algorithm; RSA with 2048 bits or more",
        )

    def _parsed(self, answer: Mapping[str, Any], asked: float) -> TokenSet:
        access, kind = answer.get("access_token"), str(answer.get("token_type", "")).lower()
        if not isinstance(access, str) or not access or not access.isascii() or not access.isprintable():
            raise AuthFailure("the authorization server's response contains no usable token", step="token")
        if kind not in ("bearer", "dpop") or (kind == "dpop" and self.key is None):
            raise AuthFailure(
                f"the authorization server issued a token of type {shown(answer.get('token_type'))}",
                step="token",
            )
        scope, refresh = answer.get("scope"), answer.get("refresh_token")
        return TokenSet(
            access=access,
            type="DPoP" if kind == "dpop" else "Bearer",
            expires_at=_expiry(answer.get("expires_in"), asked),
            refresh=refresh if isinstance(refresh, str) and refresh else None,
            scope=scope if isinstance(scope, str) else None,
        )


def _expiry(seconds: object, asked: float) -> float | None:
    try:
        lifetime = float(seconds) if isinstance(seconds, int | float | str) else None
    except ValueError:
        lifetime = None
    if lifetime is None or not 0 <= lifetime <= MAX_LIFETIME:
        return None
    return asked + lifetime


def _error(reply: Reply) -> str | None:
    error = (reply.json() or {}).get("error")
    return error if isinstance(error, str) else None


def _rejection(reply: Reply) -> Rejected:
    answer = reply.json() or {}
    error, description = _error(reply), answer.get("error_description")
    return Rejected(shown(error or reply.problem), shown(description) if isinstance(description, str) else "")
