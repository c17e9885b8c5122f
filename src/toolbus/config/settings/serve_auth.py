"""The `auth` of `serve`: how clients prove who they are; and what all models of `serve` share."""

import re
from typing import Annotated, TypeVar

from pydantic import ConfigDict, Field, Strict, field_serializer

from toolbus.config.base import ConfigModel
from toolbus.config.location import Location
from toolbus.config.secrets.reference import MASK, parsed
from toolbus.config.settings.auth import web_url
from toolbus.core.values.errors import ConfigError
from toolbus.core.values.records import JSON

M = TypeVar("M", bound=ConfigModel)
Text = Annotated[str, Field(min_length=1)]
Names = Annotated[tuple[Text, ...], Strict(False)]
_SCOPE = re.compile(r"[\x21\x23-\x5b\x5d-\x7e]+")
"""A scope of RFC 6749: no space, quote or backslash."""


class ServeModel(ConfigModel):
    """Built when it is first used: most programs serve nothing."""

    model_config = ConfigDict(defer_build=True)


class Tls(ServeModel):
    """The certificate of the gateway."""

    cert: Text
    """The path of the certificate: a PEM file, with the certificates between it and its root."""
    key: Text
    """The path of its key: a PEM file, not encrypted."""


class Introspection(ServeModel):
    """How to ask the authorization server about tokens that are not JWTs."""

    client_id: Text
    """The ID of the gateway at the authorization server."""
    client_secret: Annotated[str, Field(repr=False, min_length=1)]
    """The secret of the gateway there, preferably a reference such as `${GATEWAY_SECRET}`."""
    url: Text | None = None
    """The URL to ask; by default the one in the metadata of the issuer."""

    @field_serializer("client_secret")
    def _masked(self, text: str) -> str:
        """A reference as written; a secret itself, or a default, is not shown."""
        return text if re.fullmatch(r"\$\{[^}]*\}", text) and ":-" not in text else MASK

    def _check(self) -> None:
        parsed(self.client_secret, key="client_secret")
        if self.url is not None and web_url(self.url) is None:
            raise Location().error("expected a URL that starts with http:// or https://", "url")


class TokenIssuer(ServeModel):
    """The authorization server whose tokens let clients in."""

    issuer: Text
    """The URL of the authorization server, exactly as its tokens have it in `iss`."""
    audience: Names = ()
    """What tokens must have in `aud`, one or a list; by default the public URL with the path."""
    user: str = "sub"
    """The claim that names the user whose logins and secrets are used; empty for those of the bus."""
    scopes: dict[str, str] = {}
    """The view that a scope gives, by scope. A token needs one of them; the first that it has decides."""
    jwks_url: Text | None = None
    """The URL of the keys of the issuer; by default the one in its metadata."""
    introspection: Introspection | None = None
    """How to ask about tokens that are not JWTs; by default such tokens are refused."""

    def _check(self) -> None:
        parts = web_url(self.issuer)
        if parts is None or parts.query or parts.fragment:
            example = "expected the URL of an authorization server, such as https://auth.example.com"
            raise Location().error(example, "issuer")
        if self.jwks_url is not None and web_url(self.jwks_url) is None:
            raise Location().error("expected a URL that starts with http:// or https://", "jwks_url")
        if not all(map(_SCOPE.fullmatch, self.scopes)):
            raise Location().error("a scope contains a space or a quote; write one scope per key", "scopes")


class ServeAuth(ServeModel):
    """How clients prove who they are."""

    keys: bool = False
    """Whether the keys of `toolbus key add` let clients in."""
    oauth: TokenIssuer | None = None
    """The authorization server whose tokens let clients in."""

    @property
    def is_needed(self) -> bool:
        """Whether a client must prove who it is."""
        return self.keys or self.oauth is not None


def read_auth(value: JSON, location: Location, key: str) -> ServeAuth:
    fields = set_fields(value, location, key)
    if "oauth" in fields:
        within = f"{key}.oauth"
        oauth = set_fields(fields["oauth"], location, within)
        if isinstance(oauth.get("audience"), str):
            oauth["audience"] = (oauth["audience"],)
        scopes = location.mapping(oauth.get("scopes", {}), f"{within}.scopes")
        if not all(isinstance(text, str) for pair in scopes.items() for text in pair):
            raise location.error("expected a mapping of scopes to views", f"{within}.scopes")
        if "introspection" in oauth:
            asking = f"{within}.introspection"
            oauth["introspection"] = built(
                Introspection, set_fields(oauth["introspection"], location, asking), location, asking
            )
        fields["oauth"] = built(TokenIssuer, oauth, location, within)
    return built(ServeAuth, fields, location, key)


def set_fields(value: JSON, location: Location, key: str) -> dict[str, JSON]:
    """The keys of a mapping that are set."""
    if isinstance(value, ConfigModel):
        return {name: getattr(value, name) for name in value.model_fields_set}
    return {str(name): field for name, field in location.mapping(value, key).items() if field is not None}


def built(kind: type[M], fields: dict[str, JSON], location: Location, key: str) -> M:
    try:
        return kind(**fields)
    except ConfigError as error:
        raise location.relocated(error, lambda own: f"{key}.{own}" if own else key) from None
