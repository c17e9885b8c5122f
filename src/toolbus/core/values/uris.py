"""URIs of resources, and those that they are below."""

from collections.abc import Collection

_LONG = 4_096
"""Characters of a URI from which on its parents are not looked up one by one: they may be too many."""


def within(uri: str, parents: Collection[str]) -> list[str]:
    """Those of the parents that a URI is, or is below; the outermost first, unless the URI is very long."""
    whole = f"{uri}/"
    if len(uri) > _LONG:
        return [one for one in parents if whole.startswith(f"{one.removesuffix('/')}/")]
    found: list[str] = []
    at = whole.find("/")
    while at >= 0:
        found.extend(one for one in (whole[:at], whole[: at + 1]) if one in parents)
        at = whole.find("/", at + 1)
    return list(dict.fromkeys(found))  # of "a//", both slashes end "a/"
