"""A person authorizes us, in a browser (RFC 6749, 7636, 9207) or with a code on any device (RFC 8628)."""

import asyncio
import base64
import hashlib
import secrets
import time
from collections.abc import Awaitable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

from toolbus.connect.auth.client import DEVICE_GRANT, TokenEndpoint
from toolbus.connect.auth.discovery import AuthorizationServer
from toolbus.connect.auth.failure import AuthFailure, PersonNeeded, Rejected, Unreachable, shown
from toolbus.state.tokens.tokens import Login


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Authorization:
    """One request for an authorization code."""

    server: AuthorizationServer
    client_id: str
    redirect_uri: str
    scope: str | None
    audience: str | None
    prompt: str | None
    state: str = field(default_factory=lambda: secrets.token_urlsafe(32))
    verifier: str = field(default_factory=lambda: secrets.token_urlsafe(64))

    @property
    def url(self) -> str:
        endpoint = self.server.endpoint("authorization_endpoint", "/authorize")
        if endpoint is None:
            raise AuthFailure(f"the authorization server {self.server.issuer} has no sign-in page")
        digest = hashlib.sha256(self.verifier.encode()).digest()
        parameters = {
            "response_type": "code",
            "client_id": self.client_id,
            "redirect_uri": self.redirect_uri,
            "state": self.state,
            "code_challenge": base64.urlsafe_b64encode(digest).rstrip(b"=").decode(),
            "code_challenge_method": "S256",
            "resource": self.audience,
            "scope": self.scope,
            "prompt": self._prompt,
        }
        query = urlencode({name: value for name, value in parameters.items() if value})
        return f"{endpoint}{'&' if urlsplit(endpoint).query else '?'}{query}"

    @property
    def _prompt(self) -> str | None:
        if self.prompt is not None:
            return self.prompt
        # OpenID Connect: without it, `offline_access` is ignored.
        return "consent" if self.scope and "offline_access" in self.scope.split() else None

    def code(self, returned: str) -> str:
        """The code in the URL that the browser was sent back to; a bare code is also accepted.

        AuthFailure if it does not belong to this request, or if the person did not agree.
        """
        text = returned.strip()
        if not text:
            raise AuthFailure("nothing was returned from the sign-in page")
        if not {"=", "/", "?"} & set(text.rstrip("=")):
            if self.server.has("authorization_response_iss_parameter_supported"):
                raise AuthFailure("a code alone cannot be checked; paste the whole URL of the page")
            return text
        # Also if only the query was copied.
        query = urlsplit(text).query if "?" in text else text
        return self._checked_code(dict(parse_qsl(query.lstrip("?"))))

    def _checked_code(self, found: Mapping[str, str]) -> str:
        if not secrets.compare_digest(found.get("state", "").encode(), self.state.encode()):
            raise AuthFailure("the URL belongs to another attempt to sign in (its state differs)")
        self._check_issuer(found.get("iss"))
        if "error" in found:
            reason = shown(found.get("error_description") or found["error"])
            if found["error"] == "access_denied":
                raise PersonNeeded(f"the sign-in was declined: {reason}")
            raise AuthFailure(f"the authorization server refused: {reason}")
        if not found.get("code"):
            raise AuthFailure("the URL contains no code")
        return found["code"]

    def _check_issuer(self, issuer: str | None) -> None:
        """Compare as text: a slash more is another issuer."""
        if issuer is None:
            if self.server.has("authorization_response_iss_parameter_supported"):
                raise AuthFailure("the response does not name its issuer, which it has to")
        elif issuer != self.server.issuer:
            raise AuthFailure(f"the response comes from the issuer {shown(issuer)}, not {self.server.issuer}")


def check_pkce(server: AuthorizationServer) -> None:
    """AuthFailure unless a stolen code is useless: the authorization server has to support PKCE."""
    if server.metadata and "S256" not in server.supported("code_challenge_methods_supported"):
        raise AuthFailure(
            f"the authorization server {server.issuer} does not offer PKCE (S256), which MCP requires",
            hint="ask its operator to enable it",
        )


async def first_of(listening: Awaitable[str], asking: Awaitable[str | None]) -> str:
    """The URL that the browser brought back, or that the person copied; PersonNeeded if declined."""
    # In this order: what came by itself counts more.
    waiting = asyncio.ensure_future(listening), asyncio.ensure_future(asking)
    try:
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        returned = next(task for task in waiting if task.done()).result()
    finally:
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
    if returned is None:
        raise PersonNeeded("the sign-in was cancelled")
    return returned


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


async def poll(endpoint: TokenEndpoint, code: DeviceCode, form: Mapping[str, str], login: Login) -> Login:
    """The login with its tokens, once the person has entered the code."""
    interval = code.interval
    while time.time() < code.expires_at:
        await asyncio.sleep(interval)
        try:
            polled = {**form, "grant_type": DEVICE_GRANT, "device_code": code.device_code}
            return await endpoint.tokens(polled, login)
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
