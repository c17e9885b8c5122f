"""`serve.auth.sign_in`: the gateway's own authorization server, for teams without one."""

import re
from collections.abc import Collection, Iterator

from pydantic import ConfigDict

from toolbus.config.base import ConfigModel, Seconds
from toolbus.config.location import Location

_SCOPE = re.compile(r"[\x21\x23-\x5b\x5d-\x7e]+")
"""A scope of RFC 6749: no space, quote or backslash."""
TAKEN = ("/authorize", "/token", "/register", "/revoke", "/sign-in")
"""The paths of the authorization server; the MCP endpoint cannot have one of them."""


class SignInSetting(ConfigModel):
    """The sign-in of people, and the tokens of their clients."""

    model_config = ConfigDict(defer_build=True)
    _expects = {"scopes": "expected a mapping of scopes to views"}

    invites: bool = True
    """Whether the links of `toolbus key invite` let people sign in."""
    scopes: dict[str, str] = {}
    """The view that a scope gives, by scope; by default each view has a scope with its name."""
    token_seconds: Seconds = 900
    """Seconds for which an access token is valid; clients renew it by themselves."""
    grant_seconds: Seconds = 30 * 86_400
    """Seconds after which a person has to sign in again."""

    def _check(self) -> None:
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
