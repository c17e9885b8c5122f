"""Sign-in of people with an OIDC provider: authorization code with PKCE, state and nonce.

A sealed cookie has what the provider must send back, so a response for another browser is worth nothing. The
provider is named three times, and each time must be the same: in its metadata, the response and the token.
"""

import asyncio
import base64
import hmac
import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any
from urllib.parse import quote_plus, urlencode, urlsplit

from toolbus.config import Secrets
from toolbus.config.settings.serve import TokenIssuer
from toolbus.config.settings.sign_in import OidcSetting
from toolbus.connect.auth.discovery import AuthorizationServer
from toolbus.connect.auth.failure import AuthFailure
from toolbus.console.editing.fields import Fields
from toolbus.core.values.errors import SecretMissing
from toolbus.core.values.records import JSONObject
from toolbus.gateway.access.admission import CredentialDenied, CredentialUndecided
from toolbus.gateway.access.tokens import (
    AGAIN_SECONDS,
    KEEP_SECONDS,
    LEEWAY,
    Issuer,
    filled_secret,
    signed_claims,
    texts_in,
    time_claim,
)
from toolbus.gateway.protocol.principal import subject_user
from toolbus.gateway.sign_in.request import Person
from toolbus.state.seal import Seal

FLOW_SECONDS = 600.0
"""The time that a person has at the provider."""
_PURPOSE = "oidc sign-in"
_MOST_CHARACTERS = 3000
"""Of the request of a client: a browser keeps cookies of 4096 bytes."""


class OidcRefused(Exception):
    """A person is not signed in; the reason is for them, and quotes no token."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OidcResult:
    """A person whom the provider has named."""

    person: Person
    views: tuple[str, ...]
    request: str
    """The request of a client that the person came for; empty without one."""


class OidcProvider:
    """One provider."""

    def __init__(
        self,
        settings: OidcSetting,
        secrets: Secrets,
        seal: Seal,
        redirect_uri: str,
        *,
        now: Callable[[], float] = time.time,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`redirect_uri` is where the provider sends people back to."""
        self._settings = settings
        self._secrets = secrets
        self._seal = seal
        self._redirect_uri = redirect_uri
        self._issuer = Issuer(TokenIssuer(issuer=settings.issuer), secrets, clock=clock)
        self._now = now
        self._clock = clock
        self._found: AuthorizationServer | None = None
        self._read = 0.0
        self._asked = float("-inf")
        self._reading = asyncio.Lock()

    @property
    def host(self) -> str:
        """The name of the provider for people."""
        return urlsplit(self._settings.issuer).netloc

    async def begin(self, request: str) -> tuple[str, str]:
        """The URL to send a browser to, and the value of its cookie; `OidcRefused` if there is none."""
        request = request if len(request) <= _MOST_CHARACTERS else ""
        state, nonce, verifier = (secrets.token_urlsafe(32) for _ in range(3))
        flow: JSONObject = {"state": state, "nonce": nonce, "verifier": verifier, "request": _digest(request)}
        sealed = self._seal.seal(_PURPOSE, self._settings.issuer, flow, FLOW_SECONDS)
        query = {
            "response_type": "code",
            "client_id": self._settings.client_id,
            "redirect_uri": self._redirect_uri,
            "scope": " ".join(dict.fromkeys(("openid", *self._settings.scopes))),
            "state": state,
            "nonce": nonce,
            "code_challenge": base64.urlsafe_b64encode(sha256(verifier.encode()).digest())
            .decode()
            .rstrip("="),
            "code_challenge_method": "S256",
        }
        url = await self._endpoint("authorization_endpoint")
        try:
            await self._issuer.fetch.check_page(url)
        except AuthFailure as failure:
            raise self._unusable(failure) from None
        return f"{url}{'&' if '?' in url else '?'}{urlencode(query)}", f"{sealed}.{request}"

    async def finish(self, cookie: str, response: Fields) -> OidcResult:
        """Check the response that a browser brought back; `OidcRefused` if it belongs to another sign-in."""
        sealed, _, request = cookie.partition(".")
        flow = self._seal.opened(_PURPOSE, self._settings.issuer, sealed)
        if flow is None or flow["request"] != _digest(request):
            raise OidcRefused("This sign-in took too long, or began in another browser. Begin again.")
        if not hmac.compare_digest(response.get("state").encode(), str(flow["state"]).encode()):
            raise OidcRefused("That response belongs to another sign-in. Begin again.")
        server = await self._server()
        # Of a provider that was mixed up with another one (RFC 9207).
        named, is_named = response.get("iss"), server.has("authorization_response_iss_parameter_supported")
        if named != server.issuer and (named or is_named):
            raise OidcRefused(f"That response is not from {self.host}.")
        if "code" not in response:
            raise OidcRefused(f"{self.host} did not sign you in.")
        try:
            claims = await self._claims(server, response.get("code"), flow)
        except (AuthFailure, SecretMissing, CredentialDenied, CredentialUndecided) as failure:
            raise self._unusable(failure) from None
        return self._person(claims, request)

    async def _claims(self, server: AuthorizationServer, code: str, flow: JSONObject) -> Mapping[str, Any]:
        """The claims of the provider about the person."""
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": self._redirect_uri,
            "code_verifier": str(flow["verifier"]),
        }
        headers = await self._authenticated(server, form)
        reply = await self._issuer.fetch.post_form(await self._endpoint("token_endpoint"), form, headers)
        tokens = reply.json()
        if reply.status != 200 or tokens is None or not isinstance(tokens.get("id_token"), str):
            raise AuthFailure(f"it gave no ID token ({reply.problem})")
        claims = await signed_claims(
            self._issuer, tokens["id_token"], [self._settings.client_id], types=("jwt",)
        )
        if claims.get("nonce") != flow["nonce"]:
            raise CredentialDenied("the ID token is for another sign-in")
        if claims.get("azp", self._settings.client_id) != self._settings.client_id:
            raise CredentialDenied("the ID token is for another client")
        if self._now() >= (time_claim(claims, "exp") or 0) + LEEWAY:
            raise CredentialDenied("the ID token has expired")
        wanted = {self._settings.user, self._settings.groups.claim}
        url, token = server.endpoint("userinfo_endpoint"), tokens.get("access_token")
        if wanted <= claims.keys() or url is None or not isinstance(token, str):
            return claims
        reply = await self._issuer.fetch.get(url, {"authorization": f"Bearer {token}"})
        more = (reply.json() if reply.status == 200 else None) or {}
        if more.get("sub") != claims.get("sub"):
            raise CredentialDenied("its user info is about somebody else")
        return {**more, **claims}

    async def _authenticated(self, server: AuthorizationServer, form: dict[str, str]) -> dict[str, str]:
        """The headers with the credentials of the gateway, which may go to the form instead."""
        settings = self._settings
        if settings.client_secret is None:
            form["client_id"] = settings.client_id
            return {}
        secret = await filled_secret(settings.client_secret, self._secrets, "sign_in.oidc.client_secret")
        methods = server.supported("token_endpoint_auth_methods_supported")
        if methods and "client_secret_basic" not in methods:
            form |= {"client_id": settings.client_id, "client_secret": secret}
            return {}
        pair = f"{quote_plus(settings.client_id)}:{quote_plus(secret)}"
        return {"authorization": f"Basic {base64.b64encode(pair.encode()).decode()}"}

    def _person(self, claims: Mapping[str, Any], request: str) -> OidcResult:
        settings = self._settings
        user = claims.get(settings.user)
        if not isinstance(user, str) or not user.strip():
            raise OidcRefused(f"{self.host} does not say who you are: there is no {settings.user!r}.")
        if "email" in (settings.user, settings.groups.claim) and claims.get("email_verified") is not True:
            raise OidcRefused(f"{self.host} has not verified your email address.")
        groups = texts_in(claims.get(settings.groups.claim))
        given = [views for group, views in settings.groups.views.items() if group in groups]
        views = tuple(dict.fromkeys(view for some in given for view in some))
        if not views:
            raise OidcRefused(f"You are signed in at {self.host}, but none of your groups has access here.")
        person = Person(name=f"{user} of {settings.issuer}", user=subject_user(user))
        return OidcResult(person=person, views=views, request=request)

    async def _server(self) -> AuthorizationServer:
        """The provider by its metadata, which is asked for now and then only: anyone can come here."""
        async with self._reading:
            if self._found is None or self._clock() - self._read > KEEP_SECONDS:
                if self._clock() - self._asked < AGAIN_SECONDS:
                    raise self._unusable("it did not respond a moment ago")
                self._asked = self._clock()
                try:
                    self._found = await self._issuer.server()
                except AuthFailure as failure:
                    raise self._unusable(failure) from None
                self._read = self._clock()
            return self._found

    def _unusable(self, reason: object) -> OidcRefused:
        return OidcRefused(f"{self.host} cannot be used to sign in now: {reason}.")

    async def _endpoint(self, name: str) -> str:
        url = (await self._server()).endpoint(name)
        if url is None:
            raise self._unusable(f"its metadata has no {name}")
        return url


def _digest(text: str) -> str:
    return sha256(text.encode(errors="surrogateescape")).hexdigest()
