"""The rules of the authorization server, for the handlers of the SDK."""

import re
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any
from urllib.parse import quote, unquote, urlencode, urlsplit

from mcp.server.auth.provider import (
    AccessToken,
    AuthorizationCode,
    AuthorizationParams,
    AuthorizeError,
    OAuthAuthorizationServerProvider,
    RefreshToken,
    RegistrationError,
    TokenError,
)
from mcp.shared.auth import OAuthClientInformationFull, OAuthToken
from pydantic import AnyUrl

from toolbus.config.settings.serve import Serve
from toolbus.gateway.sign_in.clients import ClientDirectory, ClientRefused, client_secret, registered_id
from toolbus.gateway.sign_in.grants import Grant, Turn
from toolbus.gateway.sign_in.request import REQUEST, SIGN_IN, WAITING_SECONDS, WaitingRequest
from toolbus.gateway.sign_in.tokens import (
    CODE,
    REFRESH,
    SignInState,
    access_token,
    carried,
    current,
    end_stolen,
)

WAITING = "request"
_CHALLENGE = re.compile(r"[A-Za-z0-9_-]{43}")
"""The SHA-256 of a code verifier, as PKCE writes it."""
_LONGEST_STATE = 2_048


class IssuedCode(AuthorizationCode):
    """A code, and the grant that it is for."""

    grant: Grant
    turn: Turn


class IssuedRefresh(RefreshToken):
    """A refresh token, and the grant that it is for."""

    grant: Grant
    turn: Turn


@dataclass(frozen=True, slots=True)
class AuthorizationRules:
    """The authorization server of one config."""

    state: SignInState
    serve: Serve
    clients: ClientDirectory

    @property
    def issuer(self) -> str:
        return self.serve.issuer or ""

    @property
    def resource(self) -> str:
        """The URL of the MCP endpoint."""
        return self.serve.resource or ""

    def views_of(self, resource: str | None, scopes: Sequence[str] | None) -> tuple[str, dict[str, str]]:
        """The resource that a client means, and its scopes with the views that they give.

        A name that is not a view may be a server, which any view may have: nobody learns here whether it is.
        """
        resource = self.resource if resource is None else _plain(resource)
        name = unquote(resource.removeprefix(self.resource).removeprefix("/"))
        known = self.serve.scopes
        if resource not in (self.resource, f"{self.resource}/{quote(name)}") or "/" in name:
            raise AuthorizeError("invalid_target", "the resource is not a URL of this gateway")
        views = {name} if self.serve.view(name) is not None else {*known.values()}
        wanted = {
            scope: given
            for scope, given in known.items()
            if given in views and (scopes is None or scope in scopes)
        }
        if not wanted:
            raise AuthorizeError("invalid_scope", f"this resource has the scopes {' '.join(known)}")
        return resource, wanted

    def issued(self, grant: Grant, number: int, scopes: Sequence[str]) -> OAuthToken:
        """The tokens for a turn of a grant."""
        setting = self.serve.auth.sign_in
        assert setting is not None, "it is configured"
        token, seconds = access_token(self.state, self.issuer, grant, scopes, setting.token_seconds)
        return OAuthToken(
            access_token=token,
            expires_in=seconds,
            scope=" ".join(scopes),
            refresh_token=carried(self.state.keys, REFRESH, grant.id, number),
        )


@dataclass(slots=True)
class AuthorizationProvider(OAuthAuthorizationServerProvider[IssuedCode, IssuedRefresh, AccessToken]):
    """The provider for one request, whose parameters are `asked`."""

    rules: AuthorizationRules
    asked: Mapping[str, str] = field(default_factory=dict[str, str])
    redirect_uris: Sequence[str] = ()
    """The redirect URIs of a client that registers, as it wrote them."""

    async def get_client(self, client_id: str) -> OAuthClientInformationFull | None:
        keys = self.rules.state.keys
        try:
            found = await self.rules.clients.client(keys, client_id)
        except ClientRefused:
            return None
        return found.for_request(keys, self.asked.get("redirect_uri"))

    async def register_client(self, client_info: OAuthClientInformationFull) -> None:
        """Give the client an ID that contains what it said; nothing is stored."""
        keys, uris = self.rules.state.keys, self.redirect_uris
        method = client_info.token_endpoint_auth_method or "none"
        try:
            client_info.client_id = registered_id(keys, client_info.client_name or "", uris, method)
        except ClientRefused as refused:
            is_uri = "redirect_uri" in refused.reason
            error = "invalid_redirect_uri" if is_uri else "invalid_client_metadata"
            raise RegistrationError(error, refused.reason) from refused
        if client_info.client_secret is not None:
            client_info.client_secret = client_secret(keys, client_info.client_id)

    async def authorize(self, client: OAuthClientInformationFull, params: AuthorizationParams) -> str:
        """The URL of the pages for people, with the request in it."""
        rules = self.rules
        if not _CHALLENGE.fullmatch(params.code_challenge):
            raise AuthorizeError("invalid_request", "the code_challenge is not a SHA-256 of PKCE (S256)")
        if len(params.state or "") > _LONGEST_STATE:
            raise AuthorizeError("invalid_request", "the state is too long")
        resource, wanted = rules.views_of(params.resource, params.scopes)
        facts = await rules.clients.client(rules.state.keys, client.client_id)
        waiting = WaitingRequest(
            id=secrets.token_hex(16),
            client_id=client.client_id,
            client_name=facts.name,
            client_host=facts.host,
            redirect_uri=self.asked.get("redirect_uri", facts.redirect_uris[0]),
            resource=resource,
            scopes=tuple(wanted),
            views=tuple(dict.fromkeys(wanted.values())),
            state=params.state,
            code_challenge=params.code_challenge,
            expires=rules.state.values.now() + WAITING_SECONDS,
        )
        request = rules.state.keys.signed(WAITING, asdict(waiting))
        return f"{rules.issuer}{SIGN_IN}?{urlencode({REQUEST: request})}"

    async def load_authorization_code(
        self, client: OAuthClientInformationFull, authorization_code: str
    ) -> IssuedCode | None:
        found = await current(self.rules.state, CODE, authorization_code)
        if found is None:
            return None
        grant, turn = found
        return IssuedCode(
            code=authorization_code,
            scopes=list(grant.scopes),
            expires_at=grant.expires,
            client_id=grant.client_id,
            code_challenge=turn.code_challenge,
            redirect_uri=AnyUrl(turn.redirect_uri),
            redirect_uri_provided_explicitly="redirect_uri" in self.asked,
            grant=grant,
            turn=turn,
        )

    async def exchange_authorization_code(
        self, client: OAuthClientInformationFull, authorization_code: IssuedCode
    ) -> OAuthToken:
        rules, grant, turn = self.rules, authorization_code.grant, authorization_code.turn
        self._check_resource(grant)
        setting = rules.serve.auth.sign_in
        assert setting is not None, "it is configured"
        lasting = await rules.state.grants.begin(grant, turn, setting.grant_seconds)
        if lasting is None:  # somebody else used it at the same time
            await end_stolen(rules.state, grant)
            raise TokenError("invalid_grant", "the code was used before")
        return rules.issued(lasting, turn.number + 1, lasting.scopes)

    async def load_refresh_token(
        self, client: OAuthClientInformationFull, refresh_token: str
    ) -> IssuedRefresh | None:
        found = await current(self.rules.state, REFRESH, refresh_token)
        if found is None:
            return None
        grant, turn = found
        return IssuedRefresh(
            token=refresh_token,
            client_id=grant.client_id,
            scopes=list(grant.scopes),
            expires_at=int(grant.expires),
            grant=grant,
            turn=turn,
        )

    async def exchange_refresh_token(
        self, client: OAuthClientInformationFull, refresh_token: IssuedRefresh, scopes: list[str]
    ) -> OAuthToken:
        rules, grant, turn = self.rules, refresh_token.grant, refresh_token.turn
        self._check_resource(grant)
        if not grant.is_for(rules.resource):
            raise TokenError("invalid_grant", "the URL of the gateway has changed; sign in again")
        left = grant.expires - rules.state.values.now()
        if not await rules.state.grants.advance(grant, turn, left):
            await end_stolen(rules.state, grant)
            raise TokenError("invalid_grant", "the refresh token was used before")
        return rules.issued(grant, turn.number + 1, scopes)

    async def load_access_token(self, token: str) -> AccessToken | None:
        claims: dict[str, Any] | None = self.rules.state.keys.claims(token)
        if claims is None:
            return None
        return AccessToken(token=token, client_id=claims["client_id"], scopes=[], claims=claims)

    async def revoke_token(self, token: AccessToken | IssuedRefresh) -> None:
        grant = token.grant.id if isinstance(token, IssuedRefresh) else (token.claims or {})["grant"]
        await self.rules.state.grants.end(grant)

    def _check_resource(self, grant: Grant) -> None:
        """A token request may name the resource of the grant again, and no other one."""
        asked = self.asked.get("resource")
        if asked is not None and _plain(asked) != grant.resource:
            raise TokenError("invalid_target", "the grant is for another resource")


def _plain(resource: str) -> str:
    """The URL of a resource as we write it: a slash at the end, or another case, changes nothing."""
    try:
        parts = urlsplit(resource.rstrip("/"))
        return parts._replace(scheme=parts.scheme.lower(), netloc=parts.netloc.lower()).geturl()
    except ValueError:
        return resource
