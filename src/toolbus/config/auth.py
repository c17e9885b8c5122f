"""The `auth` of a server: how its HTTP requests are authorized."""

from collections.abc import Iterator
from typing import Annotated, Literal, TypeAlias

from pydantic import Field, Strict

from toolbus.config.base import ConfigModel
from toolbus.config.location import Location, is_mapping, joined
from toolbus.core.errors import ConfigError
from toolbus.core.records import JSON

_Text = Annotated[str, Field(min_length=1)]
_Secret = Annotated[str, Field(repr=False, min_length=1)]
_Scopes = Annotated[tuple[str, ...], Strict(False)]


class _Auth(ConfigModel):
    def texts(self) -> Iterator[tuple[str, str]]:
        """Every text that may contain references, with the name of its key."""
        for key in type(self).model_fields:
            value = getattr(self, key)
            if isinstance(value, str) and key not in ("type", "dpop"):
                yield key, value


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
    """Whether tokens are bound to a key of ours (DPoP); `auto`: if the server asks for it."""


class OAuth(_OAuth):
    """A person signs in once, in a browser; see `toolbus login`."""

    type: Literal["oauth"]
    """How to get a token: a person signs in."""
    client_id: _Text | None = None
    """The ID of a client that is registered already."""
    client_secret: _Secret | None = None
    """The secret of that client, preferably a reference."""
    client_metadata: _Text | None = None
    """The URL of a client metadata document; its URL is the client ID."""
    callback: _Text | None = None
    """The URL that the browser is sent back to, such as `http://127.0.0.1:3118/callback`."""
    prompt: str | None = None
    """The `prompt` parameter of the sign-in page, such as `consent`; empty for none."""


class ClientCredentials(_OAuth):
    """The program has its own identity: a client ID with a secret or a key."""

    type: Literal["client_credentials"]
    """How to get a token: with the credentials of a client."""
    client_id: _Text
    """The ID of the client."""
    client_secret: _Secret | None = None
    """The secret of the client, preferably a reference; or set `key`."""
    key: _Secret | None = None
    """The private key of the client in PEM format, as `${file:bot.pem}`."""
    algorithm: _Text = "ES256"
    """The signature algorithm of `key`."""


class IdentityAssertion(_OAuth):
    """An identity provider vouches for the user with a signed assertion (ID-JAG)."""

    type: Literal["identity_assertion"]
    """How to get a token: with an assertion of an identity provider."""
    client_id: _Text
    """The ID of the client."""
    client_secret: _Secret | None = None
    """The secret of the client, preferably a reference."""
    assertion: _Secret
    """The assertion, read for every exchange: `${cmd:idp-token --audience {issuer}}`."""


class Workload(_OAuth):
    """The platform vouches for the program with a signed token (workload identity)."""

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


def read_auth(value: JSON | Auth, location: Location) -> Auth:
    """The `auth` of an entry: `oauth`, a bearer token, or a mapping with its type."""
    kinds = ", ".join(AUTH_TYPES)
    if isinstance(value, _Auth):
        return value
    if isinstance(value, str):
        value = {"type": "oauth"} if value.lower() == "oauth" else {"type": "bearer", "token": value}
    if not is_mapping(value):
        raise location.error(f"expected oauth, a token, or a mapping with a type: {kinds}", "auth")
    kind = AUTH_TYPES.get(str(value.get("type")))
    if kind is None:
        raise location.error(f"expected one of {kinds}", "auth.type")
    try:
        return kind(**{str(key): inner for key, inner in value.items()})
    except ConfigError as error:
        raise joined(
            [location.error(mistake.problem, f"auth.{mistake.key}") for mistake in error.mistakes]
        ) from None
