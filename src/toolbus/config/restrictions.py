"""Keys that restrict a server. A misspelled one is never ignored: that would allow what it forbids."""

from collections.abc import Iterable, Mapping
from difflib import get_close_matches

from toolbus.core.values.records import JSON

RESTRICTION_KEYS = ("include", "exclude", "enabled", "disabled", "sandbox", "policy", "lock", "trust")
"""Keys that restrict in some host's dialect, even if they have no meaning here."""

_NO_SANDBOX = "it is another host's key, so the server is not in a sandbox; set sandbox in a toolbus.yaml"
_PROMISES = {
    "trust": "in this file it is another host's key; only a toolbus.yaml can trust a server's annotations",
    "sandbox": _NO_SANDBOX,
    "sandboxEnabled": _NO_SANDBOX,
}

# Stricter than for a suggestion: a host's `excludeTools` is not a misspelled `exclude`.
_CLOSE = 0.8
_LONGER_BY = 2


def closest_restriction(key: object, words: Iterable[str]) -> str | None:
    """The restricting key that was most likely meant, if any."""
    plain = {_plain(word): word for word in words}
    given = _plain(str(key))
    alike = [word for word in plain if abs(len(word) - len(given)) <= _LONGER_BY]
    close = get_close_matches(given, alike, n=1, cutoff=_CLOSE)
    return plain[close[0]] if close else None


def promise_warnings(keys: Mapping[JSON, JSON]) -> tuple[str, ...]:
    """A warning about each key on which a user of another host relies, and which has no effect here."""
    return tuple(
        f"{key} is ignored: {_PROMISES[key]}" for key, value in keys.items() if key in _PROMISES and value
    )


def _plain(word: str) -> str:
    return word.lower().replace("_", "").replace("-", "")
