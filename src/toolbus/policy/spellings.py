"""The other ways to read a URI, so that an encoded path or `..` does not lead around a rule.

A model chooses the URIs it reads, and what a server makes of them is unknown: it may decode them, once or
more often, and it may resolve `..`.
"""

from urllib.parse import unquote

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
