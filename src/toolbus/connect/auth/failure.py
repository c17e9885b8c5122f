"""The reasons for a failed sign-in, raised where the server is not known yet."""

from typing import Literal, TypeAlias

Step: TypeAlias = Literal[
    "resource metadata", "authorization server", "client", "client token", "sign-in", "token", "store"
]


class AuthFailure(Exception):
    """Signing in is not possible, or not allowed; trying again would not help."""

    def __init__(self, reason: str, *, hint: str = "", step: Step | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.hint = hint
        self.step: Step | None = step


class Unreachable(AuthFailure):
    """A server did not respond: it may, later."""


class Rejected(AuthFailure):
    """The authorization server rejected a request for a token."""

    def __init__(self, error: str, description: str = "") -> None:
        super().__init__(f"{error} ({description})" if description else error, step="token")
        self.error = error


class PersonNeeded(AuthFailure):
    """Somebody has to sign in, with these scopes in addition."""

    def __init__(self, reason: str, *, scopes: str = "") -> None:
        super().__init__(reason)
        self.scopes = scopes


MAX_LENGTH = 300


def shown(value: object) -> str:
    """A text of a server for a message: one line, printable, not too long."""
    text = "".join(
        character if character.isprintable() else " " for character in str(value)[: MAX_LENGTH + 1]
    )
    if len(text) > MAX_LENGTH:
        text = text.rpartition(" ")[0]  # the last word is cut: as a part of a secret, it would not be hidden
    return " ".join(text.split()) or "no reason given"
