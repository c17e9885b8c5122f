"""`serve.auth.sign_in`: the gateway's own authorization server, for teams without one."""

import re
from collections.abc import Collection, Iterator
from typing import Annotated

from pydantic import ConfigDict, Field, field_serializer

from toolbus.config.base import ConfigModel, Names, Seconds, Text, TextOrTexts
from toolbus.config.location import Location
from toolbus.config.secrets.reference import MASK, is_shown, parsed
from toolbus.config.settings.auth import web_url

_SCOPE = re.compile(r"[\x21\x23-\x5b\x5d-\x7e]+")
"""A scope of RFC 6749: no space, quote or backslash."""
TAKEN = ("/authorize", "/token", "/register", "/revoke", "/sign-in")
"""The paths of the authorization server; the MCP endpoint cannot have one of them."""


class OidcGroups(ConfigModel):
    """The groups of people, and their views."""

    model_config = ConfigDict(defer_build=True)
    _expects = {"views": "expected a mapping of groups to views"}

    claim: Text = "groups"
    """The claim of the ID token or the user info that has the groups of a person: a text, or a list."""
    views: Annotated[dict[str, TextOrTexts], Field(min_length=1)]
    """The views of a group, by group: one or a list. A person without one of the groups has no access."""


class OidcSetting(ConfigModel):
    """The OpenID Connect provider that says who people are."""

    model_config = ConfigDict(defer_build=True)

    issuer: Text
    """The URL of the provider, exactly as its ID tokens have it in `iss`."""
    client_id: Text
    """The ID of the gateway there; register `PUBLIC_URL/sign-in/callback` as its redirect URI."""
    client_secret: Text | None = Field(default=None, repr=False)
    """The secret of the gateway there, preferably a reference such as `${OIDC_SECRET}`."""
    scopes: Names = ()
    """The scopes to ask for besides `openid`, such as `email` or `groups`."""
    user: Text = "sub"
    """The claim that names the user whose logins and secrets are used."""
    groups: OidcGroups
    """The groups that have access, and their views."""

    @field_serializer("client_secret")
    def _masked(self, text: str | None) -> str | None:
        """A reference as written; a secret itself, or a default, is not shown."""
        return text if text is None or is_shown(text) else MASK

    def _check(self) -> None:
        parts = web_url(self.issuer)
        if parts is None or parts.query or parts.fragment:
            example = "expected the URL of an OpenID Connect provider, such as https://login.example.com"
            raise Location().error(example, "issuer")
        if self.client_secret is not None:
            parsed(self.client_secret, key="client_secret")


class SignInSetting(ConfigModel):
    """The sign-in of people, and the tokens of their clients."""

    model_config = ConfigDict(defer_build=True)
    _expects = {"scopes": "expected a mapping of scopes to views"}

    invites: bool = True
    """Whether the links of `toolbus key invite` let people sign in."""
    oidc: OidcSetting | None = None
    """The OpenID Connect provider that says who people are."""
    scopes: dict[str, str] = {}
    """The view that a scope gives, by scope; by default each view has a scope with its name."""
    token_seconds: Seconds = 900
    """Seconds for which an access token is valid; clients renew it by themselves."""
    grant_seconds: Seconds = 30 * 86_400
    """Seconds after which a person has to sign in again."""

    def _check(self) -> None:
        if not self.invites and self.oidc is None:
            raise Location().error("nobody could sign in; leave it out, or set oidc", "invites")
        check_scopes(self.scopes)


def check_scopes(scopes: Collection[str]) -> None:
    """ConfigError if one of them is not a scope."""
    if not all(map(_SCOPE.fullmatch, scopes)):
        raise Location().error("a scope contains a space or a quote; write one scope per key", "scopes")


def taken_path_problem(path: str) -> Iterator[str]:
    """The problem with the path of the MCP endpoint beside the authorization server."""
    for taken in TAKEN:
        if f"{path}/".startswith(f"{taken}/"):
            yield f"{taken} belongs to the authorization server (auth.sign_in); choose another, such as /mcp"
