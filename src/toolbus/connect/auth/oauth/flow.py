"""Get, renew and give back the tokens of one user for one server: each step in order, each failure named.

discover   which authorization server, and what it can do
client     who we are there
grant      a person signs in, or the program proves its own identity
token      the tokens, which are stored
"""

import asyncio
import time
from collections.abc import AsyncGenerator, Generator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from mcp.client.auth.utils import issuers_match, union_scopes
from mcp.shared.auth_utils import resource_url_from_server_url

from toolbus.config import Resolved, ServerConfig
from toolbus.config.settings.auth import ClientCredentials, IdentityAssertion, OAuth, Workload
from toolbus.connect.auth.failure import AuthFailure, PersonNeeded, Rejected, Step, Unreachable
from toolbus.connect.auth.fetch import Fetch
from toolbus.connect.auth.loopback import Loopback
from toolbus.connect.auth.oauth.authorization import Authorization, check_pkce, first_of
from toolbus.connect.auth.oauth.challenge import Challenge
from toolbus.connect.auth.oauth.client import (
    DEVICE_GRANT,
    ClientRegistration,
    configured_client,
    register,
    stored_client,
)
from toolbus.connect.auth.oauth.discovery import (
    AuthorizationServer,
    ProtectedResource,
    find_authorization_server,
    find_resource,
)
from toolbus.connect.auth.oauth.dpop import DpopKey
from toolbus.connect.auth.oauth.token_endpoint import TokenEndpoint, TokenSet
from toolbus.connect.auth.text import shown
from toolbus.connect.http.url import parse_url
from toolbus.core.ask.interactions import LoginHandler, LoginRequest
from toolbus.core.values.errors import TokenStoreError
from toolbus.state.tokens.login import Login
from toolbus.state.tokens.tokens import TokenSource

NO_CHALLENGE = Challenge()
_TEMPORARY = ("temporarily_unavailable", "server_error", "slow_down")
_JWT_BEARER = "urn:ietf:params:oauth:grant-type:jwt-bearer"
MachineAuth = ClientCredentials | IdentityAssertion | Workload


class OAuthFlow:
    """The sign-in of one user to one server. Failures are `AuthFailure`, with the step."""

    def __init__(self, config: ServerConfig, values: Resolved, tokens: TokenSource, user: str = "") -> None:
        assert isinstance(config.auth, OAuth | MachineAuth), "only these need tokens"
        assert values.url is not None
        self._auth = config.auth
        self._alias = config.alias
        self._values = values
        self._tokens = tokens
        self._user = user
        parts = urlsplit(values.url)
        url = urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))
        self.resource = resource_url_from_server_url(url)
        """The server, as the name of its tokens."""
        issuer = values.auth.get("issuer")
        self._fetch = Fetch(config, [parse_url(one) for one in (url, issuer) if one])

    @property
    def is_personal(self) -> bool:
        """Whether a person has to sign in."""
        return isinstance(self._auth, OAuth)

    async def login(self) -> Login | None:
        """The stored login; None if there is none, or if it was made with another client than the config's.

        The tokens of a program are not stored: it needs nobody to get others, and must not act as a person.
        """
        if not self.is_personal:
            return None
        login = await self._tokens.find(self.resource, self._user, self._values.auth.get("issuer"))
        if login is None:
            return None
        self._hide(login.access, login.refresh, login.client.get("client_secret"))
        configured = [
            self._values.auth[key] for key in ("client_id", "client_metadata") if key in self._values.auth
        ]
        is_ours = "client_id" not in self._values.auth or login.client.get("client_id") in configured
        return login if is_ours else None

    def _hide(self, *secrets: str | None) -> None:
        """Hide these in messages: an authorization server may quote what it was sent."""
        for secret in secrets:
            if secret:
                self._values.redacted.learn(secret)

    @asynccontextmanager
    async def lock(self) -> AsyncGenerator[None]:
        """Only one process at a time renews a login: a refresh token may be valid only once."""
        async with self._tokens.lock(self.resource, self._user) if self.is_personal else nullcontext():
            yield

    async def save(self, login: Login) -> None:
        """Store a login of a person."""
        if self.is_personal:
            await self._tokens.save(login)

    async def discover(
        self, challenge: Challenge = NO_CHALLENGE
    ) -> tuple[ProtectedResource, AuthorizationServer]:
        """What the server and its authorization server say about themselves."""
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
        """Get tokens with the program's own identity; `known` are the ones so far."""
        resource, server = await self.discover(challenge)
        scope = self._scope(resource, server, challenge, (), known)
        key = self._key(resource, challenge, known)
        with _step("client"):
            client = configured_client(server, self._auth, self._values.auth)
            assert client is not None, "the config of a machine has a client"
        audience = self._audience(resource)
        form = await self._machine_form(server, audience)
        form |= {name: text for name, text in (("scope", scope), ("resource", audience)) if text}
        endpoint = TokenEndpoint(fetch=self._fetch, server=server, client=client, key=key)
        try:
            with _step("token"):
                tokens = await endpoint.tokens(form)
        except Rejected as rejected:
            rejected.hint = "check the credentials in auth"
            raise
        login = replace(self._blank(server), metadata=server.metadata, audience=audience, scope=scope)
        return self._completed(login, client, tokens, key)

    async def refresh(self, login: Login) -> Login:
        """Renew the tokens without a person; PersonNeeded if that is not possible any more."""
        if login.refresh is None:
            raise PersonNeeded("the login has expired")
        server = AuthorizationServer(issuer=login.issuer, metadata=login.metadata)
        client = configured_client(server, self._auth, self._values.auth) or stored_client(login.client)
        if client is None:
            raise PersonNeeded("the registration of the client has expired")
        key = DpopKey(login.jwk) if login.jwk else None
        endpoint = TokenEndpoint(fetch=self._fetch, server=server, client=client, key=key)
        form = {"grant_type": "refresh_token", "refresh_token": login.refresh}
        form |= {"resource": login.audience} if login.audience else {}
        try:
            with _step("token"):
                tokens = await endpoint.tokens(form)
        except Rejected as rejected:
            if rejected.error in _TEMPORARY:
                raise Unreachable(f"the authorization server responded: {rejected.reason}") from rejected
            raise PersonNeeded(f"the login can no longer be renewed: {rejected.reason}") from rejected
        return self._completed(login, client, tokens, key)

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
        server = AuthorizationServer(issuer=login.issuer, metadata=login.metadata)
        client = configured_client(server, self._auth, self._values.auth) or stored_client(login.client)
        if client is None or server.endpoint("revocation_endpoint") is None:
            return False
        endpoint = TokenEndpoint(fetch=self._fetch, server=server, client=client)
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
        """With a browser that is sent back to this machine."""
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
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": request.redirect_uri,
            "code_verifier": request.verifier,
        }
        form |= {"resource": login.audience} if login.audience else {}
        with _step("token"):
            tokens = await TokenEndpoint(fetch=self._fetch, server=server, client=client, key=key).tokens(
                form
            )
        return self._completed(login, client, tokens, key)

    async def _sign_in_elsewhere(
        self, handler: LoginHandler, server: AuthorizationServer, login: Login, key: DpopKey | None
    ) -> Login:
        """With a code, on any device."""
        form = {name: text for name, text in (("scope", login.scope), ("resource", login.audience)) if text}
        with _step("sign-in"):
            client = await self._client(server, login, "http://127.0.0.1/callback")
            endpoint = TokenEndpoint(fetch=self._fetch, server=server, client=client, key=key)
            code = await request_code(endpoint, form)
            self._hide(code.device_code)
            request = LoginRequest(
                server=self._alias, user=self._user, url=code.url, redirect_uri="", code=code.user_code
            )
            polling = asyncio.ensure_future(
                poll(endpoint, code, {"resource": login.audience} if login.audience else {})
            )
            asking = asyncio.ensure_future(handler(request))
            try:
                await asyncio.wait({polling, asking}, return_when=asyncio.FIRST_COMPLETED)
                if asking.done():
                    asking.result()  # what it returns is not needed, but it may have failed
                tokens = await polling
            finally:
                polling.cancel()
                asking.cancel()
                await asyncio.gather(polling, asking, return_exceptions=True)
        return self._completed(login, client, tokens, key)

    async def _client(
        self, server: AuthorizationServer, login: Login, redirect_uri: str
    ) -> ClientRegistration:
        """Who we are at this authorization server."""
        with _step("client"):
            # A client that was registered before may be gone, or not allowed to ask for more scopes.
            client = configured_client(server, self._auth, self._values.auth)
            client = client or await register(self._fetch, server, [redirect_uri], login.scope)
        self._hide(client.secret)
        return client

    async def _machine_form(self, server: AuthorizationServer, audience: str | None) -> dict[str, str]:
        if isinstance(self._auth, ClientCredentials):
            return {"grant_type": "client_credentials"}
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

    def _blank(self, server: AuthorizationServer) -> Login:
        return Login(issuer=server.issuer, resource=self.resource, user=self._user)

    def _completed(
        self, login: Login, client: ClientRegistration, tokens: TokenSet, key: DpopKey | None
    ) -> Login:
        self._hide(tokens.access, tokens.refresh)
        if key is not None and tokens.type != "DPoP" and self._auth.dpop == "always":
            raise AuthFailure(
                "the authorization server issued a token that is not bound to a key", step="token"
            )
        return replace(
            login,
            client=client.to_record(),
            access=tokens.access,
            type=tokens.type,
            scope=tokens.scope if tokens.scope is not None else login.scope,
            expires_at=tokens.expires_at,
            renewed_at=time.time(),
            # A refresh token stays valid unless a new one comes.
            refresh=tokens.refresh or (login.refresh if login.access else None),
            jwk=key.jwk if key and tokens.type == "DPoP" else None,
        )

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
        """The scopes to ask for: those of the caller or the config, else what the server says it needs."""
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


@contextmanager
def _step(name: Step) -> Generator[None]:
    """Name the step in a failure that does not know it."""
    try:
        yield
    except AuthFailure as failure:
        failure.step = failure.step or name
        raise


INTERVAL = 5.0
LIFETIME = 1800.0


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class DeviceCode:
    """The code that the person enters, and the one that we poll with."""

    device_code: str
    user_code: str
    url: str
    interval: float
    expires_at: float


async def request_code(endpoint: TokenEndpoint, form: Mapping[str, str]) -> DeviceCode:
    """Ask for a code; AuthFailure if the authorization server has no device flow."""
    reply = await endpoint.post("device_authorization_endpoint", form)
    answer = reply.json() or {}
    device_code, user_code = answer.get("device_code"), answer.get("user_code")
    url = answer.get("verification_uri_complete") or answer.get("verification_uri")
    if reply.status != 200 or not all(isinstance(text, str) for text in (device_code, user_code, url)):
        reason = shown(answer.get("error_description") or answer.get("error") or reply.problem)
        raise AuthFailure(f"the authorization server issued no device code: {reason}")
    return DeviceCode(
        device_code=device_code or "",
        user_code=shown(user_code),
        url=await endpoint.fetch.check_page(url or ""),
        interval=_seconds(answer.get("interval"), INTERVAL, 1.0, 60.0),
        expires_at=time.time() + _seconds(answer.get("expires_in"), LIFETIME, 1.0, LIFETIME),
    )


async def poll(endpoint: TokenEndpoint, code: DeviceCode, form: Mapping[str, str]) -> TokenSet:
    """The tokens, once the person has entered the code."""
    interval = code.interval
    while time.time() < code.expires_at:
        await asyncio.sleep(interval)
        try:
            return await endpoint.tokens(
                {**form, "grant_type": DEVICE_GRANT, "device_code": code.device_code}
            )
        except Unreachable:
            interval = min(interval * 2, 60.0)
        except Rejected as rejected:
            if rejected.error == "slow_down":
                interval += INTERVAL
            elif rejected.error == "access_denied":
                raise PersonNeeded("the sign-in was declined") from rejected
            elif rejected.error != "authorization_pending":
                raise
    raise PersonNeeded("the code has expired before it was entered")


def _seconds(value: Any, default: float, least: float, most: float) -> float:
    return min(max(float(value), least), most) if isinstance(value, int | float) else default
