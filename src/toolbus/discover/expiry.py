"""When each list of a server expires, and may be requested again.

Nothing happens by itself when a list expires: it is requested when somebody needs it.
"""

from collections.abc import Iterable

from toolbus.core.values import freshness
from toolbus.core.values.freshness import ListKind
from toolbus.discover.listing import ListResult

EVERY = 1.0
"""Seconds between two requests of a list because it has expired, whatever its server says."""
NAME_EVERY = 10.0
"""Seconds after which an unknown name is a reason to list tools again, and a failed list may be repeated."""


class Expiry:
    """The expiry of the lists of one server."""

    def __init__(self) -> None:
        self._begun: dict[ListKind, float] = {}
        self._listed: dict[ListKind, float] = {}
        self._until: dict[ListKind, float] = {}
        """Until when each is fresh, if the server says so."""
        self.announced: frozenset[ListKind] = frozenset()
        """The lists whose changes the server announces."""

    def begin(self, kinds: Iterable[ListKind]) -> None:
        """These are being listed."""
        self._begun.update(dict.fromkeys(kinds, freshness.clock()))

    def end(self, kind: ListKind, result: ListResult) -> None:
        """One was listed, or that failed."""
        now = self._listed[kind] = freshness.clock()
        until, had_expiry = result.fresh_until, self._until.pop(kind, None) is not None
        if until is None and result.problem and had_expiry:
            until = now + NAME_EVERY
        if until is not None:
            self._until[kind] = until

    def pause(self, kinds: Iterable[ListKind]) -> float:
        """Seconds before these may be requested again."""
        return max((self._begun.get(kind, 0.0) for kind in kinds), default=0.0) + EVERY - freshness.clock()

    def is_begun_since(self, kind: ListKind, moment: float) -> bool:
        """Whether a list was requested after that."""
        return self._begun.get(kind, 0.0) >= moment

    def is_due(self, kind: ListKind) -> bool:
        """Whether a list has expired, and was not requested just now."""
        return self.is_expired(kind) and self.pause([kind]) <= 0

    def is_due_for_name(self) -> bool:
        """Whether tools are listed again because a name is unknown."""
        age = freshness.clock() - self._begun.get("tools", freshness.clock())
        return self.is_expired("tools") or ("tools" not in self.announced and age >= NAME_EVERY)

    def is_expired(self, kind: ListKind) -> bool:
        """Whether a list is no longer fresh."""
        until = self._until.get(kind)
        if until is None or until > freshness.clock():
            return False
        # A TTL of 0 is what servers send that know no better: if they announce changes, that counts.
        return kind not in self.announced or until > self._listed[kind]

    def seconds_left(self, kind: ListKind) -> float | None:
        """For how much longer a list is fresh; None if the server does not say."""
        until = self._until.get(kind)
        return None if until is None else max(0.0, until - freshness.clock())
