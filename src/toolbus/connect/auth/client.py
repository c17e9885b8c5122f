"""Our client registration at an authorization server, and our requests to its token endpoint.

A client has a metadata document, comes from the config, or is registered.
"""

import base64
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import quote, urlsplit

from toolbus.config.settings.auth import Auth
from toolbus.connect.auth.discovery import AuthorizationServer
from toolbus.connect.auth.failure import AuthFailure, Rejected, shown
from toolbus.connect.auth.fetch import Fetch, FetchedReply
from toolbus.connect.auth.tokens import DpopKey
from toolbus.state.tokens.tokens import Login

_METHODS = ("client_secret_basic", "client_secret_post", "private_key_jwt", "none")
DEVICE_GRANT = "urn:ietf:params:oauth:grant-type:device_code"


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class ClientRegistration:
    """A client, and how it proves who it is."""

    id: str
    secret: str | None = None
    key: str | None = None
    """Its private key in PEM format."""
    algorithm: str = "ES256"
    method: str = "none"
    is_registered: bool = False
    """Whether we registered it ourselves, so that we may do so again."""
    secret_expires_at: float = 0.0

    @property
    def is_expired(self) -> bool:
        return 0 < self.secret_expires_at <= time.time()

    def to_record(self) -> dict[str, Any]:
        """The record to store; it has a secret only if the server issued it and the config has none."""
        record: dict[str, Any] = {"client_id": self.id, "token_endpoint_auth_method": self.method}
        if self.is_registered:
            record |= {"client_secret": self.secret, "client_secret_expires_at": self.secret_expires_at}
            record["registered"] = True
        return record


def configured_client(
    server: AuthorizationServer, auth: Auth, values: Mapping[str, str]
) -> ClientRegistration | None:
    """The client of the config: of a metadata document where that is supported, else its `client_id`."""
    document = values.get("client_metadata")
    if document is not None and server.has("client_id_metadata_document_supported"):
        return ClientRegistration(id=document)
    if "client_id" not in values:
        return ClientRegistration(id="") if auth.type == "workload" else None
    secret, key = values.get("client_secret"), values.get("key")
    return ClientRegistration(
        id=values["client_id"],
        secret=secret,
        key=key,
        algorithm=values.get("algorithm", "ES256"),
        method="private_key_jwt" if key else _method(None, secret, server),
    )


def stored_client(record: Mapping[str, Any]) -> ClientRegistration | None:
    """The client that was registered before; None if there is none, or its secret has expired."""
    if not record.get("registered") or not isinstance(record.get("client_id"), str):
        return None
    client = ClientRegistration(
        id=record["client_id"],
        secret=record.get("client_secret"),
        method=record.get("token_endpoint_auth_method", "none"),
        is_registered=True,
        secret_expires_at=record.get("client_secret_expires_at") or 0.0,
    )
    return None if client.is_expired else client


async def register(
    fetch: Fetch, server: AuthorizationServer, redirect_uris: Sequence[str], scope: str | None
) -> ClientRegistration:
    """Register a client (RFC 7591); AuthFailure if the authorization server does not allow that."""
    endpoint = server.endpoint("registration_endpoint", "/register")
    if endpoint is None:
        raise AuthFailure(
            f"the authorization server {server.issuer} does not register clients by itself",
            hint="register one there, and set auth.client_id",
        )
    is_native = all(urlsplit(uri).scheme == "http" for uri in redirect_uris)
    grants = ["authorization_code", "refresh_token"]
    if server.endpoint("device_authorization_endpoint"):
        grants.append(DEVICE_GRANT)
    wanted: dict[str, Any] = {
        "client_name": "toolbus",
        "redirect_uris": list(redirect_uris),
        "grant_types": grants,
        "response_types": ["code"],
        "token_endpoint_auth_method": _preferred(server),
        "application_type": "native" if is_native else "web",
        **({"scope": scope} if scope else {}),
    }
    reply = await fetch.post_json(endpoint, wanted)
    if reply.status == 400 and wanted.pop("scope", None):
        # Some know no scopes but their own; others allow a client no scope that it was not registered with.
        reply = await fetch.post_json(endpoint, wanted)
    answer = reply.json() or {}
    client_id = answer.get("client_id")
    if reply.status not in (200, 201) or not isinstance(client_id, str) or not client_id:
        reason = shown(answer.get("error_description") or answer.get("error") or reply.problem)
        raise AuthFailure(
            f"the authorization server refused to register a client: {reason}",
            hint="register one there, and set auth.client_id",
        )
    secret = answer.get("client_secret")
    secret = secret if isinstance(secret, str) and secret else None
    expires = answer.get("client_secret_expires_at")
    return ClientRegistration(
        id=client_id,
        secret=secret,
        method=_method(answer.get("token_endpoint_auth_method"), secret, server),
        is_registered=True,
        secret_expires_at=float(expires) if isinstance(expires, int | float) else 0.0,
    )


def _preferred(server: AuthorizationServer) -> str:
    """The method to ask for: none, as a program on a person's machine cannot keep a secret."""
    supported = server.supported("token_endpoint_auth_methods_supported")
    return next((method for method in ("none", *_METHODS) if method in supported), "none")


def _method(assigned: object, secret: str | None, server: AuthorizationServer) -> str:
    if assigned is not None:
        if assigned not in _METHODS or assigned == "private_key_jwt":
            raise AuthFailure(f"the client is to prove itself with {shown(assigned)}, which is not supported")
        if assigned != "none" and secret is None:
            raise AuthFailure("the authorization server registered a client with a secret, and sent none")
        return str(assigned)
    if secret is None:
        return "none"
    supported = server.supported("token_endpoint_auth_methods_supported") or ("client_secret_basic",)
    return next((method for method in _METHODS[:2] if method in supported), "none")


ASSERTION_LIFETIME = 300
MAX_LIFETIME = 10 * 365 * 86_400.0
_JWT_BEARER = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class TokenEndpoint:
    """The token endpoint of an authorization server, for one client."""

    fetch: Fetch
    server: AuthorizationServer
    client: ClientRegistration
    key: DpopKey | None = None

    async def tokens(self, form: Mapping[str, str], login: Login) -> Login:
        """Request tokens for a login; Rejected with the error of the authorization server."""
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
            error, description = _error(reply), (answer or {}).get("error_description")
            raise Rejected(
                shown(error or reply.problem), shown(description) if isinstance(description, str) else ""
            )
        return self._completed(login, answer, asked)

    async def post(self, name: str, form: Mapping[str, str]) -> FetchedReply:
        """Post to another endpoint of the authorization server, with the client's credentials."""
        url = self.server.endpoint(name)
        if url is None:
            raise AuthFailure(
                f"the authorization server {self.server.issuer} has no {name.replace('_', ' ')}"
            )
        form, headers = self._authenticated(form)
        return await self.fetch.post_form(url, form, headers)

    async def _post(self, url: str, form: Mapping[str, str]) -> FetchedReply:
        form, headers = self._authenticated(form)
        if self.key is not None:
            headers["DPoP"] = self.key.proof("POST", url)
        return await self.fetch.post_form(url, form, headers)

    def _authenticated(self, form: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
        """The form and the headers, with proof of the client's identity."""
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

    def _completed(self, login: Login, answer: Mapping[str, Any], asked: float) -> Login:
        access, kind = answer.get("access_token"), str(answer.get("token_type", "")).lower()
        if not isinstance(access, str) or not access or not access.isascii() or not access.isprintable():
            raise AuthFailure("the authorization server's response contains no usable token", step="token")
        if kind not in ("bearer", "dpop") or (kind == "dpop" and self.key is None):
            raise AuthFailure(
                f"the authorization server issued a token of type {shown(answer.get('token_type'))}",
                step="token",
            )
        scope, refresh = answer.get("scope"), answer.get("refresh_token")
        # A refresh token stays valid unless a new one comes.
        kept = login.refresh if login.access else None
        return replace(
            login,
            client=self.client.to_record(),
            access=access,
            type="DPoP" if kind == "dpop" else "Bearer",
            scope=scope if isinstance(scope, str) else login.scope,
            expires_at=_expiry(answer.get("expires_in"), asked),
            renewed_at=time.time(),
            refresh=refresh if isinstance(refresh, str) and refresh else kept,
            jwk=self.key.jwk if self.key is not None and kind == "dpop" else None,
        )


def _expiry(seconds: object, asked: float) -> float | None:
    try:
        lifetime = float(seconds) if isinstance(seconds, int | float | str) else None
    except ValueError:
        lifetime = None
    if lifetime is None or not 0 <= lifetime <= MAX_LIFETIME:
        return None
    return asked + lifetime


def _error(reply: FetchedReply) -> str | None:
    error = (reply.json() or {}).get("error")
    return error if isinstance(error, str) else None
