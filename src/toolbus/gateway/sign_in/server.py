"""The authorization server of a gateway, beside its MCP endpoint.

The handlers of the SDK read and answer the requests. This file adds limits, the check for repeated
parameters, cross-origin requests, and the `iss` of each response.
"""

import base64
import binascii
import json
import logging
import secrets
from collections.abc import Awaitable, Callable, Mapping, Sequence
from math import ceil
from typing import Any, TypeAlias, cast
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit

from mcp.server.auth.handlers.authorize import AuthorizationHandler
from mcp.server.auth.handlers.register import RegistrationHandler
from mcp.server.auth.handlers.revoke import RevocationHandler
from mcp.server.auth.handlers.token import TokenHandler
from mcp.server.auth.middleware.client_auth import ClientAuthenticator
from mcp.server.auth.settings import ClientRegistrationOptions
from starlette.requests import Request
from starlette.responses import Response

from toolbus.config.settings.serve import Serve
from toolbus.core.values.errors import StoreError
from toolbus.core.values.records import JSONObject
from toolbus.gateway.access.admission import Admission
from toolbus.gateway.access.rate import RequestRate
from toolbus.gateway.http.request import HttpRequest, NoRoom, encoded_headers
from toolbus.gateway.sign_in.clients import ClientDirectory, ClientRefused
from toolbus.gateway.sign_in.grants import CODE_SECONDS, Grant, Turn
from toolbus.gateway.sign_in.provider import WAITING, AuthorizationProvider, AuthorizationRules
from toolbus.gateway.sign_in.request import SIGN_IN, Person, WaitingRequest
from toolbus.gateway.sign_in.tokens import CODE, SignInState, carried

logger = logging.getLogger("toolbus")

METADATA = "/.well-known/oauth-authorization-server"
KEYS = "/.well-known/jwks.json"
AUTHORIZE, TOKEN, REGISTER, REVOKE = "/authorize", "/token", "/register", "/revoke"
REGISTRATIONS_PER_MINUTE = 60
TOKENS_PER_MINUTE = 600
"""Requests to `/token` and `/revoke` from one address, behind which a whole office may be."""
Handler: TypeAlias = Callable[[Request], Awaitable[Response]]
_GRANT_TYPES = ("authorization_code", "refresh_token")
_METHODS = ("none", "client_secret_post", "client_secret_basic")
_NO_STORE = ((b"cache-control", b"no-store"),)
_FORM = "application/x-www-form-urlencoded"


class BadParameters(Exception):
    """The parameters of a request cannot be read."""


class SignInServer:
    """Answers clients, and what people decided for them."""

    def __init__(self, state: SignInState, serve: Serve) -> None:
        self.state = state
        tokens = RequestRate(TOKENS_PER_MINUTE)
        self._rates = {REGISTER: RequestRate(REGISTRATIONS_PER_MINUTE), TOKEN: tokens, REVOKE: tokens}
        self.show: Callable[[HttpRequest, int, str], Awaitable[None]] | None = None
        """Shows a person why their client cannot connect."""
        self.use(serve)

    def use(self, serve: Serve) -> None:
        """Follow another config from now on; it has `auth.sign_in`."""
        clients = ClientDirectory(serve.public_url or "")
        self._rules = AuthorizationRules(self.state, serve, clients)
        prefix = urlsplit(self._rules.issuer).path
        self._pages: dict[str, Callable[[HttpRequest], Awaitable[None]]] = {
            METADATA: self._metadata,
            f"{METADATA}{prefix}": self._metadata,
            KEYS: self._keys,
            AUTHORIZE: self._authorize,
            TOKEN: self._token,
            REGISTER: self._register,
            REVOKE: self._revoke,
        }

    def covers(self, path: str) -> bool:
        return path in self._pages

    async def serve(self, http: HttpRequest, access: Admission) -> None:
        if "origin" in http.headers:
            http.cors = encoded_headers(access.cors(http.facts))
            if http.facts.method == "OPTIONS":
                return await http.respond(204)
        path = http.facts.path
        allowed = ("POST",) if path in (TOKEN, REGISTER, REVOKE) else ("GET", "HEAD")
        if path == AUTHORIZE:
            allowed = ("GET", "POST")
        if http.facts.method not in allowed:
            return await http.respond(405, headers=((b"allow", ", ".join(allowed).encode()),))
        wait = self._rates[path].wait(access.address(http.facts)) if path in self._rates else 0
        if wait:
            seconds = str(ceil(wait))
            reason = f"too many requests come from this address; try again in {seconds} s"
            return await _refuse(http, 429, "too_many_requests", reason, (b"retry-after", seconds.encode()))
        try:
            await self.open()
            await self._pages[path](http)
        except ClientRefused as refused:
            await self._refuse_person(http, 400, "invalid_client", refused.reason)
        except NoRoom:
            await _refuse(http, 413, "invalid_request", "the request is too large")
        except BadParameters as bad:
            await self._refuse_person(http, 400, "invalid_request", str(bad))
        except (StoreError, OSError, ValueError) as error:
            logger.warning("the authorization server cannot answer: %s", error)
            reason = "the sign-ins cannot be read or written now; try again later"
            await _refuse(http, 503, "temporarily_unavailable", reason)

    # For the pages of people

    async def open(self) -> None:
        await self.state.open()

    def waiting(self, sealed: str) -> WaitingRequest | None:
        found = self.state.keys.opened(WAITING, sealed)
        if found is None or self.state.values.now() >= found["expires"]:
            return None
        found |= {name: tuple(found[name]) for name in ("scopes", "views")}
        return WaitingRequest(**found)

    async def approve(self, waiting: WaitingRequest, person: Person, views: Sequence[str]) -> str:
        if not views or not set(views) <= set(waiting.views):
            raise ValueError("a person allows some of the views that the client asks for")
        now, given = self.state.values.now(), self._rules.serve.scopes
        grant = Grant(
            id=secrets.token_hex(16),
            person=person.name,
            user=person.user,
            client_id=waiting.client_id,
            client_name=waiting.client_name,
            resource=waiting.resource,
            scopes=tuple(scope for scope in waiting.scopes if given.get(scope) in views),
            views=tuple(dict.fromkeys(views)),
            created=now,
            expires=now + CODE_SECONDS,
        )
        turn = Turn(number=0, code_challenge=waiting.code_challenge, redirect_uri=waiting.redirect_uri)
        await self.state.grants.add(grant, turn)
        code = carried(self.state.keys, CODE, grant.id, turn.number)
        return self._redirect(waiting, {"code": code})

    def refuse(self, waiting: WaitingRequest) -> str:
        return self._redirect(waiting, {"error": "access_denied", "error_description": "the person refused"})

    def _redirect(self, waiting: WaitingRequest, answer: Mapping[str, str]) -> str:
        state = {} if waiting.state is None else {"state": waiting.state}
        return _with_parameters(waiting.redirect_uri, {**answer, **state, "iss": self._rules.issuer})

    # For clients

    async def _metadata(self, http: HttpRequest) -> None:
        issuer = self._rules.issuer
        metadata: JSONObject = {
            "issuer": issuer,
            "authorization_endpoint": f"{issuer}{AUTHORIZE}",
            "token_endpoint": f"{issuer}{TOKEN}",
            "registration_endpoint": f"{issuer}{REGISTER}",
            "revocation_endpoint": f"{issuer}{REVOKE}",
            "jwks_uri": f"{issuer}{KEYS}",
            "scopes_supported": list(self._rules.serve.scopes),
            "response_types_supported": ["code"],
            "response_modes_supported": ["query"],
            "grant_types_supported": list(_GRANT_TYPES),
            "token_endpoint_auth_methods_supported": list(_METHODS),
            "revocation_endpoint_auth_methods_supported": list(_METHODS),
            "code_challenge_methods_supported": ["S256"],
            "client_id_metadata_document_supported": True,
            "authorization_response_iss_parameter_supported": True,
        }
        await http.respond_json(200, metadata)

    async def _keys(self, http: HttpRequest) -> None:
        await http.respond_json(200, {"keys": list(self.state.keys.public_keys)})

    async def _authorize(self, http: HttpRequest) -> None:
        is_get = http.facts.method == "GET"
        asked = _parameters(http.query if is_get else await _body(http))
        provider = AuthorizationProvider(self._rules, asked)
        # First, so that a person learns what is wrong with the client.
        await self._rules.clients.client(self.state.keys, asked.get("client_id", ""))
        response = await AuthorizationHandler(provider).handle(_request(http, query=urlencode(asked)))
        location = response.headers.get("location", "")
        if location and not location.startswith(f"{self._rules.issuer}{SIGN_IN}?"):
            response.headers["location"] = _with_parameters(location, {"iss": self._rules.issuer})
        elif not location:
            found = json.loads(bytes(response.body))
            reason = found.get("error_description") or found["error"]
            return await self._refuse_person(http, response.status_code, found["error"], reason)
        return await _respond(http, response)

    async def _refuse_person(self, http: HttpRequest, status: int, error: str, reason: str) -> None:
        """Refuse with a page if a browser asks."""
        is_page = http.facts.path == AUTHORIZE and "text/html" in http.headers.get("accept", "").lower()
        if is_page and self.show is not None:
            return await self.show(http, status, reason)
        return await _refuse(http, status, error, reason)

    async def _token(self, http: HttpRequest) -> None:
        asked = _with_client_id(http, _parameters(await _body(http)))
        if asked.get("grant_type") not in _GRANT_TYPES:
            return await _refuse(
                http, 400, "unsupported_grant_type", f"one of {', '.join(_GRANT_TYPES)} is needed"
            )
        provider = AuthorizationProvider(self._rules, asked)
        handler = TokenHandler(provider, ClientAuthenticator(provider))
        return await _respond(http, await handler.handle(_request(http, form=asked)))

    async def _register(self, http: HttpRequest) -> None:
        body = await _body(http)
        provider = AuthorizationProvider(self._rules, redirect_uris=_redirect_uris(body))
        handler = RegistrationHandler(provider, ClientRegistrationOptions(enabled=True))
        return await _respond(http, await handler.handle(_request(http, body=body)))

    async def _revoke(self, http: HttpRequest) -> None:
        asked = {"client_secret": "", **_with_client_id(http, _parameters(await _body(http)))}
        if asked.get("token_type_hint") not in (None, "access_token", "refresh_token"):
            del asked["token_type_hint"]  # RFC 7009: one that we do not know does not matter
        provider = AuthorizationProvider(self._rules, asked)
        handler = RevocationHandler(provider, ClientAuthenticator(provider))
        return await _respond(http, await handler.handle(_request(http, form=asked)))


async def _body(http: HttpRequest) -> bytes:
    """The body of a request; `NoRoom` if it is large."""
    return await http.body(lambda _: False)


def _parameters(text: bytes) -> dict[str, str]:
    """The parameters in a query or a form; OAuth forbids to repeat one."""
    try:
        pairs = parse_qsl(text.decode(), strict_parsing=bool(text), max_num_fields=50, errors="strict")
    except ValueError:
        raise BadParameters("the parameters cannot be read") from None
    names = [name for name, _ in pairs]
    if len(set(names)) != len(names):
        raise BadParameters("a parameter is repeated")
    return dict(pairs)


def _redirect_uris(body: bytes) -> list[str]:
    """The redirect URIs in a registration; the handler says what else is wrong with it."""
    try:
        found: Any = json.loads(body)["redirect_uris"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return []
    return (
        [one for one in cast("list[Any]", found) if isinstance(one, str)] if isinstance(found, list) else []
    )


def _with_client_id(http: HttpRequest, asked: dict[str, str]) -> dict[str, str]:
    """The parameters with the ID of a client that names it only as the user of HTTP Basic."""
    scheme, _, credentials = http.headers.get("authorization", "").partition(" ")
    if "client_id" in asked or scheme.lower() != "basic":
        return asked
    try:
        user = base64.b64decode(credentials, validate=True).decode().partition(":")[0]
    except (binascii.Error, ValueError):
        raise BadParameters("the credentials of the client cannot be read") from None
    return {**asked, "client_id": unquote(user)}


def _request(
    http: HttpRequest, *, query: str = "", form: Mapping[str, str] | None = None, body: bytes = b""
) -> Request:
    """The request for a handler of the SDK."""
    headers = {name: value for name, value in http.headers.items() if name != "content-length"}
    if form is not None:
        headers["content-type"], body = _FORM, urlencode(form).encode()

    async def receive() -> dict[str, object]:
        return {"type": "http.request", "body": body, "more_body": False}

    scope = {
        "type": "http",
        "method": "GET" if query else http.facts.method,
        "path": http.facts.path,
        "query_string": query.encode(),
        "headers": [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()],
    }
    return Request(scope, receive)


async def _respond(http: HttpRequest, response: Response) -> None:
    headers = [pair for pair in response.raw_headers if pair[0] not in (b"content-length", b"cache-control")]
    if response.status_code == 401 and "authorization" in http.headers:
        headers.append((b"www-authenticate", b'Basic realm="toolbus"'))
    await http.respond(response.status_code, bytes(response.body), (*headers, *_NO_STORE))


async def _refuse(
    http: HttpRequest, status: int, error: str, reason: str, *headers: tuple[bytes, bytes]
) -> None:
    facts = {"error": error, "error_description": reason}
    await http.respond_json(status, facts, (*_NO_STORE, *headers))


def _with_parameters(url: str, parameters: Mapping[str, str]) -> str:
    """A redirect URI with more parameters; what it has stays as it is."""
    return f"{url}{'&' if urlsplit(url).query else '?'}{urlencode(parameters)}"
