"""The freshness of a modern server's answer, and who may share it: its `ttlMs` and `cacheScope`."""

import time
from typing import Literal, NamedTuple, TypeAlias

from toolbus.schema.values import JSON, JSONObject

ListKind: TypeAlias = Literal["tools", "resources", "templates", "prompts", "skills"]
KINDS: tuple[ListKind, ...] = ("tools", "resources", "templates", "prompts", "skills")
"""The lists of a server; each is fresh for as long as the server says."""
clock = time.monotonic
MAX_TTL = 24 * 60 * 60.0
"""Seconds; servers may say more."""


class Freshness(NamedTuple):
    """The freshness of an answer."""

    seconds: float
    """The time for which it stays fresh."""
    is_public: bool
    """Whether it is the same for everybody."""

    @property
    def hints(self) -> dict[str, JSON]:
        """The fields of an answer."""
        return {
            "ttlMs": max(0, int(self.seconds * 1000)),
            "cacheScope": "public" if self.is_public else "private",
        }


STALE = Freshness(0.0, False)


def freshness_of(answer: JSONObject) -> Freshness | None:
    """The freshness that a server declares; None if it declares none. An invalid TTL is treated as 0."""
    ttl = answer.get("ttlMs")
    if ttl is None:
        return None
    is_valid = isinstance(ttl, int | float) and not isinstance(ttl, bool) and ttl > 0
    # Compared before it is divided: an integer may be too large for a float.
    seconds = min(ttl, MAX_TTL * 1000) / 1000 if is_valid else 0.0
    return Freshness(seconds, answer.get("cacheScope") == "public")


def clean_hints(answer: dict[str, JSON], *, fill: bool = False) -> None:
    """Replace invalid hints in an answer, and missing ones with `fill`: the SDK would refuse all of it."""
    said = freshness_of(answer)
    if said is not None or fill:
        answer.update((said or STALE).hints)
