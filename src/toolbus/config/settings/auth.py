"""The `auth` of a server: how its HTTP requests are authorized."""

import re
from collections.abc import Callable, Iterator, Mapping
from ipaddress import ip_address
from typing import Annotated, ClassVar, Literal, TypeAlias
from urllib.parse import SplitResult, urlsplit

from pydantic import BeforeValidator, Field, Strict, WithJsonSchema

from toolbus.config.base import ConfigModel
from toolbus.config.location import Location, is_mapping, joined, near_miss
from toolbus.core.text.display import ascii_host
from toolbus.core.values.errors import ConfigError
from toolbus.core.values.records import JSON

SECRET_KEYS = ("token", "client_secret", "key", "assertion")
"""The keys of `auth` whose values are secrets."""

_Text = Annotated[str, Field(min_length=1)]
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

    def _problems(self) -> Iterator[tuple[str, str]]:
        """What is wrong with the keys together, by key."""
        yield from ()


class BearerAuth(_Auth):
    """A token sent with every HTTP request."""

    type: Literal["bearer"]
    """How the credential is sent: as a bearer token."""
    token: _Secret
    """The token, preferably a reference such as `${TOKEN}`."""


class _OAuth(_Auth):
    issuer: _Text | None = None
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
    """How to get a token: a person signs in."""
    client_id: _Text | None = None
    """The ID of a client that is registered already."""
    client_secret: _OptionalSecret = None
    """The secret of that client, preferably a reference."""
    client_metadata: _Text | None = None
    """The URL of a client metadata document; its URL is the client ID."""
    callback: _Text | None = None
    """The URL that the browser is sent back to, such as `http://127.0.0.1:3118/callback`."""
    prompt: str | None = None
    """The `prompt` parameter of the sign-in page, such as `consent`; empty for none."""

    def _problems(self) -> Iterator[tuple[str, str]]:
        yield from super()._problems()
        if self.client_secret is not None and self.client_id is None:
            yield "client_secret", "is the secret of a client; set client_id too"
        if self.client_metadata is not None and self.client_id is not None:
            yield "client_metadata", "client_id and client_metadata are mutually exclusive; keep one"


class ClientCredentials(_OAuth):
    """The program has its own identity: a client ID with a secret or a key."""

    type: Literal["client_credentials"]
    """How to get a token: with the credentials of a client."""
    client_id: _Text
    """The ID of the client."""
    client_secret: _OptionalSecret = None
    """The secret of the client, preferably a reference; or set `key`."""
    key: _OptionalSecret = None
    """The private key of the client in PEM format, as `${file:bot.pem}`."""
    algorithm: Algorithm = "ES256"
    """The signature algorithm of `key`."""

    def _problems(self) -> Iterator[tuple[str, str]]:
        yield from super()._problems()
        if self.client_secret is None and self.key is None:
            yield "client_secret", "is missing; set client_secret or key"
        if self.client_secret is not None and self.key is not None:
            yield "key", "client_secret and key are mutually exclusive; keep one"
        if self.key is None and "algorithm" in self.model_fields_set:
            yield "algorithm", "is only used with key; set key, or remove algorithm"


class IdentityAssertion(_OAuth):
    """An identity provider vouches for the user with a signed assertion (ID-JAG)."""

    read_anew: ClassVar[tuple[str, ...]] = ("assertion",)
    type: Literal["identity_assertion"]
    """How to get a token: with an assertion of an identity provider."""
    client_id: _Text
    """The ID of the client."""
    client_secret: _OptionalSecret = None
    """The secret of the client, preferably a reference."""
    assertion: _Secret
    """The assertion, read for every exchange: `${cmd:idp-token --audience {issuer}}`."""


class Workload(_OAuth):
    """The platform vouches for the program with a signed token (workload identity)."""

    read_anew: ClassVar[tuple[str, ...]] = ("token",)
    type: Literal["workload"]
    """How to get a token: with the identity of the workload."""
    token: _Secret
    """The token of the platform, read for every exchange: `${file:/var/run/secrets/tokens/mcp}`."""
    client_id: _Text | None = None
    """The ID of the client, if the authorization server needs one."""


Auth: TypeAlias = BearerAuth | OAuth | ClientCredentials | IdentityAssertion | Workload
AUTH_TYPES: dict[str, type[Auth]] = {
    "bearer": BearerAuth,
    "oauth": OAuth,
    "client_credentials": ClientCredentials,
    "identity_assertion": IdentityAssertion,
    "workload": Workload,
}
_KINDS = ", ".join(AUTH_TYPES)


def read_auth(value: JSON | Auth, location: Location) -> Auth:
    """The `auth` of an entry: `oauth`, a bearer token, or a mapping with its type."""
    if isinstance(value, Auth):
        return value
    if isinstance(value, str):
        value = _long_form(value, location)
    if not is_mapping(value):
        raise location.error(f"expected oauth, a token, or a mapping with a type: {_KINDS}", "auth")
    name = value.get("type")
    if name is None:
        raise location.error(f"is missing; set it to one of {_KINDS}", "auth.type")
    kind = AUTH_TYPES.get(name) if isinstance(name, str) else None
    if kind is None:
        raise location.error(f"expected one of {_KINDS}{near_miss(name, AUTH_TYPES)}", "auth.type")
    given = {str(key): inner for key, inner in value.items() if inner is not None}
    try:
        return kind(**given)
    except ConfigError as error:
        raise joined([_located(mistake, str(name), location) for mistake in error.mistakes]) from None


def auth_warnings(auth: Auth) -> Iterator[str]:
    """Warnings about an `auth` that is valid, but gives a server more than may be intended."""
    machine = isinstance(auth, ClientCredentials | IdentityAssertion | Workload)
    if machine and auth.issuer is None:
        yield (
            "auth has no issuer, so the server decides which authorization server gets the credentials; "
            "set auth.issuer"
        )


def text_problem(key: str, text: str) -> str | None:
    """What is wrong with a text of `auth` without references; None if nothing is."""
    check = _CHECKS.get(key)
    return None if check is None else check(text)


def _long_form(text: str, location: Location) -> Mapping[JSON, JSON]:
    """`oauth`, or a bearer token, as a mapping."""
    word = text.lower()
    if word == "oauth":
        return {"type": "oauth"}
    if word in AUTH_TYPES:  # nobody has a token of that name
        raise location.error(f"needs a mapping with its keys: {{type: {word}, ...}}", "auth")
    return {"type": "bearer", "token": text}


def _located(mistake: ConfigError, name: str, location: Location) -> ConfigError:
    """The mistake with its whole key, and with a hint."""
    key, problem, fields = mistake.key or "", mistake.problem, AUTH_TYPES[name].model_fields
    others = [other for other, kind in AUTH_TYPES.items() if key in kind.model_fields]
    if key not in fields and others:
        problem = f"is a key of {', '.join(others)}, not of {name}"
    elif problem == "is missing":
        needed = [field for field, info in fields.items() if info.is_required() and field != "type"]
        problem = f"is missing; {name} needs {' and '.join(needed)}"
    return location.error(problem, f"auth.{key}")


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


def _issuer_problem(text: str) -> str | None:
    parts = web_url(text)
    if parts is None or parts.query or parts.fragment:
        return (
            "expected the URL of an authorization server, such as https://auth.example.com, without a query"
        )
    return None


def _callback_problem(text: str) -> str | None:
    parts = web_url(text)
    if parts is None or parts.fragment or not (parts.scheme == "https" or is_loopback(parts.hostname or "")):
        return "expected a loopback URL, such as http://127.0.0.1:3118/callback, or an https:// URL"
    return None


def _metadata_problem(text: str) -> str | None:
    parts = web_url(text)
    if parts is None or parts.scheme != "https" or parts.path in ("", "/") or parts.fragment:
        return "expected an https:// URL with a path, such as https://example.com/client.json"
    return None


def _resource_problem(text: str) -> str | None:
    if re.fullmatch(r"[^\s#]+", text):
        return None
    return "expected true, false, or the URI of the server, without spaces and without a fragment"


def _prompt_problem(text: str) -> str | None:
    return None if re.fullmatch(r"[\w ]*", text) else "expected words, such as consent or login, or nothing"


_CHECKS: dict[str, Callable[[str], str | None]] = {
    "issuer": _issuer_problem,
    "callback": _callback_problem,
    "client_metadata": _metadata_problem,
    "resource": _resource_problem,
    "prompt": _prompt_problem,
}
