"""The requirements of an MCP server, and its authorization server (RFC 9728, RFC 8414).

The `WWW-Authenticate` header of a refused request leads to the metadata. Every document must name the party
it was requested for: the resource its server, the metadata its issuer.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, cast
from urllib.parse import urlsplit

from mcp.client.auth.utils import (
    build_oauth_authorization_server_metadata_discovery_urls,
    build_protected_resource_metadata_discovery_urls,
    issuers_match,
)
from mcp.shared.auth_utils import check_resource_allowed

from toolbus.connect.auth.failure import AuthFailure
from toolbus.connect.auth.fetch import Fetch, FetchedReply

# A parameter, or the name of a scheme; in a quoted string, a backslash escapes the next character.
_PART = re.compile(
    r"""([!#$%&'*+.^_`|~\w-]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s,"]+))|([!#$%&'*+.^_`|~\w-]+)"""
)
_SCHEMES = ("bearer", "dpop")
MAX_HEADER = 16_384


@dataclass(frozen=True, slots=True, kw_only=True)
class Challenge:
    """The parameters of the Bearer and DPoP challenges of a response."""

    error: str | None = None
    error_description: str | None = None
    scope: str | None = None
    resource_metadata: str | None = None
    wants_dpop: bool = False

    @property
    def needs_scope(self) -> bool:
        return self.error == "insufficient_scope"


def challenge_of(headers: Mapping[str, str]) -> Challenge:
    """The challenge of a response, from its headers by name in lower case."""
    schemes: dict[str, dict[str, str]] = {}
    current: dict[str, str] = {}
    for name, quoted, plain, scheme in _PART.findall(headers.get("www-authenticate", "")[:MAX_HEADER]):
        if scheme:
            current = schemes.setdefault(scheme.lower(), {})
        else:
            current.setdefault(name.lower(), re.sub(r"\\(.)", r"\1", quoted) or plain)
    found = {key: value for scheme in _SCHEMES for key, value in schemes.get(scheme, {}).items()}
    return Challenge(
        error=found.get("error"),
        error_description=found.get("error_description"),
        scope=found.get("scope"),
        resource_metadata=found.get("resource_metadata"),
        wants_dpop="dpop" in schemes,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ProtectedResource:
    """The description that an MCP server gives of itself."""

    resource: str | None = None
    """Its name in requests for tokens; None if it does not say."""
    issuers: tuple[str, ...] = ()
    scopes: tuple[str, ...] | None = None
    needs_dpop: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class AuthorizationServer:
    """An authorization server, as its metadata describes it."""

    issuer: str
    metadata: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Empty if it has none, as in the first version of the protocol."""

    def endpoint(self, name: str, default: str | None = None) -> str | None:
        """The URL of an endpoint: `token_endpoint`. Without metadata, at a default path of the origin."""
        if self.metadata:
            value = self.metadata.get(name)
            return value if isinstance(value, str) and value else None
        return None if default is None else f"{_origin(self.issuer)}{default}"

    def supported(self, name: str) -> tuple[str, ...]:
        """A list of the metadata: `scopes_supported`."""
        return _texts(self.metadata.get(name)) or ()

    def has(self, name: str) -> bool:
        """A flag of the metadata."""
        return self.metadata.get(name) is True


async def find_resource(fetch: Fetch, server_url: str, named: str | None) -> ProtectedResource:
    """The server's own description; `named` is the URL in its challenge."""
    for url in build_protected_resource_metadata_discovery_urls(named, server_url):
        reply = await fetch.get(url)
        document = _document(reply)
        if document is None:
            _refuse_foreign_redirect(reply)
            continue
        resource = document.get("resource")
        if not isinstance(resource, str) or not check_resource_allowed(server_url, resource):
            raise AuthFailure(f"the metadata at {reply.url.without_query} is about {_quoted(resource)}")
        issuers = _texts(document.get("authorization_servers"))
        if not issuers:
            raise AuthFailure(f"the metadata at {reply.url.without_query} names no authorization server")
        return ProtectedResource(
            resource=resource,
            issuers=issuers,
            scopes=_texts(document.get("scopes_supported")),
            needs_dpop=document.get("dpop_bound_access_tokens_required") is True,
        )
    return ProtectedResource()


async def find_authorization_server(
    fetch: Fetch, server_url: str, resource: ProtectedResource, configured: str | None
) -> AuthorizationServer:
    """The authorization server: the configured one if it is among the resource's, else the first of those."""
    named = _chosen(resource, configured)
    issuer = named or _origin(server_url)
    for url in build_oauth_authorization_server_metadata_discovery_urls(named, server_url):
        reply = await fetch.get(url)
        document = _document(reply)
        if document is None:
            _refuse_foreign_redirect(reply)
            continue
        found = document.get("issuer")
        # An issuer that the server itself did not name is only known up to a slash.
        is_named = named in resource.issuers
        if isinstance(found, str) and (found == issuer or (not is_named and issuers_match(found, issuer))):
            return AuthorizationServer(issuer=found, metadata=document)
        raise AuthFailure(f"the metadata at {reply.url.without_query} is about the issuer {_quoted(found)}")
    if named is not None:
        raise AuthFailure(f"the authorization server {named} publishes no metadata")
    return AuthorizationServer(issuer=issuer)


def _chosen(resource: ProtectedResource, configured: str | None) -> str | None:
    if configured is None:
        return resource.issuers[0] if resource.issuers else None
    for issuer in resource.issuers:
        if issuers_match(issuer, configured):
            return issuer
    if resource.issuers:
        listed = ", ".join(resource.issuers[:3])
        raise AuthFailure(f"the server uses the authorization server {listed}, not auth.issuer")
    return configured


def _document(reply: FetchedReply) -> Mapping[str, Any] | None:
    """The document of a reply; None if it is not there."""
    return reply.json() if reply.status == 200 else None


def _refuse_foreign_redirect(reply: FetchedReply) -> None:
    location = reply.headers.get("location", "")
    if reply.status // 100 == 3 and location:
        try:
            onward = reply.url.join(location)
        except ValueError:
            raise AuthFailure(f"{reply.url.without_query} redirects to an invalid URL") from None
        if onward.origin != reply.url.origin:
            shown = onward.without_query[:300]
            raise AuthFailure(f"{reply.url.without_query} redirects to {shown}, which is not followed")


def _texts(value: Any) -> tuple[str, ...] | None:
    if not isinstance(value, list):
        return None
    return tuple(item for item in cast("list[Any]", value) if isinstance(item, str))


def _origin(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"


def _quoted(value: Any) -> str:
    return repr(value[:300]) if isinstance(value, str) else "nothing"
