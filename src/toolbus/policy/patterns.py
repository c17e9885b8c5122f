"""Globs on `server/name`.

A name is matched as it is. A rule that asks or denies also matches a name that looks the same (another case,
characters that look alike, hidden characters) and any reading of a URI. A rule that allows matches a URI only
if it matches however the URI is read.
"""

import re
from collections.abc import Callable
from fnmatch import translate
from typing import NamedTuple
from urllib.parse import unquote

from toolbus.core.text.lookalikes import looks
from toolbus.policy.target import Target


class _Parts(NamedTuple):
    """A pattern, divided between server and name."""

    server: Callable[[str], bool]
    name: Callable[[str], bool]
    looks: Callable[[str], bool]
    """Whether it matches a name by what both look like."""


class Pattern:
    """One glob. A `*` for the server never reaches into the name; one in the name also matches slashes."""

    def __init__(self, text: str, *, loosens: bool) -> None:
        """`loosens`: of a rule that allows."""
        self.text = text
        self._loosens = loosens
        self._divided: dict[int, _Parts | None] = {}

    def names(self, alias: str) -> bool:
        """Whether it may match anything of this server."""
        return any(parts.server(alias) for parts in self._ways(alias))

    def matches(self, target: Target) -> bool:
        """Whether it matches the server and the name."""
        return any(
            parts.server(target.server) and self._fits(parts, target) for parts in self._ways(target.server)
        )

    def matches_as_written(self, target: Target) -> bool:
        """Whether it matches the name itself, and not only one that it resembles."""
        ways = self._ways(target.server)
        return any(parts.server(target.server) and parts.name(target.name) for parts in ways)

    def _fits(self, parts: _Parts, target: Target) -> bool:
        name = target.name
        if self._loosens:
            return parts.name(name) and (target.kind != "resource" or self._fits_every_reading(parts, name))
        if parts.name(name) or parts.looks(name):
            return True
        if target.kind != "resource":
            return False
        readings = spellings(name)
        return readings is None or any(map(parts.looks, readings))

    def _fits_every_reading(self, parts: _Parts, uri: str) -> bool:
        if self.text.endswith(f"/{uri}"):
            return True  # exactly this one was meant
        readings = spellings(uri)
        return readings is not None and all(map(parts.name, readings))

    def _ways(self, alias: str) -> list[_Parts]:
        """How it can be divided for a server; in one way, unless the alias has slashes itself."""
        ways = (self._division(number) for number in {1, alias.count("/") + 1})
        return [parts for parts in ways if parts is not None]

    def _division(self, number: int) -> _Parts | None:
        """Divided at the slash of this number; None if there are fewer."""
        if number not in self._divided:
            self._divided[number] = self._divide(number)
        return self._divided[number]

    def _divide(self, number: int) -> _Parts | None:
        if self.text == "*":
            return _Parts(_glob("*"), _glob("*"), _glob("*"))
        steps = self.text.split("/")
        if len(steps) <= number:
            return None
        server, name = "/".join(steps[:number]), "/".join(steps[number:])
        return _Parts(_glob(server), _glob(name), _looks_like(name))


def _looks_like(pattern: str) -> Callable[[str], bool]:
    globs = [_glob(form) for form in looks(pattern)]

    def is_alike(text: str) -> bool:
        # Only a name with other than small letters can have an `l` that is an `I`, or the reverse.
        is_plain = text.isascii() and text == text.lower()
        forms = looks(text)[:2] if is_plain else looks(text)
        return any(glob(form) for glob, form in zip(globs, forms, strict=False))

    return is_alike


def _glob(pattern: str) -> Callable[[str], bool]:
    """As `fnmatchcase`, whose cache is too small for many rules; a text equal to the pattern matches, too."""
    match = re.compile(translate(pattern)).match
    return lambda text: text == pattern or match(text) is not None


_MOST_DECODINGS = 4
_IGNORED = str.maketrans("", "", "\t\r\n")
"""Characters that parsers of URLs remove, wherever they are."""


def spellings(uri: str) -> tuple[str, ...] | None:
    """What a server may take a URI for; None if it is encoded too many times to tell."""
    found: dict[str, None] = {}
    text = uri.translate(_IGNORED).strip()
    for _ in range(_MOST_DECODINGS):
        found[_resolved(text)] = None
        decoded = unquote(text)
        if decoded == text:
            return tuple(found)
        text = decoded
    return None


def _resolved(uri: str) -> str:
    """Without `.`, `..` and empty steps, and with the parts in small letters whose case does not count."""
    scheme, colon, rest = uri.replace("\\", "/").partition(":")
    if not colon:
        scheme, rest = "", scheme
    authority = ""
    if rest.startswith("//"):
        authority, slash, rest = rest[2:].partition("/")
        authority = "//" + ("" if authority.lower() == "localhost" else authority.lower())
        rest = slash + rest
    if "//" not in rest and "/." not in rest:
        return f"{scheme.lower()}{colon}{authority}{rest}"
    steps: list[str] = []
    parts = rest.split("/")
    for step in parts:
        if step == "..":
            del steps[-1:]
        elif step and step != ".":
            steps.append(step)
    start = "/" if rest.startswith("/") else ""
    end = "/" if steps and parts[-1] in ("", ".", "..") else ""
    return f"{scheme.lower()}{colon}{authority}{start}{'/'.join(steps)}{end}"
