"""Who may open the console: a token from `toolbus console` is exchanged once for a session with two secrets.

One is in the path of every URL of the session, the other in a cookie. Neither opens anything alone: a browser
sends cookies to every port of a host, and URLs end up in histories and in the logs of proxies.
"""

import secrets
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from hashlib import sha256
from typing import NamedTuple

from toolbus.console.page import Notice

TOKEN_SECONDS = 600.0
SESSION_SECONDS = 12 * 3600.0
MOST_TOKENS = 16
MOST_SESSIONS = 64
"""The oldest gives way to one more."""
MOST_NOTICES = 8


class SessionSecrets(NamedTuple):
    """The two secrets of a session."""

    path: str
    """The part of its URLs that follows `/console/`."""
    cookie: str


@dataclass(slots=True, kw_only=True)
class Session:
    """A browser that was let in."""

    name: str
    """Says nothing about its secrets."""
    cookie: bytes = field(repr=False)
    """The digest of its cookie."""
    ends: float
    notices: list[Notice] = field(default_factory=list[Notice])
    """What its next page says."""

    def say(self, notice: Notice | None) -> None:
        """Have the next page say something."""
        if notice is not None:
            self.notices = [*self.notices, notice][-MOST_NOTICES:]

    def take_notices(self) -> list[Notice]:
        """What was not said yet."""
        taken, self.notices = self.notices, []
        return taken


class Entry:
    """The tokens and sessions of one process. Of each secret, only the digest is kept."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.secret = secrets.token_urlsafe(32)
        """Who has it may ask for tokens: the user who can read the private file."""
        self._clock = clock
        self._tokens: OrderedDict[bytes, float] = OrderedDict()
        """When each ends."""
        self._sessions: OrderedDict[bytes, Session] = OrderedDict()
        """By the digests of their paths, so that the time of a look-up tells nothing about a path."""

    def new_token(self, secret: str) -> str | None:
        """A token for one browser; None if the secret is wrong."""
        if not secrets.compare_digest(secret.encode(errors="replace"), self.secret.encode()):
            return None
        token = secrets.token_urlsafe(32)
        self._tokens[_digest(token)] = self._clock() + TOKEN_SECONDS
        while len(self._tokens) > MOST_TOKENS:
            self._tokens.popitem(last=False)
        return token

    def enter(self, token: str) -> SessionSecrets | None:
        """The secrets of a new session; None if the token is wrong, used or too old."""
        ends = self._tokens.pop(_digest(token), 0.0)
        now = self._clock()
        if now >= ends:
            return None
        given = SessionSecrets(secrets.token_urlsafe(32), secrets.token_urlsafe(32))
        self._sessions[_digest(given.path)] = Session(
            name=secrets.token_hex(8), cookie=_digest(given.cookie), ends=now + SESSION_SECONDS
        )
        while len(self._sessions) > MOST_SESSIONS:
            self._sessions.popitem(last=False)
        return given

    def session(self, path: str, cookies: Iterable[str]) -> Session | None:
        """The session of a path, if one of the cookies is its own; None if it is not, or the session ended.

        Other programs on the host can add cookies of the same name to a request; they are ignored.
        """
        key = _digest(path)
        found = self._sessions.get(key)
        if found is None or not any(secrets.compare_digest(found.cookie, _digest(one)) for one in cookies):
            return None
        if self._clock() >= found.ends:
            del self._sessions[key]
            return None
        return found


def _digest(secret: str) -> bytes:
    return sha256(secret.encode(errors="replace")).digest()
