"""Get, renew and give back the tokens of one user for one server: each step in order, each failure named.

discover   the authorization server, and its abilities
client     our registration at that server
grant      a person signs in, or the program proves its own identity
token      the tokens, which are stored
"""

import asyncio
import os
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from typing import TypeVar
from urllib.parse import urlsplit, urlunsplit

from mcp.client.auth.utils import issuers_match, union_scopes
from mcp.shared.auth_utils import resource_url_from_server_url

from toolbus.config import Resolved, ServerConfig
from toolbus.config.settings.auth import ClientCredentials, IdentityAssertion, OAuth, TokenExchange, Workload
from toolbus.connect.auth.authorization import Authorization, check_pkce, first_of, poll, request_code
from toolbus.connect.auth.client import (
    ClientRegistration,
    TokenEndpoint,
    configured_client,
    register,
    stored_client,
)
from toolbus.connect.auth.credentials import LinkOwner
from toolbus.connect.auth.discovery import (
    AuthorizationServer,
    Challenge,
    ProtectedResource,
    find_authorization_server,
    find_resource,
)
from toolbus.connect.auth.exchange import TokenCache, exchange_form, subject_of
from toolbus.connect.auth.failure import AuthFailure, PersonNeeded, Rejected, Step, Unreachable
from toolbus.connect.auth.fetch import Fetch
from toolbus.connect.auth.loopback import Loopback
from toolbus.connect.auth.tokens import DpopKey
from toolbus.connect.http.url import parse_url
from toolbus.core.ask.interactions import LoginHandler, LoginRequest
from toolbus.core.values.errors import SignInFailed, TokenStoreError
from toolbus.state.tokens.tokens import Login

NO_CHALLENGE = Challenge()
_TEMPORARY = ("temporarily_unavailable", "server_error", "slow_down")
_REJECTED_HINTS = {
    "invalid_target": "check auth.audience and auth.resource, the names of the server there",
    "invalid_scope": "check auth.scopes",
}
_JWT_BEARER = "urn:ietf:params:oauth:grant-type:jwt-bearer"
MachineAuth = ClientCredentials | TokenExchange | IdentityAssertion | Workload


class OAuthFlow:
    """The sign-in of one user to one server. Failures are `AuthFailure`, with the step."""

    def __init__(self, config: ServerConfig, values: Resolved, owner: LinkOwner) -> None:
        assert isinstance(config.auth, OAuth | MachineAuth), "only these need tokens"
        assert values.url is not None
        self._auth = config.auth
        self._alias = config.alias
        self._values = values
        self._tokens = owner.tokens
        self._user = owner.user
        parts = urlsplit(values.url)
        url = urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))
        self.resource = resource_url_from_server_url(url)
        """The server, as the name of its tokens."""
        self._reached = _way_of(config, values)
        issuer = values.auth.get("issuer")
        self._fetch = Fetch(config, [parse_url(one) for one in (url, issuer) if one])
        self._subject = None if owner.passed is None else owner.passed.token
        self._issued = TokenCache(
            self._subject if self.is_exchange else None,
            (config.auth, tuple(sorted(values.auth.items())), self.resource, self._reached),
        )

    @property
    def is_personal(self) -> bool:
        """Whether a person has to sign in."""
        return isinstance(self._auth, OAuth)

    @property
    def is_exchange(self) -> bool:
        """Whether the token of a client is exchanged."""
        return isinstance(self._auth, TokenExchange)

    async def login(self) -> Login | None:
        """The stored login; None if there is none, or it was made with another client, `Host` or `verify`.

        The tokens of a program are not stored: it needs nobody to get others, and must not act as a person.
        Tokens of clients are in memory, beside the token that was exchanged.
        """
        if not self.is_personal:
            return self._issued.login
        login = await self._tokens.find(self.resource, self._user, self._values.auth.get("issuer"))
        if login is None:
            return None
        self._hide(login.access, login.refresh, login.client.get("client_secret"))
        configured = [
            self._values.auth[key] for key in ("client_id", "client_metadata") if key in self._values.auth
        ]
        is_ours = "client_id" not in self._values.auth or login.client.get("client_id") in configured
        # Another config may lead the same URL to another server: its logins are others.
        return login if is_ours and login.reached == self._reached else None

    def _hide(self, *secrets: str | None) -> None:
        """Hide these in messages: an authorization server may quote what it was sent."""
        for secret in secrets:
            if secret:
                self._values.redacted.learn(secret)

    @asynccontextmanager
    async def lock(self) -> AsyncGenerator[None]:
        """Only one process at a time renews a login: a refresh token may be valid only once."""
        async with self._tokens.lock(self.resource, self._user) if self.is_personal else self._issued.lock:
            yield

    async def save(self, login: Login) -> None:
        if self.is_personal:
            await self._tokens.save(login)
        else:
            self._issued.keep(login)

    async def discover(
        self, challenge: Challenge = NO_CHALLENGE
    ) -> tuple[ProtectedResource, AuthorizationServer]:
        """The descriptions that the server and its authorization server give of themselves."""
        with _step("resource metadata"):
            resource = await find_resource(self._fetch, self.resource, challenge.resource_metadata)
        with _step("authorization server"):
            issuer = self._values.auth.get("issuer")
            server = await find_authorization_server(self._fetch, self.resource, resource, issuer)
        return resource, server

    async def discover_for_person(
        self, challenge: Challenge = NO_CHALLENGE
    ) -> tuple[ProtectedResource, AuthorizationServer]:
        """As `discover`, and fail where a person must not sign in."""
        resource, server = await self.discover(challenge)
        with _step("authorization server"):
            check_pkce(server)
        return resource, server

    async def sign_in(
        self,
        handler: LoginHandler,
        *,
        scopes: Sequence[str] = (),
        device: bool = False,
        challenge: Challenge = NO_CHALLENGE,
    ) -> Login:
        """Let a person sign in; the login is not stored yet."""
        assert isinstance(self._auth, OAuth), "only a person signs in"
        resource, server = await self.discover_for_person(challenge)
        known = await self._known(server)
        scope = self._scope(resource, server, challenge, scopes, known)
        key = self._key(resource, challenge, known)
        attempt = replace(
            known or self._blank(server),
            metadata=server.metadata,
            audience=self._audience(resource),
            scope=scope,
        )
        if device:
            return await self._sign_in_elsewhere(handler, server, attempt, key)
        return await self._sign_in_here(handler, server, attempt, key)

    async def obtain(self, challenge: Challenge = NO_CHALLENGE, known: Login | None = None) -> Login:
        """Get tokens with the identity of the program, or of its client; `known` are the ones so far."""
        if self.is_exchange:
            self._hide(subject_of(self._subject))  # first: without it, nobody is asked
        resource, server = await self.discover(challenge)
        scope = self._scope(resource, server, challenge, (), known)
        key = self._key(resource, challenge, known)
        with _step("client"):
            client = configured_client(server, self._auth, self._values.auth)
            assert client is not None, "the config of a machine has a client"
        audience = self._audience(resource)
        form = await self._machine_form(server, audience) | _form(scope=scope, resource=audience)
        login = replace(self._blank(server), metadata=server.metadata, audience=audience, scope=scope)
        try:
            return await self._completed(self._endpoint(server, client, key), form, login)
        except Rejected as rejected:
            rejected.hint = _REJECTED_HINTS.get(rejected.error, "check the credentials in auth")
            raise

    async def refresh(self, login: Login) -> Login:
        """Renew the tokens without a person; PersonNeeded if that is not possible any more."""
        if login.refresh is None:
            raise PersonNeeded("the login has expired")
        key = DpopKey(login.jwk) if login.jwk else None
        endpoint = self._stored_endpoint(login, key)
        if endpoint is None:
            raise PersonNeeded("the registration of the client has expired")
        form = _form(grant_type="refresh_token", refresh_token=login.refresh, resource=login.audience)
        try:
            return await self._completed(endpoint, form, login)
        except Rejected as rejected:
            if rejected.error in _TEMPORARY:
                raise Unreachable(f"the authorization server responded: {rejected.reason}") from rejected
            raise PersonNeeded(f"the login can no longer be renewed: {rejected.reason}") from rejected

    async def sign_out(self, *, revoke: bool = False) -> bool | None:
        """Forget the login; returns whether it was revoked, None if there was none."""
        async with self.lock():
            login = await self.login()
            if login is None:
                return None
            revoked = revoke and await self._revoke(login)
            await self._tokens.remove(login)
            return revoked

    async def _revoke(self, login: Login) -> bool:
        """Revoke the refresh token, with which the access tokens end; returns whether that is confirmed."""
        endpoint = self._stored_endpoint(login)
        if endpoint is None or endpoint.server.endpoint("revocation_endpoint") is None:
            return False
        tokens = {"refresh_token": login.refresh, "access_token": login.access}
        confirmed = True
        for kind, token in tokens.items():
            if token:
                reply = await endpoint.post("revocation_endpoint", {"token": token, "token_type_hint": kind})
                # A signed access token may not be revocable by itself; it is not renewed any more.
                error = (
                    (reply.json() or {}).get("error") if token != login.refresh and login.refresh else None
                )
                confirmed = confirmed and (reply.status == 200 or error == "unsupported_token_type")
        return confirmed

    async def _sign_in_here(
        self, handler: LoginHandler, server: AuthorizationServer, login: Login, key: DpopKey | None
    ) -> Login:
        """Sign in with a browser that is sent back to this machine."""
        assert isinstance(self._auth, OAuth)
        with _step("sign-in"):
            async with Loopback(self._values.auth.get("callback")) as loopback:
                client = await self._client(server, login, loopback.redirect_uri)
                request = Authorization(
                    server=server,
                    client_id=client.id,
                    redirect_uri=loopback.redirect_uri,
                    scope=login.scope,
                    audience=login.audience,
                    prompt=self._values.auth.get("prompt", self._auth.prompt),
                )
                asked = LoginRequest(
                    server=self._alias,
                    user=self._user,
                    url=await self._fetch.check_page(request.url),
                    redirect_uri=loopback.redirect_uri,
                    names_issuer=server.has("authorization_response_iss_parameter_supported"),
                )
                code = request.code(await first_of(loopback.received(request.state), handler(asked)))
        self._hide(code, request.verifier)
        form = _form(
            grant_type="authorization_code",
            code=code,
            redirect_uri=request.redirect_uri,
            code_verifier=request.verifier,
            resource=login.audience,
        )
        return await self._completed(self._endpoint(server, client, key), form, login)

    async def _sign_in_elsewhere(
        self, handler: LoginHandler, server: AuthorizationServer, login: Login, key: DpopKey | None
    ) -> Login:
        """With a code, on any device."""
        with _step("sign-in"):
            client = await self._client(server, login, "http://127.0.0.1/callback")
            endpoint = self._endpoint(server, client, key)
            code = await request_code(endpoint, _form(scope=login.scope, resource=login.audience))
            self._hide(code.device_code)
            request = LoginRequest(
                server=self._alias, user=self._user, url=code.url, redirect_uri="", code=code.user_code
            )
            polling = asyncio.ensure_future(poll(endpoint, code, _form(resource=login.audience), login))
            asking = asyncio.ensure_future(handler(request))
            try:
                await asyncio.wait({polling, asking}, return_when=asyncio.FIRST_COMPLETED)
                if asking.done():
                    asking.result()  # what it returns is not needed, but it may have failed
                return self._accepted(await polling, key)
            finally:
                polling.cancel()
                asking.cancel()
                await asyncio.gather(polling, asking, return_exceptions=True)

    async def _client(
        self, server: AuthorizationServer, login: Login, redirect_uri: str
    ) -> ClientRegistration:
        with _step("client"):
            # A client that was registered before may be gone, or not allowed to ask for more scopes.
            client = configured_client(server, self._auth, self._values.auth)
            client = client or await register(self._fetch, server, [redirect_uri], login.scope)
        self._hide(client.secret)
        return client

    async def _machine_form(self, server: AuthorizationServer, audience: str | None) -> dict[str, str]:
        if isinstance(self._auth, ClientCredentials):
            return {"grant_type": "client_credentials"}
        if isinstance(self._auth, TokenExchange):
            return exchange_form(self._subject, self._values.auth.get("audience"))
        names = {"issuer": server.issuer, "resource": audience or self.resource}
        key = "assertion" if isinstance(self._auth, IdentityAssertion) else "token"
        return {"grant_type": _JWT_BEARER, "assertion": await self._values.lookup(key, names)}

    async def _known(self, server: AuthorizationServer) -> Login | None:
        """The stored login from the same authorization server; another one's is of no use."""
        try:
            login = await self.login()
        except TokenStoreError as error:
            if error.reason != "damaged":
                raise
            return None  # the store keeps it aside when a new one is saved
        return login if login is not None and issuers_match(login.issuer, server.issuer) else None

    def _endpoint(
        self, server: AuthorizationServer, client: ClientRegistration, key: DpopKey | None = None
    ) -> TokenEndpoint:
        return TokenEndpoint(fetch=self._fetch, server=server, client=client, key=key)

    def _stored_endpoint(self, login: Login, key: DpopKey | None = None) -> TokenEndpoint | None:
        """The token endpoint that issued a login; None if its client is not valid any more."""
        server = AuthorizationServer(issuer=login.issuer, metadata=login.metadata)
        client = configured_client(server, self._auth, self._values.auth) or stored_client(login.client)
        return None if client is None else self._endpoint(server, client, key)

    def _blank(self, server: AuthorizationServer) -> Login:
        return Login(issuer=server.issuer, resource=self.resource, user=self._user, reached=self._reached)

    async def _completed(self, endpoint: TokenEndpoint, form: Mapping[str, str], login: Login) -> Login:
        with _step("token"):
            return self._accepted(await endpoint.tokens(form, login), endpoint.key)

    def _accepted(self, login: Login, key: DpopKey | None) -> Login:
        if self.is_exchange and self._subject is not None and login.access == self._subject.value:
            raise AuthFailure("the authorization server returned the token of the client", step="token")
        self._hide(login.access, login.refresh)
        if key is not None and login.type != "DPoP" and self._auth.dpop == "always":
            raise AuthFailure(
                "the authorization server issued a token that is not bound to a key", step="token"
            )
        return login

    def _audience(self, resource: ProtectedResource) -> str | None:
        setting = self._values.auth.get("resource", self._auth.resource)
        if isinstance(setting, str):
            return setting
        return (resource.resource or self.resource) if setting else None

    def _scope(
        self,
        resource: ProtectedResource,
        server: AuthorizationServer,
        challenge: Challenge,
        wanted: Sequence[str],
        known: Login | None,
    ) -> str | None:
        """The scopes to ask for: from the caller or the config, otherwise the ones that the server needs."""
        own = " ".join(wanted or self._auth.scopes) or None
        asked = challenge.scope
        if asked is None and own is None and resource.scopes:
            asked = " ".join(resource.scopes)
        if challenge.needs_scope:
            # What was granted before must not get lost.
            own = union_scopes(own, known.scope if known else None)
            scope = union_scopes(own, asked)
        else:
            scope = own or asked
        may_last = "offline_access" in server.supported("scopes_supported") and self.is_personal
        return union_scopes(scope, "offline_access") if scope and may_last else scope

    def _key(self, resource: ProtectedResource, challenge: Challenge, known: Login | None) -> DpopKey | None:
        if known is not None and known.jwk:
            return DpopKey(known.jwk)
        asked = resource.needs_dpop or challenge.wants_dpop
        wanted = self._auth.dpop == "always" or (self._auth.dpop == "auto" and asked)
        return DpopKey.generate() if wanted else None


def _form(**fields: str | None) -> dict[str, str]:
    """The fields of a form that have a value."""
    return {name: text for name, text in fields.items() if text}


@contextmanager
def _step(name: Step) -> Generator[None]:
    """Name the step in a failure that does not know it."""
    try:
        yield
    except AuthFailure as failure:
        failure.step = failure.step or name
        raise


Result = TypeVar("Result")


class OAuthClient:
    """The login of one user to one server; failures are `SignInFailed`, or `TokenStoreError`."""

    def __init__(self, config: ServerConfig, values: Resolved, owner: LinkOwner) -> None:
        self._alias = config.alias
        self._redacted = values.redacted
        self._flow = OAuthFlow(config, values, owner)

    @property
    def resource(self) -> str:
        """The server, as the name of its tokens."""
        return self._flow.resource

    async def login(self) -> Login | None:
        """The stored login."""
        return await self._reported(self._flow.login())

    async def discover(self) -> None:
        """Find out whether tokens could be had: the server, and its authorization server, are asked."""
        flow = self._flow
        await self._reported(flow.discover_for_person() if flow.is_personal else flow.discover())

    async def sign_in(
        self, handler: LoginHandler, *, scopes: Sequence[str] = (), device: bool = False
    ) -> Login:
        """Let a person sign in, in a browser or with a code on another device, and store the login."""
        return await self._reported(self._sign_in(handler, scopes, device))

    async def _sign_in(self, handler: LoginHandler, scopes: Sequence[str], device: bool) -> Login:
        login = await self._flow.sign_in(handler, scopes=scopes, device=device)
        async with self._flow.lock():
            await self._flow.save(login)
        return login

    async def sign_out(self, *, revoke: bool = False) -> bool | None:
        """Forget the login; returns whether it was revoked, None if there was none."""
        return await self._reported(self._flow.sign_out(revoke=revoke))

    async def _reported(self, work: Awaitable[Result]) -> Result:
        # Not a context manager: the failure would be the context of our error, and may quote a secret.
        try:
            return await work
        except AuthFailure as failure:
            reported = as_error(failure, self._alias, self._redacted)
        raise reported


def as_error(failure: AuthFailure, server: str, redacted: Callable[[str], str]) -> SignInFailed:
    return SignInFailed(
        server, failure.step or "sign-in", redacted(failure.reason), hint=redacted(failure.hint)
    )


def _way_of(config: ServerConfig, values: Resolved) -> str:
    """The settings that decide who answers at the URL; empty by default."""
    hosts = (text for name, text in values.headers.items() if name.lower() == "host")
    verify = os.path.abspath(config.verify) if isinstance(config.verify, str) else config.verify
    return " ".join([*hosts, *([] if verify is True else [str(verify)])])
