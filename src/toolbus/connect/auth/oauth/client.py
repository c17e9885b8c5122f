"""Who we are at an authorization server: a client with a document, from the config, or registered."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from toolbus.config.settings.auth import Auth
from toolbus.connect.auth.failure import AuthFailure
from toolbus.connect.auth.fetch import Fetch
from toolbus.connect.auth.oauth.discovery import AuthorizationServer
from toolbus.connect.auth.text import shown

_METHODS = ("client_secret_basic", "client_secret_post", "private_key_jwt", "none")
DEVICE_GRANT = "urn:ietf:params:oauth:grant-type:device_code"


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Client:
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
        """Whether its secret is no longer valid."""
        return 0 < self.secret_expires_at <= time.time()

    def to_record(self) -> dict[str, Any]:
        """What is stored; a secret only if we got it, and it is not in the config."""
        record: dict[str, Any] = {"client_id": self.id, "token_endpoint_auth_method": self.method}
        if self.is_registered:
            record |= {"client_secret": self.secret, "client_secret_expires_at": self.secret_expires_at}
            record["registered"] = True
        return record


def configured_client(server: AuthorizationServer, auth: Auth, values: Mapping[str, str]) -> Client | None:
    """The client of the config: of a metadata document where that is supported, else its `client_id`."""
    document = values.get("client_metadata")
    if document is not None and server.has("client_id_metadata_document_supported"):
        return Client(id=document)
    if "client_id" not in values:
        return Client(id="") if auth.type == "workload" else None
    secret, key = values.get("client_secret"), values.get("key")
    return Client(
        id=values["client_id"],
        secret=secret,
        key=key,
        algorithm=values.get("algorithm", "ES256"),
        method="private_key_jwt" if key else _method(None, secret, server),
    )


def stored_client(record: Mapping[str, Any]) -> Client | None:
    """The client that was registered before; None if there is none, or its secret has expired."""
    if not record.get("registered") or not isinstance(record.get("client_id"), str):
        return None
    client = Client(
        id=record["client_id"],
        secret=record.get("client_secret"),
        method=record.get("token_endpoint_auth_method", "none"),
        is_registered=True,
        secret_expires_at=record.get("client_secret_expires_at") or 0.0,
    )
    return None if client.is_expired else client


async def register(
    fetch: Fetch, server: AuthorizationServer, redirect_uris: Sequence[str], scope: str | None
) -> Client:
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
    return Client(
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
