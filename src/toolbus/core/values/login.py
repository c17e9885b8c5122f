"""A person signs in to a server: the request that a handler gets, and the command to type."""

import shlex
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TypeAlias


@dataclass(frozen=True, slots=True, kw_only=True)
class LoginRequest:
    """Somebody has to sign in at `url`, in a browser."""

    server: str
    user: str
    """The user who signs in; empty if the bus has only one."""
    url: str = field(repr=False)
    """The sign-in page: an http or https URL."""
    redirect_uri: str
    """The URL that the browser is sent back to; empty if it is not (device flow)."""
    code: str | None = field(default=None, repr=False)
    """The code to enter at `url`, from any device; then nothing is sent back here."""
    names_issuer: bool = False
    """Whether the URL that the browser is sent back to must name its issuer (`iss`); a code alone is not
    enough then."""


LoginHandler: TypeAlias = Callable[[LoginRequest], Awaitable[str | None]]
"""Shows `url` to the person. Returns the URL that the browser was sent back to, or the code in it, if the
person had to copy it; None to cancel. It is cancelled as soon as the browser has come back by itself."""


def login_line(server: str, user: str = "", scopes: str = "") -> str:
    """The command with which a person signs in."""
    words = ["toolbus", "login", server]
    words += ["--user", user] if user else []
    words += ["--scopes", scopes] if scopes else []
    return shlex.join(words)
