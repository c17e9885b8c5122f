"""The `auth` of a server: how its HTTP requests are authorized."""

import re
from collections.abc import Callable, Iterator, Mapping
from ipaddress import ip_address
from typing import Annotated, ClassVar, Literal, TypeAlias
from urllib.parse import SplitResult, urlsplit

from pydantic import BeforeValidator, Field, Strict, WithJsonSchema

from toolbus.config.base import ConfigModel, Text
from toolbus.config.location import Location, is_mapping, joined, near_miss
from toolbus.core.text.display import ascii_host
from toolbus.core.values.records import JSON

SECRET_KEYS = ("token", "client_secret", "key", "assertion")
"""The keys of `auth` whose values are secrets."""

_Secret = Annotated[str, Field(repr=False, min_length=1)]
# `repr` has no effect on a member of a union.
_OptionalSecret = Annotated[str | None, Field(repr=False, min_length=1)]
_NAMES: dict[str, JSON] = {"type": "array", "items": {"type": "string", "minLength": 1}}
_Scopes = Annotated[
    tuple[str, ...],
    Strict(False),
    # Tokens are requested with one text, and some people write it that way.
    BeforeValidator(lambda value: tuple(value.split()) if isinstance(value, str) else value),
    WithJsonSchema({"anyOf": [_NAMES, {"type": "string"}]}),
]
# The characters of a scope (RFC 6749, section 3.3).
_SCOPE = re.compile(r"[\x21\x23-\x5b\x5d-\x7e]+")
Algorithm: TypeAlias = Literal[
    "ES256", "ES384", "ES512", "RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "EdDSA"
]


class _Auth(ConfigModel):
    _expects = {
        "scopes": "expected a list of scopes",
        "resource": "expected true, false, or the URI of the server",
    }

    read_anew: ClassVar[tuple[str, ...]] = ()
    """The keys whose values are short-lived: they are looked up each time they are needed."""

    def texts(self) -> Iterator[tuple[str, str]]:
        """Every text that may contain references, with the name of its key."""
        for key in type(self).model_fields:
            value = getattr(self, key)
            if isinstance(value, str) and key not in ("type", "dpop"):
                yield key, value

    def as_written(self) -> dict[str, JSON]:
        """The keys that are set, as a file has them."""
        set_keys = self.model_dump(mode="json", exclude_defaults=True)
        return {"type": set_keys.pop("type"), **set_keys}

    def _check(self) -> None:
        found = dict(self._problems())
        for key, text in self.texts():
            if "${" not in text and (problem := text_problem(key, text)):
                found.setdefault(key, problem)
        if found:
            raise joined([Location().error(problem, key) for key, problem in found.items()])

    @classmethod
    def _unknown(cls, key: str) -> str:
        others = [name for name, kind in AUTH_TYPES.items() if key in kind.model_fields]
        own = next(name for name, kind in AUTH_TYPES.items() if kind is cls)
        return f"is a key of {', '.join(others)}, not of {own}" if others else super()._unknown(key)

    def _problems(self) -> Iterator[tuple[str, str]]:
        """Problems with the combination of keys, by key."""
        yield from ()


class BearerAuth(_Auth):
    """A token sent with every HTTP request."""

    _missing = "is missing; bearer needs token"

    type: Literal["bearer"]
    """The way to send the credential: as a bearer token."""
    token: _Secret
    """The token, preferably a reference such as `${TOKEN}`."""


class _OAuth(_Auth):
    issuer: Text | None = None
    """The authorization server; by default the one that the server names. No other gets the credentials."""
    scopes: _Scopes = ()
    """The scopes to request; by default those that the server asks for."""
    resource: bool | str = True
    """Whether to name the server in requests for tokens, or the name to use."""
    dpop: Literal["auto", "always", "never"] = "auto"
    """Whether tokens are bound to a local key (DPoP); `auto`: if the server asks for it."""

    def _problems(self) -> Iterator[tuple[str, str]]:
        if any("${" in scope for scope in self.scopes):
            yield "scopes", "a scope cannot contain a reference; write the scopes"
        elif not all(map(_SCOPE.fullmatch, self.scopes)):
            yield "scopes", "a scope is empty or contains a space or a quote; list one scope per item"


class OAuth(_OAuth):
    """A person signs in once, in a browser; see `toolbus login`."""

    type: Literal["oauth"]
    """The way to get a token: a person signs in."""
    client_id: Text | None = None
    """The ID of a client that is registered already."""
    client_secret: _OptionalSecret = None
    """The secret of that client, preferably a reference."""
    client_metadata: Text | None = None
    """The URL of a client metadata document; its URL is the client ID."""
    callback: Text | None = None
    """The URL that the browser is sent back to, such as `http://127.0.0.1:3118/callback`."""
    prompt: str | None = None
    """The `prompt` parameter of the sign-in page, such as `consent`; empty for none."""

    def _problems(self) -> Iterator[tuple[str, str]]:
        yield from super()._problems()
        if self.client_secret is not None and self.client_id is None:
            yield "client_secret", "is the secret of a client; set its client_id"
        if self.client_metadata is not None and self.client_id is not None:
            yield "client_metadata", "client_id and client_metadata are mutually exclusive; keep one"


class _Client(_OAuth):
    client_id: Text
    """The ID of the client."""
    client_secret: _OptionalSecret = None
    """The secret of the client, preferably a reference; or set `key`."""
    key: _OptionalSecret = None
    """The private key of the client in PEM format, as `${file:bot.pem}`."""
    algorithm: Algorithm = "ES256"
    """The signature algorithm of `key`."""

    def _problems(self) -> Iterator[tuple[str, str]]:
        yield from super()._problems()
        if self.client_secret is not None and self.key is not None:
            yield "key", "client_secret and key are mutually exclusive; keep one"
        if self.key is None and "algorithm" in self.model_fields_set:
            yield "algorithm", "is only used with key; set key, or remove algorithm"


class ClientCredentials(_Client):
    """The program has its own identity: a client ID with a secret or a key."""

    _missing = "is missing; client_credentials needs client_id"

    type: Literal["client_credentials"]
    """The way to get a token: with the credentials of a client."""

    def _problems(self) -> Iterator[tuple[str, str]]:
        yield from super()._problems()
        if self.client_secret is None and self.key is None:
            yield "client_secret", "is missing; set client_secret or key"


class TokenExchange(_Client):
    """The token of the gateway's client is exchanged for one for the server (RFC 8693)."""

    _missing = "is missing; token_exchange needs issuer and client_id"

    type: Literal["token_exchange"]
    """The way to get a token: the token of the gateway's client is exchanged."""
    audience: Text | None = None
    """The `audience` to ask for: the name of the server at the authorization server."""

    def _problems(self) -> Iterator[tuple[str, str]]:
        yield from super()._problems()
        if self.issuer is None:
            # Else the server would decide who gets the tokens of clients.
            yield "issuer", "is missing; set it to the authorization server that exchanges tokens"
            return
        parts = None if "${" in self.issuer else web_url(self.issuer)
        if parts is not None and parts.scheme.lower() != "https" and not is_loopback(parts.hostname or ""):
            yield "issuer", "must be an https:// URL: the tokens of clients are sent there"


class IdentityAssertion(_OAuth):
    """An identity provider vouches for the user with a signed assertion (ID-JAG)."""

    _missing = "is missing; identity_assertion needs client_id and assertion"
    read_anew: ClassVar[tuple[str, ...]] = ("assertion",)
    type: Literal["identity_assertion"]
    """The way to get a token: with an assertion of an identity provider."""
    client_id: Text
    """The ID of the client."""
    client_secret: _OptionalSecret = None
    """The secret of the client, preferably a reference."""
    assertion: _Secret
    """The assertion, read for every exchange: `${cmd:idp-token --audience {issuer}}`."""


class Workload(_OAuth):
    """The platform vouches for the program with a signed token (workload identity)."""

    _missing = "is missing; workload needs token"
    read_anew: ClassVar[tuple[str, ...]] = ("token",)
    type: Literal["workload"]
    """The way to get a token: with the identity of the workload."""
    token: _Secret
    """The token of the platform, read for every exchange: `${file:/var/run/secrets/tokens/mcp}`."""
    client_id: Text | None = None
    """The ID of the client, if the authorization server needs one."""


Auth: TypeAlias = BearerAuth | OAuth | ClientCredentials | TokenExchange | IdentityAssertion | Workload
AUTH_TYPES: dict[str, type[Auth]] = {
    "bearer": BearerAuth,
    "oauth": OAuth,
    "client_credentials": ClientCredentials,
    "token_exchange": TokenExchange,
    "identity_assertion": IdentityAssertion,
    "workload": Workload,
}
_KINDS = ", ".join(AUTH_TYPES)


def _read(value: JSON | Auth) -> Auth:
    """The `auth` of an entry: `oauth`, a bearer token, or a mapping with its type."""
    if isinstance(value, Auth):
        return value
    fields = _long_form(value) if isinstance(value, str) else value
    if not is_mapping(fields):
        raise ValueError(f"expected oauth, a token, or a mapping with a type: {_KINDS}")
    name = fields.get("type")
    if name is None:
        raise Location().error(f"is missing; set it to one of {_KINDS}", "type")
    kind = AUTH_TYPES.get(name) if isinstance(name, str) else None
    if kind is None:
        raise Location().error(f"expected one of {_KINDS}{near_miss(name, AUTH_TYPES)}", "type")
    return kind(**{str(key): inner for key, inner in fields.items()})


AuthSetting: TypeAlias = Annotated[
    Auth | None, BeforeValidator(lambda value: None if value is None else _read(value))
]


def auth_warnings(auth: Auth | None) -> Iterator[str]:
    """Warnings about an `auth` that is valid, but gives a server more than may be intended."""
    machine = isinstance(auth, ClientCredentials | IdentityAssertion | Workload)
    if machine and auth.issuer is None:
        yield (
            "auth has no issuer, so the server decides which authorization server gets the credentials; "
            "set auth.issuer"
        )


_OWN_HEADERS = frozenset(
    (
        *("authorization", "cookie", "cookie2", "dpop", "host", "connection", "expect", "keep-alive", "te"),
        *("trailer", "transfer-encoding", "upgrade", "accept", "accept-encoding", "content-encoding"),
        *("content-length", "content-type", "last-event-id", "origin", "set-cookie", "traceparent"),
        *("tracestate", "baggage", "forwarded"),
    )
)
_OWN_PREFIXES = ("proxy-", "mcp-", "sec-", "x-forwarded-")
_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")


def header_name_problem(name: str) -> str | None:
    """The problem with the name of a header; None if it is valid."""
    return None if _HEADER_NAME.fullmatch(name) else "expected the name of a header, such as X-Tenant"


def forwarding_problem(name: str) -> str | None:
    """The reason not to forward a header of a client; None if there is none."""
    if problem := header_name_problem(name):
        return problem
    if name.lower() in ("authorization", "cookie"):
        return f"{name} holds a credential for the gateway alone; use auth: {{type: token_exchange, ...}}"
    if name.lower() in _OWN_HEADERS or name.lower().startswith(_OWN_PREFIXES):
        return f"{name} belongs to one connection or request, and toolbus sets it itself; remove it"
    return None


def text_problem(key: str, text: str) -> str | None:
    """The problem with a text of `auth` without references; None if it is valid."""
    is_valid, problem = _CHECKS.get(key, (None, None))
    return None if is_valid is None or is_valid(text) else problem


def _long_form(text: str) -> Mapping[JSON, JSON]:
    """`oauth`, or a bearer token, as a mapping."""
    word = text.lower()
    if word == "oauth":
        return {"type": "oauth"}
    if word in AUTH_TYPES:  # nobody has a token of that name
        raise ValueError(f"needs a mapping with its keys: {{type: {word}, ...}}")
    return {"type": "bearer", "token": text}


def web_url(text: str) -> SplitResult | None:
    """The parts of an http or https URL with a host; None if it is not one."""
    try:
        parts = urlsplit(text)
        usable = (
            parts.scheme.lower() in ("http", "https") and ascii_host(parts.hostname or "") and parts.port != 0
        )
    except ValueError:  # an invalid host or port
        return None
    # A user or a password would be sent to whoever reads the URL.
    return parts if usable and "@" not in parts.netloc and not re.search(r"[\s\x00-\x1f]", text) else None


def is_loopback(host: str) -> bool:
    """Whether a host is this machine, by its name or address."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def _is_page(text: str, *, schemes: tuple[str, ...] = ("http", "https")) -> bool:
    parts = web_url(text)
    return parts is not None and parts.scheme in schemes and not parts.fragment


def _is_issuer(text: str) -> bool:
    return _is_page(text) and not urlsplit(text).query


def _is_callback(text: str) -> bool:
    return _is_page(text) and (
        _is_page(text, schemes=("https",)) or is_loopback(urlsplit(text).hostname or "")
    )


def _is_metadata(text: str) -> bool:
    return _is_page(text, schemes=("https",)) and urlsplit(text).path not in ("", "/")


_CHECKS: dict[str, tuple[Callable[[str], object], str]] = {
    "issuer": (
        _is_issuer,
        "expected the URL of an authorization server, such as https://auth.example.com, without a query",
    ),
    "callback": (
        _is_callback,
        "expected a loopback URL, such as http://127.0.0.1:3118/callback, or an https:// URL",
    ),
    "client_metadata": (
        _is_metadata,
        "expected an https:// URL with a path, such as https://example.com/client.json",
    ),
    "resource": (
        re.compile(r"[^\s#]+").fullmatch,
        "expected true, false, or the URI of the server, without spaces and without a fragment",
    ),
    "prompt": (re.compile(r"[\w ]*").fullmatch, "expected words, such as consent or login, or nothing"),
}
"""The check for each text of `auth`, and the problem to report if it fails."""
