"""The token of a client of the gateway is exchanged for one for a server (RFC 8693)."""

from collections.abc import Hashable
from contextlib import AbstractAsyncContextManager, nullcontext

from toolbus.connect.auth.credentials import SubjectToken
from toolbus.connect.auth.failure import AuthFailure
from toolbus.state.tokens.tokens import Login

_GRANT = "urn:ietf:params:oauth:grant-type:token-exchange"
_ACCESS_TOKEN = "urn:ietf:params:oauth:token-type:access_token"
NO_CLIENT_TOKEN = (
    "the server works for clients of the gateway that sent an OAuth token, and this caller sent none"
)


def subject_of(subject: SubjectToken | None) -> str:
    """The token to exchange; AuthFailure if there is none, or it has expired."""
    if subject is None:
        hint = "sign in to the gateway with OAuth; a key, or no credential, cannot be exchanged"
        raise AuthFailure(NO_CLIENT_TOKEN, hint=hint, step="client token")
    if subject.has_expired:
        hint = "the next request with a new token renews it"
        raise AuthFailure("the token of the client has expired", hint=hint, step="token")
    return subject.value


def exchange_form(subject: SubjectToken | None, audience: str | None) -> dict[str, str]:
    """The request for a token, without its resource and scope."""
    form = {
        "grant_type": _GRANT,
        "subject_token": subject_of(subject),
        "subject_token_type": _ACCESS_TOKEN,
        "requested_token_type": _ACCESS_TOKEN,
    }
    return {**form, "audience": audience} if audience else form


class TokenCache:
    """The token that was issued to one client for one server; all links of the client share it."""

    def __init__(self, subject: SubjectToken | None, place: Hashable) -> None:
        """`place` is all that the token depends on, besides the subject."""
        self._subject = subject
        self._place = place

    @property
    def login(self) -> Login | None:
        return None if self._subject is None else self._subject.issued.get(self._place)

    def keep(self, login: Login) -> None:
        if self._subject is not None:
            self._subject.issued[self._place] = login

    @property
    def lock(self) -> AbstractAsyncContextManager[object]:
        return nullcontext() if self._subject is None else self._subject.locks[self._place]
