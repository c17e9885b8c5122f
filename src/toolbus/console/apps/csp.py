"""The rules for the frame of an app: the content security policy and the permissions that it asks for.

Everything is denied unless the resource names it. Each source is checked, because a server could end a
directive early and begin one of its own.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from ipaddress import ip_address

from toolbus.core.values.records import JSON, JSONObject
from toolbus.schema.values import entries_of, is_array

MOST_SOURCES = 32
"""The sources of one kind; the others are ignored."""
PERMISSIONS: Mapping[str, str] = {
    "camera": "camera",
    "microphone": "microphone",
    "geolocation": "geolocation",
    "clipboardWrite": "clipboard-write",
}
"""The permissions that a resource may ask for, and the features of browsers."""
_LABEL = "[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?"
_SOURCE = re.compile(rf"(https?|wss?)://((?:\*\.{_LABEL}\.)?{_LABEL}(?:\.{_LABEL})*)(?::\d{{1,5}})?")
_LONGEST = 255
_KINDS = ("connectDomains", "resourceDomains", "frameDomains", "baseUriDomains")


@dataclass(frozen=True, slots=True, kw_only=True)
class AppPolicy:
    """The rules for one app."""

    sources: Mapping[str, tuple[str, ...]]
    """The origins that it may use, by the kinds of the extension."""
    ignored: tuple[str, ...]
    """Sources that are none, or that lead to this machine."""
    permissions: tuple[str, ...]
    """The permissions that it asks for."""

    def header(self, ancestors: Sequence[str]) -> str:
        """The value of the header `Content-Security-Policy`; only the ancestors may contain the frame."""
        loaded, connected, framed, based = (self.sources.get(kind, ()) for kind in _KINDS_BY_USE)
        directives = {
            "default-src": ("'none'",),
            "script-src": ("'unsafe-inline'", *loaded),
            "style-src": ("'unsafe-inline'", *loaded),
            "img-src": ("data:", "blob:", *loaded),
            "font-src": ("data:", *loaded),
            "media-src": ("data:", "blob:", *loaded),
            "worker-src": ("blob:", *loaded),
            "connect-src": connected or ("'none'",),
            "frame-src": framed or ("'none'",),
            "base-uri": based or ("'none'",),
            "object-src": ("'none'",),
            "form-action": ("'none'",),
            "frame-ancestors": tuple(ancestors),
            # Also if its URL is opened in a tab: never an origin, and never a window or a page of its own.
            "sandbox": ("allow-scripts", "allow-forms"),
        }
        return "; ".join(" ".join((name, *values)) for name, values in directives.items())

    def allow(self, granted: Sequence[str]) -> str:
        """The features that a person granted, as the attribute `allow` of a frame."""
        return "; ".join(PERMISSIONS[name] for name in self.permissions if name in granted)


_KINDS_BY_USE = ("resourceDomains", "connectDomains", "frameDomains", "baseUriDomains")


def app_policy(ui: JSONObject, own_host: str) -> AppPolicy:
    """The rules that the `_meta.ui` of a resource asks for; `own_host` is the host of the console."""
    csp = entries_of(ui.get("csp"))
    sources, ignored = dict[str, tuple[str, ...]](), list[str]()
    for kind in _KINDS:
        given = csp.get(kind)
        found = dict[str, None]()
        for one in given if is_array(given) else ():
            source = _source(one, own_host)
            if source is None or len(found) >= MOST_SOURCES:
                ignored.append(str(one)[:_LONGEST])
            else:
                found[source] = None
        if found:
            sources[kind] = tuple(found)
    wanted = entries_of(ui.get("permissions"))
    permissions = tuple(name for name in PERMISSIONS if wanted.get(name) not in (None, False))
    return AppPolicy(sources=sources, ignored=tuple(ignored[:MOST_SOURCES]), permissions=permissions)


def _source(given: JSON, own_host: str) -> str | None:
    """An origin as a policy may have it; None for anything else, and for the host of the console."""
    if not isinstance(given, str) or len(given) > _LONGEST:
        return None
    source = given.lower().removesuffix("/")
    found = _SOURCE.fullmatch(source)
    if found is None:
        return None
    return None if found[2] == own_host or _leads_here(found[2]) else source


def _leads_here(host: str) -> bool:
    """Test whether a host is this machine, or a number that a browser may take for it.

    Gateways and other servers of the user listen there, and many of them ask nobody for a password.
    """
    last = host.rpartition(".")[2]
    if last == "localhost":
        return True
    if not last[0].isdigit():
        return False
    try:
        address = ip_address(host)
    except ValueError:
        return True
    return address.is_loopback or address.is_unspecified or address.is_link_local
