"""Keys that restrict a server. A misspelled one is never ignored: what it forbids would be allowed."""

from collections.abc import Iterable
from difflib import get_close_matches

RESTRICTION_KEYS = ("include", "exclude", "enabled", "disabled", "sandbox", "policy", "lock", "trust")
"""What restricts in some host's dialect, whether it has a meaning here or not."""

# Closer than for a hint: `excludeTools` of a host is not a misspelled `exclude`.
_CLOSE = 0.8
_LONGER_BY = 2


def closest_restriction(key: object, words: Iterable[str]) -> str | None:
    """The restricting key that was most likely meant, if any of the words."""
    plain = {_plain(word): word for word in words}
    given = _plain(str(key))
    alike = [word for word in plain if abs(len(word) - len(given)) <= _LONGER_BY]
    close = get_close_matches(given, alike, n=1, cutoff=_CLOSE)
    return plain[close[0]] if close else None


def _plain(word: str) -> str:
    return word.lower().replace("_", "").replace("-", "")
